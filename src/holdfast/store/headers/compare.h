/* What differs between two maps: where they share a node, nothing below it does. */

#ifndef HOLDFAST_COMPARE_H
#define HOLDFAST_COMPARE_H

#include "trie.h"

typedef int (*Emit)(void *context, PyObject *key, PyObject *old, PyObject *new);

/* The side that entries are looked up in, and whom to tell of those that differ there. */
typedef struct {
    Emit emit;
    void *context;
    Node *other;
    unsigned shift;
} Side;

static void **find_there(const Side *side, PyObject *key)
{
    return node_find(side->other, side->shift, hash_of(key), key);
}

/* Tells of an old entry that is another one on the new side, or none. */
static int emit_old(void *context, PyObject *key, PyObject *value)
{
    Side *side = context;
    void **found = find_there(side, key);
    if (found != NULL && *found == value)
        return 0;
    return side->emit(side->context, key, value, found == NULL ? NULL : *found);
}

/* Tells of a new entry that is not on the old side: those that are were told of. */
static int emit_added(void *context, PyObject *key, PyObject *value)
{
    Side *side = context;
    return find_there(side, key) == NULL ? side->emit(side->context, key, NULL, value) : 0;
}

/* Compares two small or differently shaped subtrees entry by entry. */
static int compare_entries(Node *old, Node *new, unsigned shift, Emit emit, void *context)
{
    Side in_new = {emit, context, new, shift}, in_old = {emit, context, old, shift};
    return node_each(old, emit_old, &in_new) < 0 ? -1 : node_each(new, emit_added, &in_old);
}

/* Compares one entry of a map with the subtree that stands in its place in the other map. */
static int compare_entry(void **entry, Node *child, unsigned shift, int entry_is_old, Emit emit,
                         void *context)
{
    struct {
        Node node;
        void *slots[2];
    } single = {{1, 0, 0, 1}, {entry[0], entry[1]}};
    return entry_is_old ? compare_entries(&single.node, child, shift, emit, context)
                        : compare_entries(child, &single.node, shift, emit, context);
}

static int compare(Node *old, Node *new, unsigned shift, Emit emit, void *context)
{
    if (old == new)
        return 0;
    if (old == NULL || new == NULL || old->same || new->same)
        return compare_entries(old, new, shift, emit, context);
    for (uint32_t left = old->data | old->nodes | new->data | new->nodes; left; left &= left - 1) {
        uint32_t way = left & -left;
        void **before = old->data & way ? &old->slots[2 * below(old->data, way)] : NULL;
        void **after = new->data &way ? &new->slots[2 * below(new->data, way)] : NULL;
        Node *old_child = old->nodes & way ? *child_at(old, way) : NULL;
        Node *new_child = new->nodes &way ? *child_at(new, way) : NULL;
        int failed = 0;
        if (before != NULL && after != NULL && is_same(before[0], after[0])) {
            if (before[1] != after[1])
                failed = emit(context, before[0], before[1], after[1]);
        }
        else if (before != NULL && new_child != NULL)
            failed = compare_entry(before, new_child, shift + BITS, 1, emit, context);
        else if (old_child != NULL && after != NULL)
            failed = compare_entry(after, old_child, shift + BITS, 0, emit, context);
        else if (old_child != NULL || new_child != NULL)
            failed = compare(old_child, new_child, shift + BITS, emit, context);
        else {
            if (before != NULL)
                failed = emit(context, before[0], before[1], NULL);
            if (!failed && after != NULL)
                failed = emit(context, after[0], NULL, after[1]);
        }
        if (failed < 0)
            return -1;
    }
    return 0;
}

#endif
