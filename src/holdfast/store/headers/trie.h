/* A persistent hash trie: a map from text to Python objects.

   A node holds entries and children side by side and without gaps. Whoever changes one that has
   more than one owner copies it first. Keys are exact `str`; values are exact `bytes` or spaces,
   so that letting go of one runs nobody's code. */

#ifndef HOLDFAST_TRIE_H
#define HOLDFAST_TRIE_H

#include <Python.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define BITS 5
#define HASH_BITS 64

typedef struct Node {
    uint32_t refs;  /* owners: nodes above, spaces, stores, snapshots */
    uint32_t data;  /* the ways that lead to an entry */
    uint32_t nodes; /* the ways that lead to a child */
    uint32_t same;  /* in a node of keys with the same hash: their number; `data` is 0 then */
    void *slots[];  /* a key and its value for every entry, then the children */
} Node;

static uint64_t hash_mask = UINT64_MAX;

static inline uint64_t hash_of(PyObject *text)
{
    Py_hash_t hash = ((PyASCIIObject *)text)->hash;
    if (hash == -1)
        hash = PyObject_Hash(text); /* An exact str: cannot fail. */
    return (uint64_t)hash & hash_mask;
}

static inline uint32_t way_of(uint64_t hash, unsigned shift)
{
    return UINT32_C(1) << ((hash >> shift) & 31);
}

static inline unsigned ones(uint32_t bits) { return (unsigned)__builtin_popcount(bits); }
static inline unsigned below(uint32_t bits, uint32_t way) { return ones(bits & (way - 1)); }
static inline unsigned entries_of(const Node *node)
{
    return node->same ? node->same : ones(node->data);
}
static inline unsigned slots_of(const Node *node)
{
    return 2 * entries_of(node) + ones(node->nodes);
}

static inline Node **child_at(Node *node, uint32_t way)
{
    return (Node **)&node->slots[2 * ones(node->data) + below(node->nodes, way)];
}

/* Text is kept in its narrowest form: equal text is equal in kind, length and bytes. */
static inline int is_same(PyObject *one, PyObject *other)
{
    if (one == other)
        return 1;
    Py_ssize_t length = PyUnicode_GET_LENGTH(one);
    int kind = PyUnicode_KIND(one);
    return length == PyUnicode_GET_LENGTH(other) && kind == (int)PyUnicode_KIND(other)
           && memcmp(PyUnicode_DATA(one), PyUnicode_DATA(other), (size_t)(length * kind)) == 0;
}

static size_t bytes_for(unsigned slots) { return offsetof(Node, slots) + slots * sizeof(void *); }

static Node *node_new(unsigned slots)
{
    Node *node = PyMem_Malloc(bytes_for(slots));
    if (node == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    node->refs = 1;
    node->data = node->nodes = node->same = 0;
    return node;
}

static void node_release(Node *node)
{
    if (node == NULL || --node->refs > 0)
        return;
    unsigned entries = 2 * entries_of(node), all = slots_of(node);
    for (unsigned i = 0; i < entries; i++)
        Py_DECREF((PyObject *)node->slots[i]);
    for (unsigned i = entries; i < all; i++)
        node_release(node->slots[i]);
    PyMem_Free(node);
}

/* Makes the node in a place one that has no other owner, so that it may be changed. */
static int node_own(Node **place)
{
    Node *node = *place;
    if (node->refs == 1)
        return 0;
    unsigned entries = 2 * entries_of(node), all = slots_of(node);
    Node *copy = node_new(all);
    if (copy == NULL)
        return -1;
    copy->data = node->data;
    copy->nodes = node->nodes;
    copy->same = node->same;
    memcpy(copy->slots, node->slots, all * sizeof(void *));
    for (unsigned i = 0; i < entries; i++)
        Py_INCREF((PyObject *)copy->slots[i]);
    for (unsigned i = entries; i < all; i++)
        ((Node *)copy->slots[i])->refs++;
    node->refs--;
    *place = copy;
    return 0;
}

/* Makes room for more slots at the end; the node may move. */
static Node *node_grow(Node **place, unsigned more)
{
    Node *grown = PyMem_Realloc(*place, bytes_for(slots_of(*place) + more));
    if (grown != NULL)
        *place = grown;
    return grown;
}

/* Puts an entry before the slot `at` of a node that is owned and whose maps do not count it yet. */
static int node_insert(Node **place, unsigned at, PyObject *key, PyObject *value)
{
    unsigned all = slots_of(*place);
    Node *node = node_grow(place, 2);
    if (node == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    memmove(node->slots + at + 2, node->slots + at, (all - at) * sizeof(void *));
    node->slots[at] = Py_NewRef(key);
    node->slots[at + 1] = Py_NewRef(value);
    return 0;
}

/* Returns a node, at a depth, that holds two entries with different keys. */
static Node *node_pair(unsigned shift, PyObject *key, PyObject *value, PyObject *other_key,
                       PyObject *other_value)
{
    Node *node;
    if (shift < HASH_BITS) {
        uint32_t way = way_of(hash_of(key), shift), other = way_of(hash_of(other_key), shift);
        if (way == other) {
            if ((node = node_new(1)) == NULL)
                return NULL;
            node->slots[0] = node_pair(shift + BITS, key, value, other_key, other_value);
            if (node->slots[0] == NULL) {
                PyMem_Free(node);
                return NULL;
            }
            node->nodes = way;
            return node;
        }
        if (way > other) {
            PyObject *swapped = key;
            key = other_key, other_key = swapped;
            swapped = value;
            value = other_value, other_value = swapped;
        }
        if ((node = node_new(4)) == NULL)
            return NULL;
        node->data = way | other;
    }
    else {
        if ((node = node_new(4)) == NULL)
            return NULL;
        node->same = 2;
    }
    node->slots[0] = Py_NewRef(key);
    node->slots[1] = Py_NewRef(value);
    node->slots[2] = Py_NewRef(other_key);
    node->slots[3] = Py_NewRef(other_value);
    return node;
}

/* Returns the slot of the value for a key, or NULL. */
static void **node_find(Node *node, unsigned shift, uint64_t hash, PyObject *key)
{
    while (node != NULL) {
        if (node->same) {
            for (unsigned i = 0; i < 2 * node->same; i += 2)
                if (is_same(node->slots[i], key))
                    return &node->slots[i + 1];
            return NULL;
        }
        uint32_t way = way_of(hash, shift);
        if (node->data & way) {
            void **entry = &node->slots[2 * below(node->data, way)];
            return is_same(entry[0], key) ? entry + 1 : NULL;
        }
        if (!(node->nodes & way))
            return NULL;
        node = *child_at(node, way);
        shift += BITS;
    }
    return NULL;
}

/* As `node_find`, for a key that is there, and makes every node on the way our own. */
static void **node_find_own(Node **place, uint64_t hash, PyObject *key)
{
    for (unsigned shift = 0;; shift += BITS) {
        if (node_own(place) < 0)
            return NULL;
        Node *node = *place;
        uint32_t way = node->same ? 0 : way_of(hash, shift);
        if (!(node->nodes & way))
            return node_find(node, shift, hash, key);
        place = child_at(node, way);
    }
}

/* Turns an entry of an owned node into a child that holds it together with another entry. */
static int node_push_down(Node *node, unsigned shift, uint32_t way, PyObject *key, PyObject *value)
{
    unsigned at = 2 * below(node->data, way), before = below(node->nodes, way);
    unsigned entries = 2 * ones(node->data), children = ones(node->nodes);
    void **slots = node->slots;
    PyObject *old_key = slots[at], *old_value = slots[at + 1];
    Node *child = node_pair(shift + BITS, old_key, old_value, key, value);
    if (child == NULL)
        return -1;
    memmove(slots + at, slots + at + 2, (entries - at - 2 + before) * sizeof(void *));
    slots[entries - 2 + before] = child;
    memmove(slots + entries - 1 + before, slots + entries + before,
            (children - before) * sizeof(void *));
    node->data &= ~way;
    node->nodes |= way;
    Py_DECREF(old_key);
    Py_DECREF(old_value);
    return 0;
}

/* Puts a value; `*old` becomes the reference to the one that it replaces, or NULL.
   After a failure the map says what it said before. */
static int node_put(Node **place, uint64_t hash, PyObject *key, PyObject *value, PyObject **old)
{
    *old = NULL;
    for (unsigned shift = 0;; shift += BITS) {
        if (*place == NULL && (*place = node_new(0)) == NULL)
            return -1;
        if (node_own(place) < 0)
            return -1;
        Node *node = *place;
        uint32_t way = node->same ? 0 : way_of(hash, shift);
        if (node->nodes & way) {
            place = child_at(node, way);
            continue;
        }
        void **slot = node_find(node, shift, hash, key);
        if (slot != NULL) {
            *old = *slot;
            *slot = Py_NewRef(value);
            return 0;
        }
        if (node->same) {
            if (node_insert(place, 2 * node->same, key, value) < 0)
                return -1;
            (*place)->same++;
            return 0;
        }
        if (node->data & way)
            return node_push_down(node, shift, way, key, value);
        if (node_insert(place, 2 * below(node->data, way), key, value) < 0)
            return -1;
        (*place)->data |= way;
        return 0;
    }
}

/* Takes an entry out of an owned node. */
static void node_drop_entry(Node *node, uint32_t way, PyObject *key)
{
    unsigned all = slots_of(node), at = 0;
    if (node->same) {
        while (!is_same(node->slots[at], key))
            at += 2;
        node->same--;
    }
    else {
        at = 2 * below(node->data, way);
        node->data &= ~way;
    }
    PyObject *old_key = node->slots[at], *old_value = node->slots[at + 1];
    memmove(node->slots + at, node->slots + at + 2, (all - at - 2) * sizeof(void *));
    Py_DECREF(old_key);
    Py_DECREF(old_value);
}

/* Takes a child that holds fewer than two entries out of an owned node, and keeps its entry. */
static void node_pull_up(Node **place, uint32_t way)
{
    Node *node = *place, *child = *child_at(node, way);
    if (child->nodes || entries_of(child) > 1)
        return;
    unsigned left = entries_of(child);
    /* Without memory the child stays as it is, which is larger and not wrong. */
    if (left && (node = node_grow(place, 1)) == NULL)
        return;
    unsigned entries = 2 * ones(node->data), children = ones(node->nodes);
    unsigned before = below(node->nodes, way), at = 2 * below(node->data, way);
    void **slots = node->slots;
    if (left) {
        memmove(slots + entries + before + 2, slots + entries + before + 1,
                (children - before - 1) * sizeof(void *));
        memmove(slots + at + 2, slots + at, (entries - at + before) * sizeof(void *));
        slots[at] = child->slots[0]; /* The child is ours alone: its references become ours. */
        slots[at + 1] = child->slots[1];
        node->data |= way;
    }
    else
        memmove(slots + entries + before, slots + entries + before + 1,
                (children - before - 1) * sizeof(void *));
    node->nodes &= ~way;
    PyMem_Free(child);
}

/* Removes a key that is there. */
static int node_remove(Node **place, unsigned shift, uint64_t hash, PyObject *key)
{
    if (node_own(place) < 0)
        return -1;
    Node *node = *place;
    uint32_t way = node->same ? 0 : way_of(hash, shift);
    if (!(node->nodes & way)) {
        node_drop_entry(node, way, key);
        return 0;
    }
    if (node_remove(child_at(node, way), shift + BITS, hash, key) < 0)
        return -1;
    node_pull_up(place, way);
    return 0;
}

typedef int (*Visit)(void *context, PyObject *key, PyObject *value);

/* Visits every entry; the caller holds a reference that keeps the nodes as they are. */
static int node_each(Node *node, Visit visit, void *context)
{
    if (node == NULL)
        return 0;
    unsigned entries = 2 * entries_of(node), all = slots_of(node);
    /* Keys lie all over the memory: asked for together, they come while others are looked at. */
    for (unsigned i = 0; i < entries; i += 2)
        __builtin_prefetch(node->slots[i]);
    for (unsigned i = entries; i < all; i++)
        __builtin_prefetch(node->slots[i]);
    for (unsigned i = 0; i < entries; i += 2)
        if (visit(context, node->slots[i], node->slots[i + 1]) < 0)
            return -1;
    for (unsigned i = entries; i < all; i++)
        if (node_each(node->slots[i], visit, context) < 0)
            return -1;
    return 0;
}

#endif
