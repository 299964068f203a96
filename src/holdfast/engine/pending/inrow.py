"""How much content lies in pending rows until a snapshot.

A file or value of up to 16 KiB is kept in its row, and cut by whoever folds rows into maps: most of
what agents write is overwritten before. Rows stay bounded all the same: by what one call puts, and
by what there may be of them together, which whoever folds has in memory.
"""

from collections.abc import Iterable
from typing import Final

from holdfast.engine.core.limits import MOST
from holdfast.engine.objects import content
from holdfast.engine.planes.handle import Handle
from holdfast.engine.planes.view import View

IN_ROWS_BYTES: Final = 16 << 20
"""What may lie in rows: where so many keys are pending that contents of one size would have as many
bytes together, further ones are cut at once. Where each is smaller than the one before, they may
have five times as much. Whoever takes a snapshot has all of it in memory."""


def most_in_row(handle: Handle, sizes: Iterable[int] = ()) -> int:
    """Returns how many bytes each of the contents may have in its row that one call puts.

    What tasks change is noted as maps have it: what a task finds later is the same then, unless
    others have changed it.
    """
    limits = handle.context.limits
    most = min(content.PENDING_BYTES, limits.inline_bytes)
    if handle.door.within() or sum(size for size in sizes if size <= most) > limits.inline_bytes:
        most = 0
    return max(most, content.INLINE_BYTES)


def most_in_rows(size: int) -> int:
    """Returns with how many pending keys content of so many bytes is still kept in its row."""
    return MOST if size <= content.INLINE_BYTES else IN_ROWS_BYTES // size


def has_room(view: View, size: int) -> bool:
    """Says whether content of so many bytes is kept in its row, beside all that is pending."""
    return view.unfolded < most_in_rows(size)
