"""Values of a history: what happened to one thing, and where that is first seen.

As in `model`: frozen, without behaviour beyond what follows from their fields.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Annotated

from holdfast.ids import SnapshotId
from holdfast.model.basics import SnapshotInfo
from holdfast.model.marks import HERE, Named
from holdfast.model.names import Name


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Something that happened to one thing."""

    change: str
    """`added`, `removed` or `changed`."""
    snapshot: SnapshotInfo | None
    """The first that shows it, with when, by whom and why; None for what is in none yet."""
    previous: SnapshotId | None
    """The snapshot before that one, which still shows it as it was; None if there is none."""
    gone: int = 0
    """How many snapshots between the two are no longer there: it may be older than `snapshot`."""
    old_bytes: int | None = None
    """The size before; None if it was not there, or was a directory."""
    new_bytes: int | None = None
    """The size after; None if it is not there, or is a directory."""
    entries: int = 1
    """How many entries changed: 1, but in a directory. 1,000 stands for that many or more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """What happened to one thing, newest first."""

    name: Name
    steps: Sequence[Step]
    searched_to: int | None
    """The number of the oldest snapshot that was looked at; None if there was none."""
    before: Annotated[int | None, Named("next_before")]
    """Where it goes on, for `before`; None if nothing older is there to be looked at."""
    namespace: Annotated[str | None, HERE] = field(default=None, compare=False)

    def __iter__(self) -> Iterator[Step]:
        return iter(self.steps)

    def __len__(self) -> int:
        return len(self.steps)
