"""Snapshots, as commands take and show them: what is said of one, which are meant, what is told."""

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import holdfast
from holdfast.cli import words
from holdfast.cli.exits import usage
from holdfast.cli.moments import instant_of
from holdfast.cli.views import instant
from holdfast.escaping import escaped

USUALLY_SHOWN = 20
KEPT = "keep this with it; may be given again"


def add_note(parser: ArgumentParser) -> None:
    """Adds what can be said of a snapshot that is taken."""
    parser.add_argument("-m", "--label", metavar="LABEL", help="what to call it")
    parser.add_argument("--reason", metavar="TEXT", help="why it is taken")
    parser.add_argument("--pin", action="store_true", help="keep it until it is unpinned")
    add_pairs(parser)


def note_of(arguments: Namespace) -> dict[str, Any]:
    """Returns what is said of a snapshot, as `snapshot` takes it."""
    said = {"label": arguments.label, "reason": arguments.reason, "pin": arguments.pin}
    return {**said, "metadata": pairs_of(arguments)}


def add_choice(parser: ArgumentParser) -> None:
    """Adds what says which snapshots are meant."""
    parser.add_argument(
        "-n",
        "--number",
        metavar="N",
        type=int,
        default=USUALLY_SHOWN,
        help=f"how many (default {USUALLY_SHOWN}; 0: all)",
    )
    add_pairs(parser, "only snapshots that were taken with this; may be given again")
    parser.add_argument(
        "--grep",
        metavar="WORDS",
        help="only those whose label, reason, task or actor has all of these",
    )
    parser.add_argument("--kind", metavar="KIND", help="only those of a kind, such as restore")
    parser.add_argument("--actor", metavar="NAME", help="only those that somebody has made")
    parser.add_argument(
        "--task-status",
        metavar="STATUS",
        help="only those of tasks that are running, completed or failed",
    )
    # Left out, it says nothing; there is no way to ask for those that are not pinned.
    parser.add_argument(
        "--pinned", action="store_true", default=None, help="only those that are pinned"
    )
    parser.add_argument("--since", metavar="WHEN", help="only those from then on")
    parser.add_argument("--until", metavar="WHEN", help="only those up to then")


def choice_of(arguments: Namespace, *, now: datetime) -> dict[str, Any]:
    """Returns which snapshots are meant, as `timeline` takes it; of what nobody said, nothing."""
    if arguments.number < 0:
        raise usage("-n is 0 or more", hint="`holdfast log -n 0` lists all of them.")
    said: dict[str, Any] = {
        "metadata": pairs_of(arguments) or None,
        "q": arguments.grep,
        "kind": arguments.kind,
        "actor": arguments.actor,
        "task_status": arguments.task_status,
        "pinned": arguments.pinned,
        "since": arguments.since and instant_of(arguments.since, now=now, is_begin=True),
        "until": arguments.until and instant_of(arguments.until, now=now),
    }
    return {name: value for name, value in said.items() if value is not None}


def add_pairs(parser: ArgumentParser, said: str = KEPT) -> None:
    """Adds pairs of text: those that a snapshot is to have, or has."""
    parser.add_argument(
        "--meta", metavar="KEY=VALUE", action="append", default=[], type=_pair, help=said
    )


def pairs_of(arguments: Namespace) -> dict[str, str]:
    """Returns these pairs; refuses a key that is said twice."""
    pairs = dict[str, str]()
    for key, value in arguments.meta:
        if key in pairs:
            hint = "Say each key once: a snapshot has one value for it."
            raise usage(f"--meta says {escaped(key)} twice", hint=hint)
        pairs[key] = value
    return pairs


def _pair(text: str) -> tuple[str, str]:
    key, is_pair, value = text.partition("=")
    if not (key and is_pair):
        raise ArgumentTypeError("it is KEY=VALUE")
    return key, value


def snapshot_view(snapshot: "holdfast.SnapshotInfo") -> dict[str, object]:
    """Returns a snapshot as a JSON object, with how much it changed if that was asked for."""
    changes = {} if snapshot.changes is None else {"changes": snapshot.changes}
    return {
        **changes,
        "snapshot_id": snapshot.id,
        "number": snapshot.number,
        "kind": snapshot.kind.value,
        "label": snapshot.label,
        "reason": snapshot.reason,
        "actor": snapshot.actor,
        "task_id": snapshot.task_id,
        "trace_id": snapshot.trace_id,
        "created_at": instant(snapshot.created_at),
        "expires_at": instant(snapshot.expires_at),
        "pinned": snapshot.pinned,
        "is_partial": snapshot.is_partial,
        "parent_id": snapshot.parent,
        "target_id": snapshot.target,
        "entries": snapshot.size.entries,
        "bytes": snapshot.size.bytes,
        "root": snapshot.root.hex(),
        "metadata": snapshot.metadata,
    }


def fields_of(snapshot: "holdfast.SnapshotInfo") -> Iterator[tuple[str, str | None]]:
    """Yields what is shown of a snapshot to people, by name."""
    yield "label", snapshot.label
    yield "reason", snapshot.reason
    for key, value in snapshot.metadata.items():
        yield "metadata", f"{key}={value}"
    yield "actor", snapshot.actor
    yield "task", snapshot.task_id
    yield "trace", snapshot.trace_id
    yield "taken", words.local(snapshot.created_at)
    expires = "never: pinned" if snapshot.pinned else None
    if snapshot.expires_at is not None:
        expires = words.local(snapshot.expires_at)
    yield "expires", expires
    yield "holds", f"{snapshot.size.entries:,} entries, {words.size(snapshot.size.bytes)}"
    yield "after", snapshot.parent
    yield "target", snapshot.target
