/* Values on their way in and out: msgpack, by way of holdfast.store.codec. */

#ifndef HOLDFAST_VALUES_H
#define HOLDFAST_VALUES_H

#include <Python.h>
#include <stdint.h>
#include <string.h>

static PyObject *encode_into, *encode, *decode; /* of holdfast.store.codec */
static PyObject *buffer;                        /* kept for the next to encode; NULL while in use */

#define KEPT_BUFFER 65536
#define DEEPEST 256 /* as in codec.py */

static uint64_t big_endian(const uint8_t *at, unsigned bytes)
{
    uint64_t number = 0;
    while (bytes--)
        number = number << 8 | *at++;
    return number;
}

/* Says whether 32 bytes are, as those before them ask for, beginnings and rests of characters.
   Without a branch, so that compilers do sixteen at a time: large texts are usual. */
static int are_in_order(const uint8_t *bytes)
{
    uint8_t wrong = 0;
    for (int i = 0; i < 32; i++) {
        uint8_t byte = bytes[i], last = bytes[i - 1];
        uint8_t is_rest = (byte & 0xc0) == 0x80;
        uint8_t is_due = (last >= 0xc2) | (bytes[i - 2] >= 0xe0) | (bytes[i - 3] >= 0xf0);
        /* What takes fewer bytes, half characters, and what is beyond the last character. */
        uint8_t is_none = (byte == 0xc0) | (byte == 0xc1) | (byte > 0xf4)
                          | ((last == 0xe0) & (byte < 0xa0)) | ((last == 0xed) & (byte > 0x9f))
                          | ((last == 0xf0) & (byte < 0x90)) | ((last == 0xf4) & (byte > 0x8f));
        wrong |= (is_rest ^ is_due) | is_none;
    }
    return !wrong;
}

/* Says whether bytes are UTF-8. What comes from a str is; a `msgspec.Raw` brings its own. */
static int is_text(const uint8_t *at, uint64_t length)
{
    uint8_t bytes[3 + 32] = {0}; /* the three before them, and those that are looked at */
    for (;; at += 32, length -= 32) {
        for (uint64_t eight; length >= 8; at += 8, length -= 8) {
            memcpy(&eight, at, 8);
            if ((eight & UINT64_C(0x8080808080808080)) || bytes[2] >= 0x80)
                break;
            bytes[0] = bytes[1] = bytes[2] = 0;
        }
        size_t count = length < 32 ? (size_t)length : 32;
        memcpy(bytes + 3, at, count);
        memset(bytes + 3 + count, 0, 32 - count);
        if (!are_in_order(bytes + 3))
            return 0;
        if (count < 32) /* The zeros after the end have shown that nothing was due. */
            return 1;
        memcpy(bytes, bytes + 32, 3);
    }
}

/* Walks over the lists and dicts of one msgpack value; returns where it ends. NULL stands for
   what `codec.encode` has to look at: a key that holds a map, which Python could not hash when
   the value is read again, text that is none, extensions, and what is nested deeply or ends too
   early. */
static const uint8_t *skim(const uint8_t *at, const uint8_t *end, int is_key, int depth)
{
    static const int8_t sizes[] = {/* of what follows the tags from C0 on; below 0: see there */
                                   0, -1, 0, 0, -2, -2, -2, -1, -1, -1, 4,  8,  1,  2,  4,  8,
                                   1, 2,  4, 8, -1, -1, -1, -1, -1, -2, -2, -2, -3, -3, -3, -3};
    if (at >= end)
        return NULL;
    uint8_t tag = *at++;
    if (tag < 0x80 || tag >= 0xe0)
        return at;
    int size = tag < 0xa0 ? -3 : tag < 0xc0 ? tag & 0x1f : sizes[tag - 0xc0];
    uint64_t length = size >= 0 ? (uint64_t)size : tag & 0x0f;
    if (size == -1)
        return NULL;
    if (size < 0
        && tag >= 0xa0) { /* bin and str have lengths of 8, 16 or 32 bits, the others of 16 or 32 */
        unsigned wide =
            tag >= 0xdc ? 2u << (tag & 1) : 1u << (tag >= 0xd9 ? tag - 0xd9 : tag - 0xc4);
        if ((size_t)(end - at) < wide)
            return NULL;
        length = big_endian(at, wide);
        at += wide;
    }
    if (size != -3) {
        int is_str = tag < 0xc0 || (tag >= 0xd9 && tag <= 0xdb);
        int fits = length <= (uint64_t)(end - at) && (!is_str || is_text(at, length));
        return fits ? at + length : NULL;
    }
    int is_map = tag < 0x90 || tag >= 0xde;
    if (depth == 0 || (is_map && is_key))
        return NULL;
    for (; length > 0 && at != NULL; length--) {
        if (is_map)
            at = skim(at, end, 1, depth - 1);
        if (at != NULL)
            at = skim(at, end, is_key, depth - 1);
    }
    return at;
}

/* Returns a value as bytes of just its size; `codec.encode` words what cannot be done. */
static PyObject *encode_value(PyObject *value)
{
    PyObject *mine = buffer, *data = NULL;
    buffer = NULL;
    if (mine == NULL && (mine = PyByteArray_FromStringAndSize(NULL, 0)) == NULL)
        return NULL;
    PyObject *arguments[] = {value, mine};
    PyObject *done = PyObject_Vectorcall(encode_into, arguments, 2, NULL);
    if (done != NULL) {
        Py_DECREF(done);
        const uint8_t *start = (const uint8_t *)PyByteArray_AS_STRING(mine);
        Py_ssize_t size = PyByteArray_GET_SIZE(mine);
        if (skim(start, start + size, 0, DEEPEST) == start + size)
            data = PyBytes_FromStringAndSize((const char *)start, size);
        else
            data = PyObject_CallOneArg(encode, value);
    }
    else if (PyErr_ExceptionMatches(PyExc_TypeError) || PyErr_ExceptionMatches(PyExc_ValueError)
             || PyErr_ExceptionMatches(PyExc_OverflowError)
             || PyErr_ExceptionMatches(PyExc_RecursionError)
             || PyErr_ExceptionMatches(PyExc_BufferError)) {
        PyErr_Clear();
        data = PyObject_CallOneArg(encode, value);
    }
    if (buffer == NULL && PyByteArray_GET_SIZE(mine) <= KEPT_BUFFER)
        buffer = mine;
    else
        Py_DECREF(mine);
    return data;
}

static PyObject *decode_data(PyObject *data)
{
    /* Held, since decoding may collect garbage, and with it run code that changes the store. */
    Py_INCREF(data);
    PyObject *value = PyObject_CallOneArg(decode, data);
    Py_DECREF(data);
    return value;
}

#endif
