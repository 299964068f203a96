"""What the SDK traces, in the chain of the namespace's own journal.

A run and each of its steps become a trace there when they end: who did what, when, for how long,
and whether it failed. What was said is not in it: that is in the conversation, and a trace lasts
longer than a conversation that somebody deletes. Agents never wait for it: a thread writes, and
what cannot be written is counted and logged.
"""

import logging
from functools import partial
from queue import Queue
from threading import Event, Lock, Thread
from typing import Any, Final

from agents.tracing import Span, Trace, TracingProcessor

from holdfast.integrations.calling import Place, within

MOST_WAITING: Final = 10_000
"""Ended steps that wait to be written: some megabytes. What comes when there are more is lost."""

SHORT_CHARS: Final = 200
"""Of a text that says what a step was about."""

_CONTENT: Final = frozenset({"input", "output", "data", "mcp_data", "type"})
"""What is said of a step that may repeat what was said in it."""

_PLAIN: Final = (str, int, float, bool)

_log: Final = logging.getLogger(__name__)

Entry = tuple[str, str, dict[str, Any]]
"""What is written of one thing: the action, its id, and details."""


class HoldfastTracing(TracingProcessor):
    """Writes runs and their steps into the journal of a namespace; `add_trace_processor` takes it.

    `lost` counts what could not be written.
    """

    def __init__(self, agent: Place) -> None:
        self._agent = within(agent)
        # Without a bound of its own, so that nobody waits for room while holding the lock: `_put`
        # looks at how many wait, and loses a step where they are too many.
        self._waiting: Queue[Entry | Event | None] = Queue()
        self._lock = Lock()
        self._thread: Thread | None = None
        self.lost = 0

    def on_trace_start(self, trace: Trace) -> None:
        """Does nothing: a run is told when it ends."""

    def on_span_start(self, span: Span[Any]) -> None:
        """Does nothing: a step is told when it ends."""

    def on_trace_end(self, trace: Trace) -> None:
        """Tells of a run."""
        said = trace.export() or {}
        self._put(
            (
                "openai.run",
                trace.trace_id,
                {"name": trace.name[:SHORT_CHARS], "group_id": said.get("group_id")},
            )
        )

    def on_span_end(self, span: Span[Any]) -> None:
        """Tells of a step: a turn, a tool that was called, a model that was asked."""
        details: dict[str, Any] = {
            "trace_id": span.trace_id,
            "parent_id": span.parent_id,
            "started_at": span.started_at,
            "ended_at": span.ended_at,
            **_short(span.span_data.export()),
        }
        if span.error is not None:
            details["error"] = span.error["message"][:SHORT_CHARS]
        self._put((f"openai.{span.span_data.type}", span.span_id, details))

    def force_flush(self) -> None:
        """Waits until all that has ended is written."""
        written = Event()
        with self._lock:
            if self._thread is None:
                return
            self._waiting.put(written)
        written.wait()

    def shutdown(self) -> None:
        """Writes what has ended, and ends."""
        with self._lock:
            thread, self._thread = self._thread, None
            # Its own end stands behind all that it has to write; what comes later has another.
            waiting, self._waiting = self._waiting, Queue()
        if thread is not None:
            waiting.put(None)
            thread.join()

    def _put(self, entry: Entry) -> None:
        with self._lock:
            if self._thread is None:
                writing = partial(self._write_all, self._waiting)
                self._thread = Thread(target=writing, name="holdfast-tracing", daemon=True)
                self._thread.start()
            if self._waiting.qsize() < MOST_WAITING:
                self._waiting.put(entry)
            else:
                self._lose("too many wait")

    def _write_all(self, waiting: Queue[Entry | Event | None]) -> None:
        while (entry := waiting.get()) is not None:
            if isinstance(entry, Event):
                entry.set()
                continue
            action, resource_id, details = entry
            try:
                self._agent.traces.add(
                    action, resource_type="openai.trace", resource_id=resource_id, details=details
                )
            except Exception as error:  # noqa: BLE001 - whatever it is, agents go on
                self._lose(str(error))

    def _lose(self, reason: str) -> None:
        self.lost += 1
        _log.warning("openai_agents.trace_lost lost=%d reason=%s", self.lost, reason)


def _short(exported: dict[str, Any]) -> dict[str, Any]:
    """Returns what a step says of itself, without what was said in it."""
    said = {name: value for name, value in exported.items() if name not in _CONTENT}
    short = {name: _cut(value) for name, value in said.items() if isinstance(value, _PLAIN)}
    usage: dict[str, Any] = exported.get("usage") or {}
    if usage:
        short["usage"] = {name: each for name, each in usage.items() if isinstance(each, int)}
    return short


def _cut(value: Any) -> Any:
    return value[:SHORT_CHARS] if isinstance(value, str) else value
