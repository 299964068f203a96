# What `_core.c` offers: the classes of `interpreted.py`, which this repeats for type checkers.
from holdfast.store.interpreted import Core as Core
from holdfast.store.interpreted import Reader as Reader
from holdfast.store.interpreted import Snapshot as Snapshot
from holdfast.store.interpreted import encode as encode
from holdfast.store.interpreted import view as view

DIGEST: str

def _mask_hashes(bits: int, /) -> None: ...
