/* The type `Snapshot`: a store as it was at one moment. */

#ifndef HOLDFAST_SNAPSHOTS_H
#define HOLDFAST_SNAPSHOTS_H

#include "compare.h"
#include "reading.h"

typedef struct {
    PyObject_HEAD Moment at;
    uint64_t id;
    uint64_t parent; /* 0: none */
    double timestamp;
    PyObject *weak_references;
} Snapshot;

#define TAKEN(self) ((Snapshot *)(self))

static PyTypeObject Snapshot_Type;

static int check_snapshot(PyObject *given)
{
    if (PyObject_TypeCheck(given, &Snapshot_Type))
        return 0;
    PyErr_Format(PyExc_TypeError, "a Snapshot is needed, not '%.100s'", Py_TYPE(given)->tp_name);
    return -1;
}

static void snapshot_dealloc(PyObject *self)
{
    if (TAKEN(self)->weak_references != NULL)
        PyObject_ClearWeakRefs(self);
    node_release(TAKEN(self)->at.root);
    PyObject_Free(self);
}

static PyObject *snapshot_id(PyObject *self, void *Py_UNUSED(closure))
{
    return PyLong_FromUnsignedLongLong(TAKEN(self)->id);
}
static PyObject *snapshot_timestamp(PyObject *self, void *Py_UNUSED(closure))
{
    return PyFloat_FromDouble(TAKEN(self)->timestamp);
}
static PyObject *snapshot_size(PyObject *self, void *Py_UNUSED(closure))
{
    return PyLong_FromSsize_t(TAKEN(self)->at.bytes);
}
static PyObject *snapshot_keys(PyObject *self, void *Py_UNUSED(closure))
{
    return moment_list(&TAKEN(self)->at, NULL, NULL, 0);
}
static PyObject *snapshot_get(ARGUMENTS)
{
    return moment_get(&TAKEN(self)->at, "get", given, positional, by_name);
}
static PyObject *snapshot_items(ARGUMENTS)
{
    return moment_items(&TAKEN(self)->at, "items", given, positional, by_name);
}

static PyObject *snapshot_parent(PyObject *self, void *Py_UNUSED(closure))
{
    return TAKEN(self)->parent == 0 ? Py_NewRef(Py_None)
                                    : PyLong_FromUnsignedLongLong(TAKEN(self)->parent);
}

static PyObject *snapshot_get_data(ARGUMENTS)
{
    PyObject *namespace, *key, *nothing;
    if (take_place("get_data", given, positional, by_name, PLACE, 2, 2, &namespace, &key, &nothing)
        < 0)
        return NULL;
    PyObject *data = find_data(&TAKEN(self)->at, namespace, key);
    Py_DECREF(namespace);
    Py_DECREF(key);
    return Py_NewRef(data == NULL ? Py_None : data);
}

static PyObject *snapshot_repr(PyObject *self)
{
    PyObject *parent = snapshot_parent(self, NULL);
    if (parent == NULL)
        return NULL;
    PyObject *text =
        PyUnicode_FromFormat("Snapshot(id=%llu, size_bytes=%zd, parent=%R)",
                             (unsigned long long)TAKEN(self)->id, TAKEN(self)->at.bytes, parent);
    Py_DECREF(parent);
    return text;
}

enum { ADDED, REMOVED, CHANGED, KINDS };

static int append_new(PyObject *list, PyObject *item)
{
    if (item == NULL)
        return -1;
    int failed = PyList_Append(list, item);
    Py_DECREF(item);
    return failed;
}

static int is_equal(PyObject *old, PyObject *new)
{
    return old != NULL && new != NULL &&PyBytes_GET_SIZE(old) == PyBytes_GET_SIZE(new)
           && memcmp(PyBytes_AS_STRING(old), PyBytes_AS_STRING(new), (size_t)PyBytes_GET_SIZE(old))
                  == 0;
}

static int emit_space(void *context, PyObject *namespace, PyObject *old, PyObject *new)
{
    PyObject *nothing = Py_None;
    return append_new(context, PyTuple_Pack(3, namespace, old == NULL ? nothing : old,
                                            new == NULL ? nothing : new));
}

/* Returns the namespaces that differ, in order, with their spaces before and after, or None. */
static PyObject *list_changed_spaces(PyObject *base, PyObject *self)
{
    PyObject *spaces = PyList_New(0);
    if (spaces != NULL
        && (compare(TAKEN(base)->at.root, TAKEN(self)->at.root, 0, emit_space, spaces) < 0
            || PyList_Sort(spaces) < 0))
        Py_CLEAR(spaces);
    return spaces;
}

static int compare_spaces(PyObject *changed, Emit emit, void *context)
{
    PyObject *old = PyTuple_GET_ITEM(changed, 1), *new = PyTuple_GET_ITEM(changed, 2);
    return compare(old == Py_None ? NULL : ((Space *)old)->root,
                   new == Py_None ? NULL : ((Space *)new)->root, 0, emit, context);
}

static int emit_kind(void *context, PyObject *key, PyObject *old, PyObject *new)
{
    PyObject **keys = context;
    if (is_equal(old, new))
        return 0;
    return PyList_Append(keys[old == NULL ? ADDED : new == NULL ? REMOVED : CHANGED], key);
}

/* Moves keys, in order, to the end of a list of pairs. */
static int move_keys(PyObject *keys, PyObject *namespace, PyObject *pairs)
{
    /* Sorted as text, not as pairs: that is several times faster. */
    if (PyList_Sort(keys) < 0)
        return -1;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(keys); i++)
        if (append_new(pairs, pair_of_text(namespace, PyList_GET_ITEM(keys, i))) < 0)
            return -1;
    return PyList_SetSlice(keys, 0, PY_SSIZE_T_MAX, NULL);
}

static int fill_diff(PyObject *spaces, PyObject **pairs)
{
    PyObject *keys[KINDS] = {PyList_New(0), PyList_New(0), PyList_New(0)};
    int failed = keys[ADDED] == NULL || keys[REMOVED] == NULL || keys[CHANGED] == NULL ? -1 : 0;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(spaces) && !failed; i++) {
        PyObject *changed = PyList_GET_ITEM(spaces, i);
        failed = compare_spaces(changed, emit_kind, keys);
        for (int kind = 0; kind < KINDS && !failed; kind++)
            failed = move_keys(keys[kind], PyTuple_GET_ITEM(changed, 0), pairs[kind]);
    }
    for (int kind = 0; kind < KINDS; kind++)
        Py_XDECREF(keys[kind]);
    return failed;
}

static PyObject *snapshot_diff(ARGUMENTS)
{
    PyObject *base = take_one("diff", given, positional, by_name, BASE);
    if (base == NULL || check_snapshot(base) < 0)
        return NULL;
    PyObject *spaces = list_changed_spaces(base, self), *result = NULL;
    PyObject *pairs[KINDS] = {PyList_New(0), PyList_New(0), PyList_New(0)};
    if (spaces != NULL && pairs[ADDED] != NULL && pairs[REMOVED] != NULL && pairs[CHANGED] != NULL
        && fill_diff(spaces, pairs) == 0)
        result = Py_BuildValue("{sOsOsO}", "added", pairs[ADDED], "removed", pairs[REMOVED],
                               "changed", pairs[CHANGED]);
    Py_XDECREF(spaces);
    for (int kind = 0; kind < KINDS; kind++)
        Py_XDECREF(pairs[kind]);
    return result;
}

typedef struct {
    PyObject *namespace;
    PyObject *list;
} Differences;

static int emit_difference(void *context, PyObject *key, PyObject *old, PyObject *new)
{
    Differences *found = context;
    if (is_equal(old, new))
        return 0;
    return append_new(found->list,
                      PyTuple_Pack(4, found->namespace, key, old == NULL ? Py_None : old,
                                   new == NULL ? Py_None : new));
}

static PyObject *snapshot_differences(ARGUMENTS)
{
    PyObject *base = take_one("differences", given, positional, by_name, BASE);
    if (base == NULL || check_snapshot(base) < 0)
        return NULL;
    PyObject *spaces = list_changed_spaces(base, self);
    if (spaces == NULL)
        return NULL;
    Differences found = {NULL, PyList_New(0)};
    int failed = found.list == NULL ? -1 : 0;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(spaces) && !failed; i++) {
        found.namespace = PyTuple_GET_ITEM(PyList_GET_ITEM(spaces, i), 0);
        failed = compare_spaces(PyList_GET_ITEM(spaces, i), emit_difference, &found);
    }
    Py_DECREF(spaces);
    if (failed || PyList_Sort(found.list) < 0)
        Py_CLEAR(found.list);
    return found.list;
}

static PyMethodDef snapshot_methods[] = {
    METHOD("get", snapshot_get, "namespace, key, default=None",
           "Returns the value that a key had, or the default."),
    METHOD("get_data", snapshot_get_data, "namespace, key",
           "Returns the bytes of the value that a key had, or None."),
    METHOD("items", snapshot_items, "namespace=None, prefix=None",
           "Returns keys with their values; without a namespace, pairs with theirs."),
    METHOD("diff", snapshot_diff, "base",
           "Returns what leads from `base` to this one, at the cost of what differs."),
    METHOD("differences", snapshot_differences, "base",
           "Returns what `diff` does, with the bytes before and after."),
    {NULL},
};

static PyGetSetDef snapshot_properties[] = {
    {"id", snapshot_id, NULL, PyDoc_STR("Counts from 1 in each store."), NULL},
    {"timestamp", snapshot_timestamp, NULL, PyDoc_STR("When it was taken, in seconds since 1970."),
     NULL},
    {"parent", snapshot_parent, NULL, PyDoc_STR("The id of the one that was taken before it."),
     NULL},
    {"size_bytes", snapshot_size, NULL, PyDoc_STR("How much all values take as msgpack."), NULL},
    {"keys", snapshot_keys, NULL, PyDoc_STR("Every namespace with every key, in no order."), NULL},
    {NULL},
};

static PyTypeObject Snapshot_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "holdfast.Snapshot",
    .tp_doc = PyDoc_STR("A store as it was at one moment; nothing changes it."),
    .tp_basicsize = sizeof(Snapshot),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_dealloc = snapshot_dealloc,
    .tp_repr = snapshot_repr,
    .tp_methods = snapshot_methods,
    .tp_getset = snapshot_properties,
    .tp_weaklistoffset = offsetof(Snapshot, weak_references),
};

#endif
