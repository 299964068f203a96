/* A store at one moment: a map from namespaces to spaces, which are maps from keys to bytes. */

#ifndef HOLDFAST_MOMENT_H
#define HOLDFAST_MOMENT_H

#include "trie.h"

typedef struct {
    PyObject_HEAD Node *root;
    Py_ssize_t count;
} Space;

static void space_dealloc(PyObject *self)
{
    node_release(((Space *)self)->root);
    PyObject_Free(self);
}

static PyTypeObject Space_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "holdfast.store._core.Space",
    .tp_basicsize = sizeof(Space),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_dealloc = space_dealloc,
};

static Space *space_new(Node *root, Py_ssize_t count)
{
    Space *space = PyObject_New(Space, &Space_Type);
    if (space != NULL) {
        space->root = root;
        space->count = count;
        if (root != NULL)
            root->refs++;
    }
    return space;
}

typedef struct {
    Node *root;
    Py_ssize_t count; /* of entries in all namespaces */
    Py_ssize_t bytes; /* of their values */
} Moment;

static Space *find_space(const Moment *moment, PyObject *namespace)
{
    void **found = node_find(moment->root, 0, hash_of(namespace), namespace);
    return found == NULL ? NULL : *found;
}

static PyObject *find_data(const Moment *moment, PyObject *namespace, PyObject *key)
{
    Space *space = find_space(moment, namespace);
    void **found = space == NULL ? NULL : node_find(space->root, 0, hash_of(key), key);
    return found == NULL ? NULL : *found;
}

/* Returns a space that is there, in a form that only this moment refers to. */
static Space *own_space(Moment *moment, PyObject *namespace)
{
    void **slot = node_find_own(&moment->root, hash_of(namespace), namespace);
    if (slot == NULL)
        return NULL;
    Space *space = *slot;
    if (Py_REFCNT(space) > 1) {
        Space *copy = space_new(space->root, space->count);
        if (copy == NULL)
            return NULL;
        *slot = copy;
        Py_DECREF(space);
        space = copy;
    }
    return space;
}

static int put_in_new_space(Moment *moment, PyObject *namespace, PyObject *key, PyObject *data)
{
    PyObject *nothing;
    Space *space = space_new(NULL, 1);
    if (space == NULL)
        return -1;
    int failed = node_put(&space->root, hash_of(key), key, data, &nothing);
    if (!failed)
        failed =
            node_put(&moment->root, hash_of(namespace), namespace, (PyObject *)space, &nothing);
    Py_DECREF(space);
    return failed;
}

static int remove_entry(Moment *moment, PyObject *namespace, Space *space, PyObject *key)
{
    if (node_remove(&space->root, 0, hash_of(key), key) < 0)
        return -1;
    moment->count--;
    if (--space->count > 0)
        return 0;
    /* Every node on the way is ours already: this cannot fail. */
    node_remove(&moment->root, 0, hash_of(namespace), namespace);
    if (slots_of(moment->root) == 0) {
        node_release(moment->root);
        moment->root = NULL;
    }
    return 0;
}

/* Puts data, or removes a key if it is NULL; `*old` becomes the reference to what was there. */
static int moment_put(Moment *moment, PyObject *namespace, PyObject *key, PyObject *data,
                      PyObject **old)
{
    *old = NULL;
    if (data == NULL) {
        PyObject *there = find_data(moment, namespace, key);
        if (there == NULL)
            return 0;
        Space *space = own_space(moment, namespace);
        Py_INCREF(there);
        if (space == NULL || remove_entry(moment, namespace, space, key) < 0) {
            Py_DECREF(there);
            return -1;
        }
        *old = there;
    }
    else if (find_space(moment, namespace) == NULL) {
        if (put_in_new_space(moment, namespace, key, data) < 0)
            return -1;
        moment->count++;
    }
    else {
        Space *space = own_space(moment, namespace);
        if (space == NULL || node_put(&space->root, hash_of(key), key, data, old) < 0)
            return -1;
        if (*old == NULL) {
            space->count++;
            moment->count++;
        }
    }
    moment->bytes +=
        (data == NULL ? 0 : PyBytes_GET_SIZE(data)) - (*old == NULL ? 0 : PyBytes_GET_SIZE(*old));
    return 0;
}

static void moment_become(Moment *moment, const Moment *other)
{
    Node *old = moment->root;
    *moment = *other;
    if (moment->root != NULL)
        moment->root->refs++;
    node_release(old);
}

#endif
