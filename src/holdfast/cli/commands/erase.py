"""`holdfast erase`: removes a namespace, a session or a user for good, and certifies it."""

import os
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from typing import Final

import msgspec

import holdfast
from holdfast.cli import words
from holdfast.cli.attached import get_vault
from holdfast.cli.console import Console
from holdfast.cli.exits import DONE, usage
from holdfast.engine.erasing.door import Erasures
from holdfast.errors import NamespaceNotFound, SessionNotFound
from holdfast.escaping import escaped
from holdfast.ownfiles import create
from holdfast.progress import Progress

_KINDS: Final = {
    "snapshots": ("snapshot",),
    "entries": ("entry", "entries"),
    "bytes": ("byte",),
    "sessions": ("session",),
    "versions": ("version",),
    "entities": ("entity", "entities"),
    "memories": ("memory", "memories"),
}
"""What is counted, in words."""

EXAMPLES = """\
examples:
  holdfast erase shop --yes --certificate shop-erased.json
  holdfast erase shop --session ses-4f2a --yes --certificate session-erased.json
  holdfast erase --user u-1893 --yes --certificate user-erased.json

There is no way back. Keep the certificate: `holdfast reinstate --erased` erases the same from
what is made of a backup. If the command was killed, and `gc` has finished it, the same command
writes the certificate.
"""


def configure(parser: ArgumentParser) -> None:
    """Adds what the command understands."""
    parser.description = (
        "Erases for good: a namespace, one session of it, or all that is known to be a user's in "
        "any namespace. Rows go, the bytes that nothing else needs, free pages and the log. Rows "
        "of the audit chain keep their place without what they said; snapshots keep theirs, "
        "without the session."
    )
    parser.epilog = EXAMPLES
    parser.add_argument(
        "namespace", metavar="NAMESPACE", nargs="?", help="what to erase, live or deleted"
    )
    parser.add_argument("--number", metavar="N", type=int, help="of several of that name, this one")
    parser.add_argument("--session", metavar="ID", help="of the namespace, this session alone")
    parser.add_argument("--user", metavar="ID", help="a user, from all namespaces")
    parser.add_argument("--yes", action="store_true", help="needed: nothing brings it back")
    parser.add_argument("--certificate", metavar="FILE", help="where to write the certificate")


def run(arguments: Namespace, console: Console) -> int:
    """Does it; returns the exit code."""
    what = _what(arguments)
    if not arguments.yes:
        raise usage(
            f"this erases {what} for good, with every snapshot of it",
            hint="Say --yes. `holdfast forget` and deleting leave a way back.",
        )
    place = None if arguments.certificate is None else console.resolve(arguments.certificate)
    if place is not None and os.path.lexists(place):
        raise usage(f"{escaped(place)} is there already", hint="Name a new file.")
    erasures = get_vault(console).erasures
    try:
        with console.progress() as progress:
            done = _erase(erasures, arguments, progress)
    except (NamespaceNotFound, SessionNotFound):
        before = None if place is None else _find_before(erasures, arguments)
        if before is None:
            raise
        done = before
        console.say(f"It was erased before, at {words.local(done.finished_at)}.")
    if place is not None:
        with create(place) as file:
            file.write(msgspec.json.format(msgspec.json.encode(done), indent=2) + b"\n")
    console.answer(document=lambda: msgspec.to_builtins(done), lines=lambda: _lines(what, done))
    return DONE


def _what(arguments: Namespace) -> str:
    """Returns what is meant; raises if that is unclear."""
    namespace, session, user = arguments.namespace, arguments.session, arguments.user
    if (namespace is None) is (user is None) or (session is not None and namespace is None):
        raise usage(
            "say what to erase: a namespace, a session of one, or a user",
            hint="NAMESPACE, or NAMESPACE --session ID, or --user ID.",
        )
    if arguments.number is not None and (session is not None or user is not None):
        raise usage("--number is for a whole namespace", hint="Leave it out.")
    if user is not None:
        return f"the user {escaped(user)}"
    return escaped(namespace) if session is None else f"{escaped(session)} of {escaped(namespace)}"


def _erase(erasures: Erasures, arguments: Namespace, progress: Progress) -> "holdfast.Certificate":
    if arguments.user is not None:
        return erasures.user(arguments.user, progress=progress)
    if arguments.session is not None:
        return erasures.session(arguments.namespace, arguments.session, progress=progress)
    return erasures.namespace(arguments.namespace, number=arguments.number, progress=progress)


def _find_before(erasures: Erasures, arguments: Namespace) -> "holdfast.Certificate | None":
    """Returns the last certificate of what is meant: somebody else may have finished it."""
    it, number = (arguments.namespace, arguments.session), arguments.number
    found = (each for each in erasures.list() if (each.namespace, each.session_id) == it)
    return next((each for each in found if number in (None, each.namespace_id)), None)


def _lines(what: str, done: "holdfast.Certificate") -> Iterator[str]:
    counts = [words.number(count, *_KINDS[kind]) for kind, count in done.removed.items() if count]
    yield f"Erased {what}: {', '.join(counts) or 'there was nothing'}."
    if done.rewritten_snapshots:
        one, many = "snapshot that held it has", "snapshots that held it have"
        yield f"{words.number(done.rewritten_snapshots, one, many)} another root now."
    one, many = "row of the journal keeps only its", "rows of the journal keep only their"
    yield f"{words.number(done.redacted_rows, one, many)} place."
    yield f"Row {done.number} of the tenant's chain says so: {done.hash[:16]}…"
    if done.copies:
        names = ", ".join(escaped(name) for name in done.copies)
        yield f"Forked from it, and not erased: {names}"
    yield "Out of reach:"
    yield from (f"  {line}" for line in done.out_of_reach)
