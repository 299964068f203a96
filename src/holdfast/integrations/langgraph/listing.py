"""Lists checkpoints, newest first, of one place or of many: as much is read as somebody wants."""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from holdfast.integrations.doors import Steps
from holdfast.integrations.langgraph.caching import Parts
from holdfast.integrations.langgraph.reading import (
    NEAR,
    PAGE,
    Backwards,
    Missing,
    Stored,
    large_values,
    namespaces_of,
    threads,
    with_values,
)
from holdfast.integrations.langgraph.records import Place, place_of

TOGETHER: Final = 16
"""Checkpoints whose large values are in memory together."""


class Choice(NamedTuple):
    """Which checkpoints are listed."""

    thread: str | None
    """A namespace of the store; without one, all that begin with `threads`."""
    threads: str
    checkpoint_ns: str | None
    checkpoint_id: str | None
    before: str | None
    limit: int | None
    is_meant: Callable[[Stored], bool] | None
    """Says of each whether it is among them; None where all are."""
    cache: Parts


class Listed(NamedTuple):
    """A checkpoint of a list, with its large values by their names."""

    thread: str
    stored: Stored
    values: dict[str, bytes]


class _Source:
    """The checkpoints of one place, those that were read and those to come."""

    def __init__(self, place: Place, choice: Choice, most: int) -> None:
        self.thread = place.thread
        if choice.checkpoint_id is not None:
            place = Place(place.thread, place.key(choice.checkpoint_id))
            after = None
        else:
            after = None if choice.before is None else place.key(choice.before)
        self.reading = Backwards(place, after=after, most=most)
        self.waiting = deque[Stored]()
        self._choice = choice

    @property
    def is_dry(self) -> bool:
        """Whether the next one is not known yet."""
        return not self.waiting and not self.reading.is_at_end

    def fill(self) -> Steps[None]:
        """Reads until the next one is known, if there is one."""
        is_meant, before = self._choice.is_meant, self._choice.before
        while self.is_dry:
            for stored in (yield from self.reading.page()):
                if before is not None and stored.id >= before:
                    continue
                if is_meant is None or is_meant(stored):
                    self.waiting.append(stored)


class Listing:
    """A list of checkpoints that is read some at a time."""

    def __init__(self, choice: Choice) -> None:
        self._choice, self._left = choice, choice.limit
        self._sources: list[_Source] | None = None

    def some(self) -> Steps[list[Listed]]:
        """Returns the next ones; none at the end."""
        if self._left is not None and self._left <= 0:
            return []
        if self._sources is None:
            self._sources = yield from self._opened()
        while True:
            for source in self._sources:
                yield from source.fill()
            taken = self._take(self._sources)
            found = yield from _with_values(taken, self._choice.cache)
            # Of what is deleted by now nothing may be left, and more may follow.
            if found or not taken:
                break
        if self._left is not None:
            self._left -= len(found)
        return found

    def _take(self, sources: Sequence[_Source]) -> list[tuple[str, Stored]]:
        """Takes the newest of all, for as long as it is known which that is."""
        most = TOGETHER if self._left is None else min(TOGETHER, self._left)
        taken = list[tuple[str, Stored]]()
        while len(taken) < most and not any(source.is_dry for source in sources):
            ready = [source for source in sources if source.waiting]
            if not ready:
                break
            newest = max(ready, key=lambda source: source.waiting[0].id)
            taken.append((newest.thread, newest.waiting.popleft()))
        return taken

    def _opened(self) -> Steps[list[_Source]]:
        choice = self._choice
        names = [choice.thread] if choice.thread is not None else []
        if choice.thread is None:
            names = yield from threads(choice.threads)
        places = list[Place]()
        for name in names:
            if choice.checkpoint_ns is None:
                found = yield from namespaces_of(name)
                places += [place_of(name, checkpoint_ns) for checkpoint_ns in found]
            else:
                places.append(place_of(name, choice.checkpoint_ns))
        most = PAGE
        if choice.limit is not None and choice.is_meant is None:
            most = min(PAGE, max(NEAR, 2 * choice.limit))
        return [_Source(place, choice, most) for place in places]


def _with_values(taken: Sequence[tuple[str, Stored]], cache: Parts) -> Steps[list[Listed]]:
    """Returns checkpoints with their large values, without those that are deleted by now."""
    try:
        values = yield from _together(taken, cache)
    except Missing:
        found = list[Listed]()
        for thread, stored in taken:
            place = place_of(thread, stored.checkpoint_ns)
            read = yield from with_values(place, stored, cache=cache)
            found += [] if read is None else [Listed(thread, *read)]
        return found
    return [Listed(thread, stored, values[thread]) for thread, stored in taken]


def _together(
    taken: Sequence[tuple[str, Stored]], cache: Parts
) -> Steps[dict[str, dict[str, bytes]]]:
    found = dict[str, dict[str, bytes]]()
    for thread in dict.fromkeys(thread for thread, _ in taken):
        wanted = [
            each
            for whose, stored in taken
            if whose == thread
            for each in stored.record.large.values()
        ]
        found[thread] = yield from large_values(thread, wanted, cache)
    return found
