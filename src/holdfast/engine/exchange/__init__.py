"""A files map and its content on their way between two vaults that do not trust each other.

What is told are entries and chunks, never map nodes. Maps are canonical: each side builds its own
from what it was told, and compares the root. So no node of a stranger is ever believed, and an
exchange is either exactly what was sent, or an error and no change.

Modules: `edits` (what leads from one files map to another, and the checks on it), `reach` (which
objects somebody may name), `receiving` and `door` (packs of chunks), `adopting` (a snapshot of
what was told), `door` (all of it, for one namespace).
"""
