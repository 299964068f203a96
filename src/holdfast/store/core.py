"""The core of the in-process store: compiled where it could be, plain Python otherwise."""

try:
    from holdfast.store._core import Core, Reader, Snapshot, encode, view
except ImportError:
    from holdfast.store.interpreted import Core, Reader, Snapshot, encode, view

__all__ = ["Core", "Reader", "Snapshot", "encode", "view"]
