/* Arguments of methods, by position or by name. */

#ifndef HOLDFAST_ARGUMENTS_H
#define HOLDFAST_ARGUMENTS_H

#include <Python.h>

/* Returns a namespace or key as an exact str that UTF-8 can hold: a subclass might compare and
   hash as it likes. */
static PyObject *to_text(PyObject *given)
{
    if (!PyUnicode_Check(given))
        return PyErr_Format(PyExc_TypeError, "a namespace or key is a str, not '%.100s'",
                            Py_TYPE(given)->tp_name);
#if PY_VERSION_HEX < 0x030c0000
    if (PyUnicode_READY(given) < 0)
        return NULL;
#endif
    if (PyUnicode_KIND(given) != PyUnicode_1BYTE_KIND) {
        PyObject *checked = PyUnicode_AsUTF8String(given);
        if (checked == NULL)
            return NULL;
        Py_DECREF(checked);
    }
    return PyUnicode_CheckExact(given) ? Py_NewRef(given) : PyUnicode_FromObject(given);
}

/* Sorts arguments given by position or by name into `values`; what is not given stays NULL. */
static int take_arguments(const char *method, PyObject *const *given, Py_ssize_t positional,
                          PyObject *by_name, const char *const *names, Py_ssize_t needed,
                          Py_ssize_t most, PyObject **values)
{
    if (positional > most) {
        PyErr_Format(PyExc_TypeError, "%s() takes at most %zd arguments, %zd were given", method,
                     most, positional);
        return -1;
    }
    for (Py_ssize_t i = 0; i < most; i++)
        values[i] = i < positional ? given[i] : NULL;
    for (Py_ssize_t i = 0; by_name != NULL && i < PyTuple_GET_SIZE(by_name); i++) {
        PyObject *name = PyTuple_GET_ITEM(by_name, i);
        Py_ssize_t at = 0;
        while (at < most && PyUnicode_CompareWithASCIIString(name, names[at]) != 0)
            at++;
        if (at == most || values[at] != NULL) {
            PyErr_Format(PyExc_TypeError, "%s() got %s argument %R", method,
                         at == most ? "an unexpected" : "twice the", name);
            return -1;
        }
        values[at] = given[positional + i];
    }
    for (Py_ssize_t i = 0; i < needed; i++)
        if (values[i] == NULL) {
            PyErr_Format(PyExc_TypeError, "%s() needs the argument '%s'", method, names[i]);
            return -1;
        }
    return 0;
}

/* What a method takes stands before what it does, as `help` and `inspect.signature` read it. */
#define METHOD(name, function, takes, doc)                                                         \
    {name, (PyCFunction)(void (*)(void))(function), METH_FASTCALL | METH_KEYWORDS,                 \
     PyDoc_STR(name "($self, " takes ")\n--\n\n" doc)}
#define PLAIN_METHOD(name, function, doc)                                                          \
    {name, function, METH_NOARGS, PyDoc_STR(name "($self)\n--\n\n" doc)}
#define ARGUMENTS PyObject *self, PyObject *const *given, Py_ssize_t positional, PyObject *by_name

static const char *const PLACE[] = {"namespace", "key", "default"};
static const char *const ENTRY[] = {"namespace", "key", "value"};
static const char *const DATA[] = {"namespace", "key", "data"};
static const char *const RANGE[] = {"namespace", "prefix"};
static const char *const PREFIX[] = {"prefix"};
static const char *const ITEMS[] = {"items"};
static const char *const PAIRS[] = {"pairs"};
static const char *const SNAPSHOT[] = {"snapshot"};
static const char *const BASE[] = {"base"};

/* Takes a namespace and a key, and perhaps a third argument, which stays borrowed. */
static int take_place(const char *method, PyObject *const *given, Py_ssize_t positional,
                      PyObject *by_name, const char *const *names, Py_ssize_t needed,
                      Py_ssize_t most, PyObject **namespace, PyObject **key, PyObject **third)
{
    PyObject *values[3] = {NULL, NULL, NULL};
    if (take_arguments(method, given, positional, by_name, names, needed, most, values) < 0)
        return -1;
    if ((*namespace = to_text(values[0])) == NULL)
        return -1;
    if ((*key = to_text(values[1])) == NULL) {
        Py_DECREF(*namespace);
        return -1;
    }
    *third = values[2];
    return 0;
}

/* Takes the one argument of a method; returns it borrowed, or NULL. */
static PyObject *take_one(const char *method, PyObject *const *given, Py_ssize_t positional,
                          PyObject *by_name, const char *const *names)
{
    PyObject *value;
    return take_arguments(method, given, positional, by_name, names, 1, 1, &value) < 0 ? NULL
                                                                                       : value;
}

#endif
