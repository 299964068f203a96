"""The versioned map: an immutable, canonical, ordered map from key bytes to value bytes.

A map is named by the id of its root node. Three promises, kept by construction:

- *Canonical.* Equal contents have equal roots, whatever was done to get there (`split`).
- *Cheap to change.* An edit makes one new node per level and shares the rest (`apply`).
- *Cheap to compare.* What two maps share is skipped unread (`diff`, `merge`).

Pure: no files, no clock, no randomness. Nodes are read through a `NodeSource`; new ones are
handed back as bytes, for the caller to store before it lets the new root be known. What
values mean is not known here (`holdfast.entries`).
"""

from holdfast.tree.apply import Applied, apply
from holdfast.tree.build import Built, build
from holdfast.tree.diff import Edit, diff
from holdfast.tree.merge import Conflict, Merged, merge
from holdfast.tree.node import EMPTY, Node, NodeSource, decode_node, encode_node
from holdfast.tree.read import Cover, count, covers, get, get_many, iterate, prefix_stop
from holdfast.tree.split import MAX_BYTES, MAX_ENTRIES, MEAN_ENTRIES, closes_node

__all__ = [
    "EMPTY",
    "MAX_BYTES",
    "MAX_ENTRIES",
    "MEAN_ENTRIES",
    "Applied",
    "Built",
    "Conflict",
    "Cover",
    "Edit",
    "Merged",
    "Node",
    "NodeSource",
    "apply",
    "build",
    "closes_node",
    "count",
    "covers",
    "decode_node",
    "diff",
    "encode_node",
    "get",
    "get_many",
    "iterate",
    "merge",
    "prefix_stop",
]
