/* The type `Reader`: a store at one moment, to read. */

#ifndef HOLDFAST_READING_H
#define HOLDFAST_READING_H

#include "arguments.h"
#include "moment.h"
#include "values.h"

static PyObject *moment_get(const Moment *moment, const char *method, PyObject *const *given,
                            Py_ssize_t positional, PyObject *by_name)
{
    PyObject *namespace, *key, *otherwise;
    if (take_place(method, given, positional, by_name, PLACE, 2, 3, &namespace, &key, &otherwise)
        < 0)
        return NULL;
    PyObject *data = find_data(moment, namespace, key);
    Py_DECREF(namespace);
    Py_DECREF(key);
    if (data != NULL)
        return decode_data(data);
    return Py_NewRef(otherwise == NULL ? Py_None : otherwise);
}

typedef struct {
    PyObject *list;
    PyObject *prefix;    /* NULL: any */
    PyObject *namespace; /* NULL: without it */
    int with_values;
} Listing;

/* Text cannot be part of a cycle: the garbage collector need not look at such a pair. */
static PyObject *pair_of_text(PyObject *first, PyObject *second)
{
    PyObject *pair = PyTuple_Pack(2, first, second);
    if (pair != NULL)
        PyObject_GC_UnTrack(pair);
    return pair;
}

static int begins_with(PyObject *text, PyObject *prefix)
{
    int kind = PyUnicode_KIND(text);
    if (kind != (int)PyUnicode_KIND(prefix))
        return (int)PyUnicode_Tailmatch(text, prefix, 0, PY_SSIZE_T_MAX, -1);
    Py_ssize_t length = PyUnicode_GET_LENGTH(prefix);
    return length <= PyUnicode_GET_LENGTH(text)
           && memcmp(PyUnicode_DATA(text), PyUnicode_DATA(prefix), (size_t)(length * kind)) == 0;
}

static int list_entry(void *context, PyObject *key, PyObject *data)
{
    Listing *listing = context;
    if (listing->prefix != NULL) {
        int begins = begins_with(key, listing->prefix);
        if (begins <= 0)
            return begins;
    }
    PyObject *item =
        listing->namespace == NULL ? Py_NewRef(key) : pair_of_text(listing->namespace, key);
    if (item != NULL && listing->with_values) {
        PyObject *value = decode_data(data);
        PyObject *with_value = value == NULL ? NULL : PyTuple_Pack(2, item, value);
        Py_XDECREF(value);
        Py_SETREF(item, with_value);
    }
    if (item == NULL)
        return -1;
    int failed = PyList_Append(listing->list, item);
    Py_DECREF(item);
    return failed;
}

/* Lists one space; its reference keeps the nodes as they are while lists are made. */
static int list_space(Space *space, Listing *listing)
{
    Py_INCREF(space);
    int failed = node_each(space->root, list_entry, listing);
    Py_DECREF(space);
    return failed;
}

static int list_named_space(void *context, PyObject *namespace, PyObject *space)
{
    Listing *listing = context;
    listing->namespace = namespace;
    return list_space((Space *)space, listing);
}

static int list_every_space(Moment *moment, Visit visit, void *context)
{
    Node *root = moment->root;
    if (root == NULL)
        return 0;
    root->refs++;
    int failed = node_each(root, visit, context);
    node_release(root);
    return failed;
}

static int take_prefix(PyObject *given, PyObject **prefix)
{
    *prefix = NULL;
    if (given == NULL || given == Py_None)
        return 0;
    *prefix = to_text(given);
    return *prefix == NULL ? -1 : 0;
}

static PyObject *moment_list(Moment *moment, PyObject *namespace, PyObject *prefix, int with_values)
{
    Listing listing = {PyList_New(0), NULL, NULL, with_values};
    if (listing.list == NULL || take_prefix(prefix, &listing.prefix) < 0)
        goto failed;
    if (namespace == NULL || namespace == Py_None) {
        if (list_every_space(moment, list_named_space, &listing) < 0)
            goto failed;
    }
    else {
        PyObject *name = to_text(namespace);
        if (name == NULL)
            goto failed;
        Space *space = find_space(moment, name);
        Py_DECREF(name);
        if (space != NULL && list_space(space, &listing) < 0)
            goto failed;
    }
    Py_XDECREF(listing.prefix);
    return listing.list;
failed:
    Py_XDECREF(listing.prefix);
    Py_XDECREF(listing.list);
    return NULL;
}

static PyObject *moment_items(Moment *moment, const char *method, PyObject *const *given,
                              Py_ssize_t positional, PyObject *by_name)
{
    PyObject *values[2];
    if (take_arguments(method, given, positional, by_name, RANGE, 0, 2, values) < 0)
        return NULL;
    return moment_list(moment, values[0], values[1], 1);
}

typedef struct {
    PyObject_HEAD Moment at;
} Reader;

#define AT(self) (&((Reader *)(self))->at)

static void reader_dealloc(PyObject *self)
{
    node_release(AT(self)->root);
    Py_TYPE(self)->tp_free(self);
}

static PyObject *reader_get(ARGUMENTS)
{
    return moment_get(AT(self), "get", given, positional, by_name);
}
static PyObject *reader_items(ARGUMENTS)
{
    return moment_items(AT(self), "items", given, positional, by_name);
}

static PyObject *reader_contains(ARGUMENTS)
{
    PyObject *namespace, *key, *nothing;
    if (take_place("contains", given, positional, by_name, PLACE, 2, 2, &namespace, &key, &nothing)
        < 0)
        return NULL;
    PyObject *data = find_data(AT(self), namespace, key);
    Py_DECREF(namespace);
    Py_DECREF(key);
    return PyBool_FromLong(data != NULL);
}

/* Replaces every pair in a list by the bytes that it leads to, or None; all from one moment. */
static void look_up(const Moment *moment, PyObject *list)
{
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); i++) {
        PyObject *pair = PyList_GET_ITEM(list, i);
        PyObject *data = find_data(moment, PyTuple_GET_ITEM(pair, 0), PyTuple_GET_ITEM(pair, 1));
        PyList_SET_ITEM(list, i, Py_NewRef(data == NULL ? Py_None : data));
        Py_DECREF(pair);
    }
}

/* Returns a list of what is given. PySequence_List by itself, in Python 3.11, never lets go of a
   list or tuple that it found no memory to copy. Nothing runs code between counting and copying. */
static PyObject *to_list(PyObject *given)
{
    if (!PyList_CheckExact(given) && !PyTuple_CheckExact(given))
        return PySequence_List(given);
    PyObject *list = PyList_New(0);
    if (list != NULL && PyList_SetSlice(list, 0, 0, given) < 0)
        Py_CLEAR(list);
    return list;
}

/* Returns a sequence of tuples with `size` members, the first two of them exact text. */
static PyObject *to_tuples(PyObject *given, Py_ssize_t size)
{
    PyObject *tuples = to_list(given);
    if (tuples == NULL)
        return NULL;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(tuples); i++) {
        PyObject *item = PyList_GET_ITEM(tuples, i);
        if (!PyTuple_Check(item)) {
            if (!PyList_Check(item)) {
                PyErr_Format(PyExc_TypeError, "item %zd is a tuple, not '%.100s'", i,
                             Py_TYPE(item)->tp_name);
                goto failed;
            }
            if ((item = PyList_AsTuple(item)) == NULL)
                goto failed;
            PyObject *old = PyList_GET_ITEM(tuples, i);
            PyList_SET_ITEM(tuples, i, item);
            Py_DECREF(old);
        }
        if (PyTuple_GET_SIZE(item) != size) {
            PyErr_Format(PyExc_ValueError, "item %zd has %zd members, %zd are needed", i,
                         PyTuple_GET_SIZE(item), size);
            goto failed;
        }
        PyObject *parts[2] = {to_text(PyTuple_GET_ITEM(item, 0)), NULL};
        parts[1] = parts[0] == NULL ? NULL : to_text(PyTuple_GET_ITEM(item, 1));
        int is_plain =
            parts[0] == PyTuple_GET_ITEM(item, 0) && parts[1] == PyTuple_GET_ITEM(item, 1);
        PyObject *plain = NULL;
        if (parts[1] != NULL && !is_plain)
            plain = size == 2 ? PyTuple_Pack(2, parts[0], parts[1])
                              : PyTuple_Pack(3, parts[0], parts[1], PyTuple_GET_ITEM(item, 2));
        int failed = parts[1] == NULL || (!is_plain && plain == NULL);
        Py_XDECREF(parts[0]);
        Py_XDECREF(parts[1]);
        if (failed)
            goto failed;
        if (plain != NULL) {
            PyList_SET_ITEM(tuples, i, plain);
            Py_DECREF(item);
        }
    }
    return tuples;
failed:
    Py_DECREF(tuples);
    return NULL;
}

static PyObject *reader_get_many(ARGUMENTS)
{
    PyObject *pairs = take_one("get_many", given, positional, by_name, PAIRS);
    if (pairs == NULL)
        return NULL;
    PyObject *list = to_tuples(pairs, 2);
    if (list == NULL)
        return NULL;
    look_up(AT(self), list);
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); i++) {
        PyObject *data = PyList_GET_ITEM(list, i);
        if (data == Py_None)
            continue;
        PyObject *value = decode_data(data);
        if (value == NULL) {
            Py_DECREF(list);
            return NULL;
        }
        PyList_SET_ITEM(list, i, value);
        Py_DECREF(data);
    }
    return list;
}

static PyObject *reader_keys(ARGUMENTS)
{
    PyObject *values[2];
    if (take_arguments("keys", given, positional, by_name, RANGE, 1, 2, values) < 0)
        return NULL;
    if (values[0] == Py_None)
        return to_text(values[0]);
    return moment_list(AT(self), values[0], values[1], 0);
}

static int is_greater(PyObject *one, PyObject *other)
{
    if (PyUnicode_KIND(one) != PyUnicode_1BYTE_KIND
        || PyUnicode_KIND(other) != PyUnicode_1BYTE_KIND)
        return PyUnicode_Compare(one, other) > 0;
    Py_ssize_t length = PyUnicode_GET_LENGTH(one), other_length = PyUnicode_GET_LENGTH(other);
    int order =
        memcmp(PyUnicode_DATA(one), PyUnicode_DATA(other), (size_t)Py_MIN(length, other_length));
    return order > 0 || (order == 0 && length > other_length);
}

static int keep_greatest(void *context, PyObject *key, PyObject *Py_UNUSED(data))
{
    PyObject **greatest = context;
    if (*greatest == NULL || is_greater(key, *greatest))
        *greatest = key;
    return 0;
}

static PyObject *reader_max_key(ARGUMENTS)
{
    PyObject *namespace = take_one("max_key", given, positional, by_name, PLACE);
    if (namespace == NULL)
        return NULL;
    PyObject *name = to_text(namespace), *greatest = NULL;
    if (name == NULL)
        return NULL;
    Space *space = find_space(AT(self), name);
    Py_DECREF(name);
    if (space != NULL)
        node_each(space->root, keep_greatest, &greatest);
    return Py_NewRef(greatest == NULL ? Py_None : greatest);
}

static PyObject *reader_namespaces(ARGUMENTS)
{
    PyObject *value;
    Listing listing = {NULL, NULL, NULL, 0};
    if (take_arguments("namespaces", given, positional, by_name, PREFIX, 0, 1, &value) < 0)
        return NULL;
    if (take_prefix(value, &listing.prefix) < 0 || (listing.list = PyList_New(0)) == NULL
        || list_every_space(AT(self), list_entry, &listing) < 0)
        Py_CLEAR(listing.list);
    Py_XDECREF(listing.prefix);
    return listing.list;
}

static Py_ssize_t reader_length(PyObject *self) { return AT(self)->count; }

static int reader_has(PyObject *self, PyObject *namespace)
{
    PyObject *name = to_text(namespace);
    if (name == NULL)
        return -1;
    int has = find_space(AT(self), name) != NULL;
    Py_DECREF(name);
    return has;
}

static PyMethodDef reader_methods[] = {
    METHOD("get", reader_get, "namespace, key, default=None",
           "Returns the value for a key, or the default."),
    METHOD("get_many", reader_get_many, "pairs",
           "Returns the values in the order asked for; None for what is missing."),
    METHOD("contains", reader_contains, "namespace, key",
           "Says whether there is a value for a key."),
    METHOD("keys", reader_keys, "namespace, prefix=None",
           "Returns the keys of a namespace in no order; with a prefix, those that begin with it."),
    METHOD("items", reader_items, "namespace=None, prefix=None",
           "Returns keys with their values; without a namespace, pairs with theirs."),
    METHOD("max_key", reader_max_key, "namespace",
           "Returns the greatest key of a namespace, or None."),
    METHOD("namespaces", reader_namespaces, "prefix=None",
           "Returns the namespaces that hold something, in no order."),
    {NULL},
};

static PySequenceMethods reader_sequence = {.sq_length = reader_length, .sq_contains = reader_has};

static PyTypeObject Reader_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "holdfast.store._core.Reader",
    .tp_doc = PyDoc_STR("A store at one moment, to read."),
    .tp_basicsize = sizeof(Reader),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .tp_dealloc = reader_dealloc,
    .tp_methods = reader_methods,
    .tp_as_sequence = &reader_sequence,
};

#endif
