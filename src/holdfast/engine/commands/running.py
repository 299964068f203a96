"""Runs a command in a namespace: its files around it, and what it leaves is in a snapshot.

1. The directory of the namespace catches up with what was written through the namespace.
2. The command runs in the sandbox, and in there alone.
3. What it has left, well or not, becomes a snapshot, if it changed anything: `undo` takes it back.
   What was written through the namespace and is in no snapshot becomes one before it. What took
   more room than it may is in a snapshot, and not in the head.
4. The journal says what was run, by whom, and how it ended.

A crash leaves nothing running; what the command did by then is kept by the next one (`warm.py`).
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, TypedDict

from holdfast.engine.commands.hearing import Said
from holdfast.engine.commands.warm import Warm, lend
from holdfast.engine.core.context import Context
from holdfast.engine.journal.chain import append
from holdfast.engine.journal.occurrences import shortened
from holdfast.engine.namespace import Namespace
from holdfast.engine.planes.commanding import Manner
from holdfast.engine.planes.handle import Handle
from holdfast.engine.tasks.commanding import execute
from holdfast.errors import InvalidValue, LimitExceeded
from holdfast.escaping import spaced
from holdfast.ids import SnapshotId
from holdfast.model.basics import Head
from holdfast.model.commands import Executed, Hear, Stopped, unheard
from holdfast.model.traces import Trace
from holdfast.operations.commands import Command
from holdfast.operations.snapshots import MAX_TEXT_CHARS
from holdfast.sandbox.confining import HOME, WORKSPACE
from holdfast.sandbox.limits import Allowance
from holdfast.sandbox.probing import Sandbox
from holdfast.sandbox.running import End, Order

_NOTED_CHARS: Final = 1000
"""Of a command: the journal says what was run, and is no copy of a script."""

_PRELUDE: Final = 'p=$1 c=$2; set --; [ ! -f "$p" ] || . "$p" < /dev/null; eval "$c"'


class SandboxedCommands:
    """What runs commands, for all namespaces of a vault."""

    def __init__(
        self,
        sandbox: Sandbox,
        *,
        allowance: Allowance,
        longest_s: float,
        has_network: bool = False,
    ) -> None:
        self._sandbox, self._allowance = sandbox, allowance
        self._longest_s, self._has_network = longest_s, has_network

    def check(self) -> None:
        """Raises `SandboxUnavailable` if no command can be run here."""
        self._sandbox.check()

    def run(self, handle: Handle, wanted: Command, hear: Hear, manner: Manner) -> Executed:
        """Runs a command to its end, and keeps what it has left."""
        allowance = self._allowed(wanted)
        self._sandbox.check()
        handle.ensure()
        with handle.context.catalog.read() as transaction:
            head = handle.get_head(transaction)
        said = Said(hear)
        with said.handing_on(), lend(handle, head, allowance, manner) as warm:
            warm.catch_up()
            # Others may have written while this one waited for its turn.
            head = warm.measure_from_now(allowance)
            order = Order(
                command=_line(wanted.command, manner),
                folder=str(warm.place.files),
                cwd=HOME if manner.is_beside else WORKSPACE,
                allowance=allowance,
                stdin=(wanted.stdin or "").encode(),
                has_network=wanted.network,
                folder_bytes=head.size.bytes,
                folder_files=head.size.entries,
                number=warm.number,
            )
            # What waits for its reply would keep others from writing for as long as this runs.
            handle.context.begin_anew()
            manner.check_wanted()
            manner.begins()
            with warm.place.in_use():
                end = self._sandbox.run(
                    order, said.take, is_wanted=lambda: said.is_heard and manner.is_wanted()
                )
                said.finish()
                try:
                    kept = _keep(warm, wanted, end)
                except LimitExceeded:
                    # It was run, whatever becomes of what it left.
                    _note(handle.context, handle, head, wanted, _done(said, end, {}))
                    raise
            done = _done(said, end, kept)
            _note(handle.context, handle, head, wanted, done)
        return done

    def _allowed(self, wanted: Command) -> Allowance:
        if wanted.network and not self._has_network:
            raise InvalidValue("commands have no network here").with_hint(
                "HOLDFAST_EXEC_NETWORK=1 lets whoever asks for it have that of this machine."
            )
        if wanted.timeout_s is None:
            return self._allowance
        if wanted.timeout_s > self._longest_s:
            message = f"a command runs for {self._longest_s:g} seconds at the most"
            raise InvalidValue(message)
        return replace(self._allowance, seconds=wanted.timeout_s)


class _Kept(TypedDict, total=False):
    """Where what a command has left is, as `Executed` says it."""

    snapshot: SnapshotId | None
    is_partial: bool
    skipped: Sequence[str]
    restored: SnapshotId


def _done(said: Said, end: End, kept: _Kept) -> Executed:
    return Executed(
        exit_code=end.exit_code,
        stdout=said.text("stdout"),
        stderr=said.text("stderr"),
        duration_ms=round(end.seconds * 1000),
        stopped=end.stopped,
        **kept,
    )


def _keep(warm: Warm, wanted: Command, end: End) -> _Kept:
    reason = _reason(wanted, end)
    if end.stopped is Stopped.DISK:
        back = warm.set_aside(reason)
        return {} if back is None else {"snapshot": back.parent, "restored": back.id}
    taken = warm.keep(reason)
    if taken is None:
        return {"skipped": warm.skipped}
    return {"snapshot": taken.id, "is_partial": taken.is_partial, "skipped": warm.skipped}


def _line(command: str, manner: Manner) -> list[str]:
    if manner.prelude is None:
        return ["/bin/bash", "-c", command]
    return ["/bin/bash", "-c", _PRELUDE, "bash", manner.prelude, command]


def _reason(wanted: Command, end: End) -> str:
    how = f"ended with {end.exit_code}"
    if end.stopped is not None:
        how = f"was ended for its {end.stopped}"
    return f"a command {how}: {spaced(wanted.command)}"[:MAX_TEXT_CHARS]


def _note(context: Context, handle: Handle, head: Head, wanted: Command, done: Executed) -> None:
    command = wanted.command[:_NOTED_CHARS]
    details = {
        "command": command,
        "exit_code": done.exit_code,
        "duration_ms": done.duration_ms,
        "stopped": done.stopped,
        "stdin_bytes": len((wanted.stdin or "").encode()),
        "snapshot_id": done.snapshot,
    }
    trace = Trace(
        action="exec.completed",
        resource_type="namespace",
        resource_id=head.name,
        details={name: value for name, value in details.items() if value is not None},
    )
    with context.work() as transaction:
        now = handle.find_and_lock(transaction)
        if now is not None and now.namespace_id == head.namespace_id:
            told = {"command": shortened(command)}
            append(transaction, context, now, trace, door=handle.door, told=told)


def run_as(
    namespace: Namespace, wanted: Command, manner: Manner, *, hear: Hear = unheard
) -> Executed:
    """Runs a command in a namespace, in some manner."""
    handle = namespace._handle  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - of the engine, as this is
    return execute(handle, wanted, hear, manner)
