"""What a command says: kept, and handed on as text while it runs.

Handed on in a thread of its own. A listener that is slow, as one who writes to a pipe that nobody
reads, holds up nobody but whoever waits for the command: its bounds are watched meanwhile, and its
namespace is free once it has ended. There is never more to be handed on than a command may say.

A listener that fails ends the command, as one who has gone away; what it raised is raised when what
the command did is kept.
"""

import codecs
import threading
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import copy_context
from queue import SimpleQueue
from typing import Final

from holdfast.model.commands import Hear, unheard

_STREAMS: Final = ("stdout", "stderr")


class Said:
    """What a command says, and somebody who listens."""

    def __init__(self, hear: Hear) -> None:
        self._hear = hear
        make = codecs.getincrementaldecoder("utf-8")
        self._decoders = {name: make("replace") for name in _STREAMS}
        self._texts: dict[str, list[str]] = {name: [] for name in _STREAMS}
        self._waiting = SimpleQueue[tuple[str, str] | None]()
        self._failure: BaseException | None = None

    @contextmanager
    def handing_on(self) -> Generator[None]:
        """Hands on what is heard meanwhile; waits for the listener in the end.

        Raises what the listener did.
        """
        if self._hear is unheard:
            yield
            return
        # As whoever asked for it. One that never comes back keeps no process from ending.
        thread = threading.Thread(
            target=copy_context().run, args=(self._hand_on,), name="holdfast-hearing", daemon=True
        )
        thread.start()
        try:
            try:
                yield
            finally:
                self._waiting.put(None)
        except Exception:
            # It hears all that was said before anybody is told what went wrong.
            thread.join()
            raise
        thread.join()
        if self._failure is not None:
            raise self._failure

    @property
    def is_heard(self) -> bool:
        """Whether the listener still listens."""
        return self._failure is None

    def take(self, stream: str, data: bytes) -> None:
        """Takes the next piece."""
        self._add(stream, self._decoders[stream].decode(data))

    def finish(self) -> None:
        """Knows that nothing more comes."""
        for stream, decoder in self._decoders.items():
            self._add(stream, decoder.decode(b"", final=True))

    def text(self, stream: str) -> str:
        """Returns all of it."""
        return "".join(self._texts[stream])

    def _add(self, stream: str, text: str) -> None:
        if text:
            self._texts[stream].append(text)
            if self._hear is not unheard:
                self._waiting.put((stream, text))

    def _hand_on(self) -> None:
        while (said := self._waiting.get()) is not None:
            try:
                self._hear(*said)
            except BaseException as exc:  # noqa: BLE001 - a test's power cut too: who waits raises it
                self._failure = exc
                return
