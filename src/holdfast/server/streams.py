"""Live streams: events as they happen, to any number of listeners.

All listeners of a tenant share one reader, which asks the catalog for what is new a few times a
second, and only while somebody listens: what another process has written is found the same way.

A listener gets every event after the one it starts at, once and in order: it joins the reader
first, and reads for itself what the reader had passed by then. One that does not keep up is cut
off, and can come back with the id of what it saw last; so is one whose key is no longer valid.
"""

import asyncio
import json
import logging
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from holdfast.engine.journal.events import API_VERSION, MAX_LISTED, envelope
from holdfast.engine.journal.occurrences import kinds_of
from holdfast.engine.tenant import TenantVault
from holdfast.errors import Damaged, HoldfastError
from holdfast.instants import to_text
from holdfast.model.events import EventRow
from holdfast.server.problems import TooManyAtOnce
from holdfast.server.sharing import Shares
from holdfast.server.stopping import Stopping
from holdfast.server.threads import Work, in_thread

logger = logging.getLogger("holdfast.server")

_in_turn = partial(in_thread, work=Work.PIECES)

PAUSE_S: Final = 0.25
FAILED_S: Final = 1.0
"""How long a reader rests when the catalog did not answer."""

KEEPALIVE_S: Final = 15.0
"""How often a silent stream shows that it is alive."""

STILL_HERE: Final = b": still here\n\n"

CHECK_S: Final = 1.0
"""How often it is asked whether a listener's key is still valid."""

WAITING: Final = 1000
"""Events that may wait for a slow listener."""

STREAMS: Final = 256
"""At once, in a worker; one tenant gets half of them."""

STREAMS_OF_KEY: Final = 32

SEAT_AFTER_S: Final = 30
"""After so long it makes sense to ask again for a stream: they last."""


@dataclass(eq=False)
class Listener:
    """Somebody who listens, and to what."""

    namespace: str | None
    """The only namespace whose events it gets; None for all, and for what is in none."""
    after: int
    """The number of the last event that it has no need of."""
    types: frozenset[str] = frozenset()
    """The only types that it gets; none for all."""
    passed: str | None = None
    """The id of an event of another type, since the last that it was given."""
    waiting: "asyncio.Queue[bytes | None]" = field(
        default_factory=lambda: asyncio.Queue[bytes | None](WAITING)
    )

    def sees(self, event: EventRow) -> bool:
        """Says whether an event is one that it could have, of whatever type."""
        return event.number > self.after and self.namespace in (None, event.namespace)

    def wants(self, event: EventRow) -> bool:
        """Says whether an event is for it."""
        return self.sees(event) and (not self.types or event.type in self.types)

    def alive(self) -> bytes:
        """Returns a sign of life, with how far it has come among what is not for it.

        One that hears little would begin far back when it comes again: so it begins there.
        """
        passed, self.passed = self.passed, None
        if passed is None or not self.waiting.empty():
            return STILL_HERE
        return f"id: {passed}\n".encode("ascii") + STILL_HERE

    def offer(self, line: bytes) -> bool:
        """Hands a line over; False if too many wait already."""
        try:
            self.waiting.put_nowait(line)
        except asyncio.QueueFull:
            return False
        return True

    def end(self) -> None:
        """Tells it that there is nothing more to come."""
        while not self.waiting.empty():
            self.waiting.get_nowait()
        self.waiting.put_nowait(None)


@dataclass(eq=False)
class Reader:
    """What reads a tenant's events for all who listen to them."""

    vault: TenantVault
    position: int
    """The number of the last event that it has handed out."""
    listeners: set[Listener] = field(default_factory=set[Listener])
    task: "asyncio.Task[None] | None" = None

    def hand_out(self, event: EventRow) -> None:
        """Gives an event to all who want it; those who cannot keep up hear no more."""
        self.position = event.number
        wanting = [each for each in self.listeners if each.wants(event)]
        for listener in self.listeners.difference(wanting):
            if listener.sees(event):
                listener.passed = event.id
        if wanting:
            line = line_of(event, self.vault.tenant_id)
            for listener in wanting:
                listener.passed = None
                if not listener.offer(line):
                    listener.end()
                    self.listeners.discard(listener)


class Streams:
    """The readers of this process, one for each tenant that somebody listens to."""

    def __init__(
        self, stopping: Stopping, *, pause_s: float = PAUSE_S, keepalive_s: float = KEEPALIVE_S
    ) -> None:
        self._stopping = stopping
        self._pause_s, self._keepalive_s = pause_s, keepalive_s
        self._check_s = min(CHECK_S, keepalive_s)
        self.readers: dict[str, Reader] = {}
        self._seats, self._keys = Shares(STREAMS), Counter[str]()

    def seat(self, tenant: str, key_id: str) -> Callable[[], None]:
        """Takes a seat for one more listener of a key; returns what gives it back.

        Raises `TooManyAtOnce` if the key has as many as it may, or its tenant.
        """
        if self._keys[key_id] >= STREAMS_OF_KEY:
            message = f"a key may have {STREAMS_OF_KEY} streams at once, and this one has"
            raise TooManyAtOnce(message, retry_after=SEAT_AFTER_S)
        if not self._seats.take_at_once(tenant):
            message = "this workspace has as many streams as it may have at once"
            raise TooManyAtOnce(message, retry_after=SEAT_AFTER_S)
        self._keys[key_id] += 1

        def leave() -> None:
            self._seats.give_back(tenant)
            self._keys[key_id] -= 1
            if not self._keys[key_id]:
                del self._keys[key_id]

        return leave

    async def listen(
        self,
        vault: TenantVault,
        *,
        namespace: str | None,
        is_valid: Callable[[], bool],
        types: Iterable[str] = (),
        after: int | None = None,
    ) -> AsyncGenerator[bytes]:
        """Yields lines of a stream: what happens from now on, or after an event that was seen.

        Of some types, or of all. `is_valid` is asked now and then, in a thread, whether the
        listener may go on.
        """
        last, newest = await _in_turn(vault.events.last), None
        if after is None:
            newest = await _in_turn(find_newest, vault, namespace)
            # Of a quiet namespace it is old, and what came after it is no business of the listener.
            after = last if newest is None else max(last, newest.number)
        listener = Listener(namespace, after, frozenset(kinds_of(types)))
        reader, passed = self._join(vault, listener, last)
        try:
            # Who is cut off before the first event comes back with this id, and misses nothing.
            first_id = None if newest is None else newest.id
            yield message_line(_connected(vault), event_id=first_id)
            async for line in self._missed(vault, listener, passed, is_valid):
                yield line
            async for line in self._live(listener, is_valid):
                yield line
        finally:
            reader.listeners.discard(listener)

    def _join(self, vault: TenantVault, listener: Listener, last: int) -> tuple[Reader, int]:
        """Adds a listener; returns its reader, and how far that one had come by then."""
        reader = self.readers.get(vault.tenant_id)
        if reader is None:
            reader = self.readers[vault.tenant_id] = Reader(vault, last)
            reader.task = asyncio.create_task(self._read(reader))
        reader.listeners.add(listener)
        return reader, reader.position

    async def _missed(
        self,
        vault: TenantVault,
        listener: Listener,
        passed: int,
        is_valid: Callable[[], bool],
    ) -> AsyncGenerator[bytes]:
        """Yields what the reader had passed before the listener joined it."""
        after, loop = listener.after, asyncio.get_running_loop()
        spoken = loop.time()
        while after < passed and not self._stopping.is_set():
            page = await _in_turn(read_page, vault, after)
            if not page:
                return
            for event in page:
                if event.number <= passed and listener.wants(event):
                    yield line_of(event, vault.tenant_id)
                    spoken = loop.time()
            after = page[-1].number
            if loop.time() - spoken >= self._check_s:
                # It may be long until there is one that it wants: does it still listen?
                if not await _in_turn(is_valid):
                    listener.end()
                    return
                yield STILL_HERE
                spoken = loop.time()

    async def _live(
        self, listener: Listener, is_valid: Callable[[], bool]
    ) -> AsyncGenerator[bytes]:
        """Yields what the reader hands over, until it is over."""
        loop = asyncio.get_running_loop()
        checked = spoken = loop.time()
        while not self._stopping.is_set():
            left = max(0.0, checked + self._check_s - loop.time())
            try:
                # Not `wait_for`, which forgets that it was cancelled when a line comes just then.
                async with asyncio.timeout(left):
                    line = await listener.waiting.get()
            except TimeoutError:
                line = b""
            if line is None:
                return
            if loop.time() - checked >= self._check_s:
                if not await _in_turn(is_valid):
                    return
                checked = loop.time()
            if line or loop.time() - spoken >= self._keepalive_s:
                spoken = loop.time()
                yield line or listener.alive()

    async def _read(self, reader: Reader) -> None:
        """Reads what is new, and hands it to all who listen, until nobody does."""
        try:
            while reader.listeners and not self._stopping.is_set():
                try:
                    page = await _in_turn(read_page, reader.vault, reader.position)
                except HoldfastError as exc:
                    logger.warning("events cannot be read: %s", exc)
                    await self._stopping.sleep(FAILED_S)
                    continue
                for event in page:
                    reader.hand_out(event)
                if len(page) < MAX_LISTED:
                    await self._stopping.sleep(self._pause_s)
        finally:
            # Whoever joins from here on finds no reader, and starts another.
            del self.readers[reader.vault.tenant_id]
            for listener in reader.listeners:
                listener.end()


def find_newest(vault: TenantVault, namespace: str | None) -> EventRow | None:
    """Returns the latest event that a listener could have seen; None if there is none.

    Also if it is damaged, which keeps nobody from hearing of others.
    """
    with suppress(Damaged):
        return next(iter(vault.events.list(namespace=namespace, limit=1)[0]), None)
    return None


def read_page(vault: TenantVault, after: int) -> list[EventRow]:
    """Returns what follows an event, oldest first."""
    return vault.events.page(after=after)


def line_of(event: EventRow, workspace_id: str) -> bytes:
    """Returns an event as it stands in a stream."""
    return message_line(envelope(event, workspace_id=workspace_id), event_id=event.id)


def message_line(message: dict[str, Any], *, event_id: str | None = None) -> bytes:
    """Returns an object as it stands in a stream.

    One line of ASCII after `data: `, and a line feed at the end of each line: some clients read
    no more of the standard than that.
    """
    first = "" if event_id is None else f"id: {event_id}\n"
    return f"{first}data: {json.dumps(message, separators=(',', ':'))}\n\n".encode("ascii")


def _connected(vault: TenantVault) -> dict[str, Any]:
    """Returns what a stream begins with: from here on nothing is missed."""
    return {
        "id": "evt-connected",
        "event_id": "evt-connected",
        "type": "connected",
        "api_version": API_VERSION,
        "workspace_id": vault.tenant_id,
        "namespace": None,
        "created_at": to_text(vault.now()),
        "data": {},
    }
