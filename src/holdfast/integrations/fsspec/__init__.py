"""Namespaces as a file system of fsspec: `holdfast://namespace/path?at=snapshot`.

    fs = fsspec.filesystem("holdfast", vault="vault")
    frame = pandas.read_csv("holdfast://alice/orders.csv", storage_options={"vault": "vault"})

Whatever opens files through fsspec reads and writes those of an agent, in a vault of this process
or on a server, and any earlier moment of them. It needs `holdfast[fsspec]`. Not here: going back,
which `restore` and `undo` of the namespace do. `docs/howto/fsspec.md` shows both.
"""

from holdfast.integrations.fsspec.filesystem import HoldfastFileSystem

__all__ = ["HoldfastFileSystem"]
