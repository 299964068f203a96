"""`holdfast git`: a copy of a namespace in a git repository, and the way back."""

from argparse import ArgumentParser, Namespace
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import holdfast
from holdfast.cli import words
from holdfast.cli.attached import get_workspace
from holdfast.cli.console import Console
from holdfast.cli.exits import DONE, FAILED, usage
from holdfast.escaping import escaped
from holdfast.model.gitbackups import GitBackup, GitImported
from holdfast.settings import git_certificates, secrets_key

EXAMPLES = """\
examples:
  holdfast git set git@host:me/copy.git   where the copy is; prints the key to give the host
  holdfast git host-keys                  what the host shows
  holdfast git confirm SHA256:…           that one is right
  holdfast git push                       now
  holdfast git                            how far it is, and what went wrong last
  holdfast git import ../copy --namespace back
"""

_NEEDS = {
    "set": "the address of a remote",
    "confirm": "the fingerprint of a host key",
    "import": "a directory or the address of a remote",
}
ACTIONS = ("status", "set", "host-keys", "confirm", "push", "pause", "resume", "remove", "import")


def configure(parser: ArgumentParser) -> None:
    """Adds what the command understands."""
    parser.description = (
        "Keeps a copy of a namespace in a git repository of yours: each snapshot is a commit. "
        "HOLDFAST_SECRETS_KEY has what its key is encrypted with."
    )
    parser.epilog = EXAMPLES
    parser.add_argument(
        "action",
        nargs="?",
        choices=ACTIONS,
        metavar="ACTION",
        default="status",
        help="status, set, host-keys, confirm, push, pause, resume, remove or import",
    )
    parser.add_argument("what", nargs="?", metavar="WHAT", help="what the action is about")
    parser.add_argument("--namespace", metavar="NAME", help="not that of the directory")
    parser.add_argument("--branch", metavar="NAME", help="the branch, main unless said")
    parser.add_argument("--key", metavar="FILE", help="a private key of your own")
    parser.add_argument("--user", metavar="NAME", help="who we are over https")
    parser.add_argument(
        "--password-file", metavar="FILE", help="a file with a password or token for https"
    )
    parser.add_argument(
        "--pattern", metavar="PATTERN", action="append", help="set: names of files that stay here"
    )
    parser.add_argument(
        "--no-scan", action="store_true", help="set: also push what looks like a secret"
    )
    parser.add_argument(
        "--plane",
        metavar="PLANE",
        action="append",
        help="set: also push store, sessions or memories, as JSON",
    )
    parser.add_argument("--every", metavar="SECONDS", type=int, help="set: push so often")
    parser.add_argument("--fingerprint", metavar="SHA256:…", help="import: the host key's")


def run(arguments: Namespace, console: Console) -> int:
    """Does it; returns the exit code."""
    action = arguments.action
    if action in _NEEDS and not arguments.what:
        message = f"`holdfast git {action}` needs {_NEEDS[action]}"
        raise usage(message, hint="`holdfast git --help` has examples.")
    with _opened(arguments, console) as (vault, agent):
        match action:
            case "set":
                _answer(console, _set(agent, arguments, console))
            case "confirm":
                _answer(console, agent.git.confirm_host(arguments.what))
            case "host-keys":
                _show_host_keys(console, agent)
            case "push":
                return _push(console, vault, agent)
            case "pause" | "resume":
                _answer(console, agent.git.update(paused=action == "pause"))
            case "remove":
                agent.git.delete()
                console.answer(document=lambda: {"removed": True}, lines=list)
                console.say("Forgot where the copy is; what is there stays there.")
            case "import":
                _import(console, agent, arguments)
            case _:
                _answer(console, agent.git.get())
    return DONE


def _set(agent: "holdfast.Namespace", arguments: Namespace, console: Console) -> GitBackup:
    return agent.git.configure(
        arguments.what,
        branch=arguments.branch or "main",
        private_key=_text_of(arguments.key, console),
        user=arguments.user,
        password=_text_of(arguments.password_file, console),
        patterns=arguments.pattern,
        scan_secrets=not arguments.no_scan,
        every=None if arguments.every is None else timedelta(seconds=arguments.every),
        planes=arguments.plane or (),
    )


def _push(console: Console, vault: "holdfast.Holdfast", agent: "holdfast.Namespace") -> int:
    before = agent.git.push().failures
    # Others may be due, too: they wait no longer by it.
    while (done := agent.git.get()).asked_at is not None and done.failures == before:
        if not vault.push_backups():
            break
    _answer(console, done)
    if done.asked_at is None and done.pushed_at is None:
        console.note("nothing to push yet: `holdfast snapshot` takes the first snapshot")
    return DONE if done.asked_at is None else FAILED


def _import(console: Console, agent: "holdfast.Namespace", arguments: Namespace) -> None:
    source = console.resolve(arguments.what)
    with console.progress() as progress:
        done = agent.git.import_(
            source if Path(source).is_dir() else arguments.what,
            branch=arguments.branch,
            private_key=_text_of(arguments.key, console),
            fingerprint=arguments.fingerprint,
            user=arguments.user,
            password=_text_of(arguments.password_file, console),
            progress=progress,
        )
    console.answer(
        document=lambda: {
            "namespace": agent.name,
            "snapshot_id": done.snapshot.id,
            "commits": done.commits,
            "entries": done.entries,
            "bytes": done.content_bytes,
            "left_out": done.left_out,
            "is_cut": done.is_cut,
        },
        lines=lambda: _imported_lines(agent.name, done),
    )


def _imported_lines(name: str, done: GitImported) -> Iterator[str]:
    commits = words.number(done.commits, "commit", "commits")
    entries = words.number(done.entries, "entry", "entries")
    size = words.size(done.content_bytes)
    yield f"Made namespace {escaped(name)} of {commits}: {entries}, {size}"
    yield from (f"left out: {escaped(path)}" for path in done.left_out)


def _show_host_keys(console: Console, agent: "holdfast.Namespace") -> None:
    found = agent.git.host_keys()
    console.answer(
        document=lambda: {
            "host_keys": [{"kind": each.kind, "fingerprint": each.fingerprint} for each in found]
        },
        lines=lambda: [f"{each.kind}  {each.fingerprint}" for each in found],
    )
    console.say("Compare one with what the host publishes, then `holdfast git confirm` it.")


def _answer(console: Console, backup: GitBackup) -> None:
    pushed = backup.pushed_at
    console.answer(
        document=lambda: {
            "remote": backup.remote,
            "branch": backup.branch,
            "public_key": backup.public_key,
            "host_fingerprint": backup.host_fingerprint,
            "paused": backup.paused,
            "pushed_at": None if pushed is None else pushed.isoformat(),
            "pushed_number": backup.pushed_number,
            "pushed_commit": backup.pushed_commit,
            "withheld": backup.withheld,
            "planes": backup.planes,
            "failures": backup.failures,
            "last_error": backup.last_error,
        },
        lines=lambda: _lines(console, backup),
    )


def _lines(console: Console, backup: GitBackup) -> Iterator[str]:
    yield f"{escaped(backup.remote)}  branch {escaped(backup.branch)}" + (
        "  paused" if backup.paused else ""
    )
    if backup.public_key is not None:
        yield f"deploy key  {backup.public_key}"
        yield f"host key    {backup.host_fingerprint or 'not confirmed: `holdfast git host-keys`'}"
    if backup.pushed_at is None:
        yield "never pushed"
    else:
        when = words.ago(backup.pushed_at, console.clock())
        yield f"pushed up to snapshot #{backup.pushed_number}, {when}"
    if backup.withheld:
        yield f"{words.number(backup.withheld, 'file', 'files')} kept back, by the rules"
    if backup.last_error is not None:
        often = words.number(backup.failures, "time", "times")
        yield f"failed {often}: {escaped(backup.last_error)}"


def _text_of(file: str | None, console: Console) -> str | None:
    if file is None:
        return None
    try:
        return Path(console.resolve(file)).read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError):
        raise usage(f"{file} cannot be read", hint="Name a file with text in it.") from None


@contextmanager
def _opened(
    arguments: Namespace, console: Console
) -> Generator[tuple["holdfast.Holdfast", "holdfast.Namespace"]]:
    name = arguments.namespace
    if name is None:
        if arguments.action == "import":
            raise usage("`holdfast git import` needs --namespace NAME", hint="Name a new one.")
        name = get_workspace(console).namespace.name
    location = console.location()
    known_by = git_certificates(console.environ)
    with holdfast.open(
        location,
        objects=console.find_objects(location),
        secrets_key=secrets_key(console.environ),
        git_certificates=None if known_by is None else console.resolve(known_by),
    ) as vault:
        yield vault, vault.namespace(name)
