"""Memory of just the size that a C function was told of.

A buffer of Python has a header before it and a zero byte after it, where a sanitizer would not
notice who reads too far: what is here comes from `malloc`, and has its borders watched.
"""

import contextlib
import ctypes
from collections.abc import Generator, Iterable

_process = ctypes.CDLL(None)
_malloc, _free = _process.malloc, _process.free
_malloc.argtypes, _malloc.restype = [ctypes.c_size_t], ctypes.c_void_p
_free.argtypes, _free.restype = [ctypes.c_void_p], None


class Blocks:
    """Blocks of memory, until they are let go together."""

    def __init__(self) -> None:
        self.addresses = list[int]()

    def hold(self, data: bytes) -> int:
        """Returns where the bytes are."""
        at = _malloc(len(data))
        assert at is not None
        ctypes.memmove(at, data, len(data))
        self.addresses.append(at)
        return int(at)

    def hold_text(self, text: bytes) -> int:
        """Returns where the bytes are, with the zero byte that ends them."""
        return self.hold(text + b"\0")

    def hold_addresses(self, addresses: Iterable[int]) -> int:
        """Returns where the addresses are."""
        return self.hold(b"".join(bytes(ctypes.c_void_p(each)) for each in addresses))


@contextlib.contextmanager
def exact_memory() -> Generator[Blocks]:
    blocks = Blocks()
    try:
        yield blocks
    finally:
        for address in blocks.addresses:
            _free(address)
