/* The core of the in-process store; `interpreted.py` gives the same answers in plain Python.

   A store is a map from namespaces to spaces, a space is a map from keys to bytes. Both are
   persistent hash tries: 32 ways for every five bits of a key's hash, entries and children of a
   node side by side and without gaps (Steindorfer and Vinju's CHAMP). A snapshot is one more
   reference to the root. Whoever changes a node that has more than one owner copies it first, so
   that what a snapshot refers to never changes, and only the nodes between the root and the
   changed key are copied. Two roots are compared by walking both at once: where they share a
   node, nothing below it differs.

   There is no lock. Between finding a place and changing it nothing here lets go of the GIL or
   runs anybody's code: keys are exact `str`, values exact `bytes`, nodes are no Python objects,
   and what may run code (encoding, decoding, making lists) happens before, after, or while a
   reference of its own keeps the nodes as they are. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <time.h>

#include "headers/reading.h"
#include "headers/snapshots.h"

typedef struct {
    PyObject_HEAD Moment at;
    uint64_t last_id;
    Py_ssize_t max_history; /* -1: all */
    PyObject *history;      /* a list */
} Core;

#define CORE(self) ((Core *)(self))

static PyObject *core_new(PyTypeObject *type, PyObject *Py_UNUSED(arguments),
                          PyObject *Py_UNUSED(by_name))
{
    PyObject *self = type->tp_alloc(type, 0);
    if (self != NULL && (CORE(self)->history = PyList_New(0)) == NULL)
        Py_CLEAR(self);
    return self;
}

static int core_init(PyObject *self, PyObject *arguments, PyObject *by_name)
{
    static char *names[] = {"max_history", NULL};
    PyObject *most = NULL;
    if (!PyArg_ParseTupleAndKeywords(arguments, by_name, "|O:Core", names, &most))
        return -1;
    Py_ssize_t number = most == NULL ? 0 : -1;
    if (most != NULL && most != Py_None) {
        number = PyNumber_AsSsize_t(most, PyExc_OverflowError);
        if (number == -1 && PyErr_Occurred())
            return -1;
        if (number < 0) {
            PyErr_SetString(PyExc_ValueError, "max_history is None or a number from 0 on");
            return -1;
        }
    }
    CORE(self)->max_history = number;
    return 0;
}

static void core_dealloc(PyObject *self)
{
    Py_CLEAR(CORE(self)->history);
    reader_dealloc(self);
}

static PyObject *core_put_checked(PyObject *self, PyObject *namespace, PyObject *key,
                                  PyObject *data)
{
    PyObject *old;
    if (moment_put(AT(self), namespace, key, data, &old) < 0)
        return NULL;
    Py_XDECREF(old);
    Py_RETURN_NONE;
}

static PyObject *core_set(ARGUMENTS)
{
    PyObject *namespace, *key, *value, *result = NULL;
    if (take_place("set", given, positional, by_name, ENTRY, 3, 3, &namespace, &key, &value) < 0)
        return NULL;
    PyObject *data = encode_value(value);
    if (data != NULL) {
        result = core_put_checked(self, namespace, key, data);
        Py_DECREF(data);
    }
    Py_DECREF(namespace);
    Py_DECREF(key);
    return result;
}

static PyObject *core_put(ARGUMENTS)
{
    PyObject *namespace, *key, *data, *result = NULL;
    if (take_place("put", given, positional, by_name, DATA, 3, 3, &namespace, &key, &data) < 0)
        return NULL;
    if (PyBytes_CheckExact(data))
        result = core_put_checked(self, namespace, key, data);
    else
        PyErr_Format(PyExc_TypeError, "encoded values are bytes, not '%.100s'",
                     Py_TYPE(data)->tp_name);
    Py_DECREF(namespace);
    Py_DECREF(key);
    return result;
}

static PyObject *core_delete(ARGUMENTS)
{
    PyObject *namespace, *key, *nothing, *old = NULL;
    if (take_place("delete", given, positional, by_name, PLACE, 2, 2, &namespace, &key, &nothing)
        < 0)
        return NULL;
    int failed = moment_put(AT(self), namespace, key, NULL, &old);
    Py_DECREF(namespace);
    Py_DECREF(key);
    if (failed)
        return NULL;
    PyObject *was_there = PyBool_FromLong(old != NULL);
    Py_XDECREF(old);
    return was_there;
}

/* Puts the data of checked triples, all or none of them. */
static int put_all(Moment *moment, PyObject *triples)
{
    Py_ssize_t count = PyList_GET_SIZE(triples), done = 0;
    PyObject **old = PyMem_New(PyObject *, count > 0 ? count : 1);
    if (old == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (; done < count; done++) {
        PyObject *triple = PyList_GET_ITEM(triples, done);
        if (moment_put(moment, PyTuple_GET_ITEM(triple, 0), PyTuple_GET_ITEM(triple, 1),
                       PyTuple_GET_ITEM(triple, 2), &old[done])
            < 0)
            break;
    }
    /* Without memory for one, all go back, which needs none: values change places with what they
       replaced, and the nodes are ours already. */
    for (Py_ssize_t i = done; done < count && i-- > 0;) {
        PyObject *triple = PyList_GET_ITEM(triples, i), *undone;
        if (moment_put(moment, PyTuple_GET_ITEM(triple, 0), PyTuple_GET_ITEM(triple, 1), old[i],
                       &undone)
            == 0)
            Py_XDECREF(undone);
    }
    for (Py_ssize_t i = 0; i < done; i++)
        Py_XDECREF(old[i]);
    PyMem_Free(old);
    return done < count ? -1 : 0;
}

/* As `put_all`, where None removes. Putting back what was removed could need memory: here, a
   reference to the root keeps everything as it was, at the price of copies. */
static int put_or_remove_all(Moment *moment, PyObject *triples)
{
    Moment before = {NULL, 0, 0};
    moment_become(&before, moment);
    int failed = 0;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(triples) && !failed; i++) {
        PyObject *triple = PyList_GET_ITEM(triples, i), *data = PyTuple_GET_ITEM(triple, 2), *old;
        failed = moment_put(moment, PyTuple_GET_ITEM(triple, 0), PyTuple_GET_ITEM(triple, 1),
                            data == Py_None ? NULL : data, &old);
        if (!failed)
            Py_XDECREF(old);
    }
    if (failed)
        moment_become(moment, &before);
    node_release(before.root);
    return failed;
}

static PyObject *core_set_many(ARGUMENTS)
{
    PyObject *items = take_one("set_many", given, positional, by_name, ITEMS);
    if (items == NULL)
        return NULL;
    PyObject *triples = to_tuples(items, 3);
    if (triples == NULL)
        return NULL;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(triples); i++) {
        PyObject *triple = PyList_GET_ITEM(triples, i), *encoded = NULL;
        PyObject *data = encode_value(PyTuple_GET_ITEM(triple, 2));
        if (data != NULL) {
            encoded =
                PyTuple_Pack(3, PyTuple_GET_ITEM(triple, 0), PyTuple_GET_ITEM(triple, 1), data);
            Py_DECREF(data);
        }
        if (encoded == NULL) {
            Py_DECREF(triples);
            return NULL;
        }
        PyList_SET_ITEM(triples, i, encoded);
        Py_DECREF(triple);
    }
    int failed = put_all(AT(self), triples);
    Py_DECREF(triples);
    return failed ? NULL : Py_NewRef(Py_None);
}

static PyObject *core_put_many(ARGUMENTS)
{
    PyObject *items = take_one("put_many", given, positional, by_name, ITEMS);
    if (items == NULL)
        return NULL;
    PyObject *triples = to_tuples(items, 3);
    if (triples == NULL)
        return NULL;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(triples); i++) {
        PyObject *data = PyTuple_GET_ITEM(PyList_GET_ITEM(triples, i), 2);
        if (data != Py_None && !PyBytes_CheckExact(data)) {
            PyErr_Format(PyExc_TypeError, "encoded values are bytes, not '%.100s'",
                         Py_TYPE(data)->tp_name);
            Py_DECREF(triples);
            return NULL;
        }
    }
    int failed = put_or_remove_all(AT(self), triples);
    Py_DECREF(triples);
    return failed ? NULL : Py_NewRef(Py_None);
}

static PyObject *core_clear(PyObject *self, PyObject *Py_UNUSED(nothing))
{
    const Moment empty = {NULL, 0, 0};
    moment_become(AT(self), &empty);
    Py_RETURN_NONE;
}

static int keep_history(Core *core, PyObject *taken)
{
    if (PyList_Append(core->history, taken) < 0)
        return -1;
    Py_ssize_t excess =
        core->max_history < 0 ? 0 : PyList_GET_SIZE(core->history) - core->max_history;
    return excess > 0 ? PyList_SetSlice(core->history, 0, excess, NULL) : 0;
}

static PyObject *core_snapshot(PyObject *self, PyObject *Py_UNUSED(nothing))
{
    Core *core = CORE(self);
    Snapshot *taken = PyObject_New(Snapshot, &Snapshot_Type);
    if (taken == NULL)
        return NULL;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    taken->at = core->at;
    if (taken->at.root != NULL)
        taken->at.root->refs++;
    taken->parent = core->last_id;
    taken->id = ++core->last_id;
    taken->timestamp = (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
    taken->weak_references = NULL;
    if (core->max_history != 0 && keep_history(core, (PyObject *)taken) < 0)
        Py_CLEAR(taken);
    return (PyObject *)taken;
}

static PyObject *core_restore(ARGUMENTS)
{
    PyObject *snapshot = take_one("restore", given, positional, by_name, SNAPSHOT);
    if (snapshot == NULL)
        return NULL;
    if (check_snapshot(snapshot) < 0)
        return NULL;
    moment_become(AT(self), &TAKEN(snapshot)->at);
    Py_RETURN_NONE;
}

static PyObject *core_history(PyObject *self, PyObject *Py_UNUSED(nothing))
{
    /* Not PyList_GetSlice: it counts, then makes its list, and a garbage collection in between
       may run code that clears the history. */
    return to_list(CORE(self)->history);
}

static PyObject *core_clear_history(PyObject *self, PyObject *Py_UNUSED(nothing))
{
    if (PyList_SetSlice(CORE(self)->history, 0, PY_SSIZE_T_MAX, NULL) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *core_max_history(PyObject *self, void *Py_UNUSED(closure))
{
    return CORE(self)->max_history < 0 ? Py_NewRef(Py_None)
                                       : PyLong_FromSsize_t(CORE(self)->max_history);
}

static PyMethodDef core_methods[] = {
    METHOD("set", core_set, "namespace, key, value", "Puts a value under a key."),
    METHOD("set_many", core_set_many, "items", "Puts many values, all or none of them."),
    METHOD("delete", core_delete, "namespace, key", "Deletes a key; says whether it was there."),
    PLAIN_METHOD("clear", core_clear, "Deletes every key of every namespace."),
    METHOD("put", core_put, "namespace, key, data", "Puts a value that is already encoded."),
    METHOD("put_many", core_put_many, "items",
           "Puts many values that are already encoded, all or none; None deletes."),
    PLAIN_METHOD("snapshot", core_snapshot,
                 "Returns the store as it is now; costs the same for ten entries and for a "
                 "million."),
    METHOD("restore", core_restore, "snapshot",
           "Makes the store what a snapshot shows: every namespace, every key."),
    PLAIN_METHOD("history", core_history,
                 "Returns the snapshots that the store itself keeps, oldest first."),
    PLAIN_METHOD("clear_history", core_clear_history,
                 "Lets go of the snapshots that the store itself keeps."),
    {NULL},
};

static PyGetSetDef core_properties[] = {
    {"max_history", core_max_history, NULL,
     PyDoc_STR("How many snapshots the store itself keeps; None for all."), NULL},
    {NULL},
};

static PyTypeObject Core_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "holdfast.store._core.Core",
    .tp_doc = PyDoc_STR("A store to read and to change."),
    .tp_base = &Reader_Type,
    .tp_basicsize = sizeof(Core),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .tp_new = core_new,
    .tp_init = core_init,
    .tp_dealloc = core_dealloc,
    .tp_methods = core_methods,
    .tp_getset = core_properties,
};

/* ---- The module ---------------------------------------------------------------------------- */

static PyObject *module_view(PyObject *Py_UNUSED(module), PyObject *snapshot)
{
    if (check_snapshot(snapshot) < 0)
        return NULL;
    PyObject *reader = Reader_Type.tp_alloc(&Reader_Type, 0);
    if (reader != NULL)
        moment_become(AT(reader), &TAKEN(snapshot)->at);
    return reader;
}

static PyObject *module_encode(PyObject *Py_UNUSED(module), PyObject *value)
{
    return encode_value(value);
}

static PyObject *module_mask_hashes(PyObject *Py_UNUSED(module), PyObject *bits)
{
    long kept = PyLong_AsLong(bits);
    if (kept == -1 && PyErr_Occurred())
        return NULL;
    if (kept < 0 || kept > HASH_BITS) {
        PyErr_SetString(PyExc_ValueError, "a hash has 0 to 64 bits");
        return NULL;
    }
    hash_mask = kept == HASH_BITS ? UINT64_MAX : (UINT64_C(1) << kept) - 1;
    Py_RETURN_NONE;
}

static PyMethodDef module_functions[] = {
    {"view", module_view, METH_O, PyDoc_STR("Returns a snapshot as a store to read.")},
    {"encode", module_encode, METH_O,
     PyDoc_STR("Returns a value as msgpack; raises `Unencodable`.")},
    {"_mask_hashes", module_mask_hashes, METH_O,
     PyDoc_STR("For tests, while no store exists: keeps the lowest bits of hashes.")},
    {NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "holdfast.store._core",
    .m_doc = PyDoc_STR("The core of the in-process store, compiled."),
    .m_size = -1,
    .m_methods = module_functions,
};

static int take_codec(void)
{
    PyObject *codec = PyImport_ImportModule("holdfast.store.codec");
    if (codec == NULL)
        return -1;
    PyObject *encoder = PyObject_GetAttrString(codec, "encoder");
    encode_into = encoder == NULL ? NULL : PyObject_GetAttrString(encoder, "encode_into");
    encode = PyObject_GetAttrString(codec, "encode");
    decode = PyObject_GetAttrString(codec, "decode");
    Py_XDECREF(encoder);
    Py_DECREF(codec);
    return encode_into == NULL || encode == NULL || decode == NULL ? -1 : 0;
}

PyMODINIT_FUNC PyInit__core(void)
{
    if (take_codec() < 0 || PyType_Ready(&Space_Type) < 0)
        return NULL;
    PyObject *created = PyModule_Create(&module);
    if (created != NULL
        && (PyModule_AddType(created, &Reader_Type) < 0 || PyModule_AddType(created, &Core_Type) < 0
            || PyModule_AddType(created, &Snapshot_Type) < 0
            || PyModule_AddStringConstant(created, "DIGEST", SOURCE_DIGEST) < 0))
        Py_CLEAR(created);
    return created;
}
