"""What is more than a request takes, in portions: a server takes 32 MiB and 10,000 parts of one."""

from collections.abc import Generator, Iterable
from typing import Final

PORTION_BYTES: Final = 8 << 20
"""In base64, with what stands around it, well below what a server takes."""

PORTION: Final = 1000
"""Values that are read or put together."""


def portions(sizes: Iterable[tuple[str, int]], *, most: int = PORTION) -> Generator[list[str]]:
    """Yields names in portions that are read, or put, together."""
    names, total = list[str](), 0
    for name, size in sizes:
        if names and (total + size > PORTION_BYTES or len(names) == most):
            yield names
            names, total = [], 0
        names.append(name)
        total += size
    if names:
        yield names
