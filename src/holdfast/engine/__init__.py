"""The engine: what can be done with a namespace, one module per use case.

Synchronous and safe to use from many threads. It meets the world through ports alone: a
catalog for rows, a blob store for packs, a clock and an id maker that are handed in.

`advance` is the heart: the one way in which a timeline grows. `snapshots`, `restore`, `undo`,
`fork`, `merge` and `archives` are plans for it. `pending` is the one way in which a plane
changes in between; `files`, `store`, `sessions` and `memory` are faces over it. `retention`,
`collect` and `verify` look after what is stored. `objects` reads, `stage` writes.
"""
