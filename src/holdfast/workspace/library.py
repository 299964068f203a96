"""Finds what was compiled from the C sources of this package (`hatch_build.py`).

A library lies beside its source and knows no Python. Where there is none, or none that fits, the
caller does the same work in Python.
"""

import os
import sys
from collections.abc import Callable


def library_name(part: str) -> str:
    """Returns the file name of a compiled part for this machine."""
    machine = os.uname()
    bits = 64 if sys.maxsize > 2**32 else 32
    return f"_{part}-{machine.sysname.lower()}-{machine.machine}-{bits}.so"


def is_near(mtime_ns: int) -> bool:
    """Says whether a time lies between 1678 and 2262; others are set from Python."""
    return -(2**63) <= mtime_ns < 2**63


def load_function(
    part: str, name: str, arguments: str, *, keeps_lock: bool = False
) -> Callable[..., int] | None:
    """Returns a function of a compiled part; None where there is none that fits.

    Its arguments are given as in `struct`: i for int, I for uint32, Q for uint64, P for an address.
    With `keeps_lock` other threads of Python stand still while it runs.
    """
    path = f"{__file__.rpartition('/')[0]}/{library_name(part)}"
    # Asked before ctypes is imported, which costs as much as looking at a thousand files.
    if not os.access(path, os.R_OK):
        return None
    import ctypes  # noqa: PLC0415 - as above: only where it is used

    types = {"i": ctypes.c_int, "I": ctypes.c_uint32, "Q": ctypes.c_uint64, "P": ctypes.c_void_p}
    try:
        function = (ctypes.PyDLL if keeps_lock else ctypes.CDLL)(path)[name]
    except (OSError, AttributeError):
        # Built for another C library, or from a source that has changed since.
        return None
    function.argtypes = [types[each] for each in arguments]
    function.restype = ctypes.c_int
    return function
