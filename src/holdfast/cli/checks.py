"""What `holdfast doctor` looks at, one function per check.

A check never raises for what it finds: whatever is wrong is its answer. Nothing is changed,
except that opening an attached directory finishes a restore that was interrupted.
"""

import os
import platform
import shlex
import stat
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import holdfast
from holdfast.cli import words
from holdfast.cli.attached import LOSS_HINT
from holdfast.cli.console import Console
from holdfast.cli.exits import DAMAGE_HINT, hint_of
from holdfast.cli.hooks import problems
from holdfast.errors import HoldfastError
from holdfast.ownfiles import is_open
from holdfast.settings import holds_vault, is_url, mirrors_of

OK, WARN, FAIL = "ok", "warn", "fail"

OLDEST_PYTHON: Final = (3, 11)

LITTLE_SPACE_BYTES: Final = 1 << 30
"""Below this a first snapshot of an ordinary project may not fit."""

FEW_WATCHES: Final = 65_536
"""A watcher needs one watch per directory; large projects have tens of thousands."""

LATE: Final = timedelta(hours=3)
"""How long what a server does by itself may wait: it looks after a vault every hour."""

_WATCHES: Final = "/proc/sys/fs/inotify/max_user_watches"
_IGNORE_FILE: Final = ".holdfastignore"


@dataclass(frozen=True, slots=True)
class Check:
    """What one check found, and what to do about it."""

    name: str
    state: str
    message: str
    to_do: str = ""


def run_checks(console: Console) -> Iterator[Check]:
    """Yields what each check finds."""
    yield _python()
    location = console.location()
    yield from _vault_directory(location)
    yield _free_space(console.find_objects(location) or location)
    vault = None
    if holds_vault(location):
        try:
            vault = console.open_vault(location)
        except HoldfastError as error:
            yield Check("catalog", FAIL, str(error), hint_of(error, console))
        else:
            yield _catalog(vault, console)
    if vault is not None:
        yield _packs(vault, console)
        yield from _lags(vault, console)
        yield _attached(vault)
        yield from _workspace(console, location)
        yield from _hooks(console, location)
    yield from _mirrors(console)
    yield _compiled_check()
    yield _watches()
    yield _git(console)


def _python() -> Check:
    found = f"{platform.python_version()} on {sys.platform}"
    if tuple(sys.version_info) < OLDEST_PYTHON:
        return Check("python", FAIL, found, "Holdfast needs 3.11 or newer.")
    return Check("python", OK, found)


def _vault_directory(location: str) -> Iterator[Check]:
    if is_url(location):
        yield Check("vault", OK, "in a database")
        return
    if not holds_vault(location):
        hint = "`holdfast init` makes one."
        yield Check("vault", WARN, f"there is none at {location} yet", hint)
        return
    if is_read_only(location):
        hint = "Reading works. To write, mount the disk writable, or copy the vault to one that is."
        yield Check("vault", FAIL, f"{location} lies on a disk that is read-only", hint)
        return
    if not os.access(location, os.R_OK | os.W_OK | os.X_OK):
        hint = "Give yourself the right to read and write it, or use another with --data."
        yield Check("vault", FAIL, f"{location} cannot be written", hint)
        return
    yield Check("vault", OK, location)
    mode = stat.S_IMODE(os.stat(location).st_mode)
    if is_open(location):
        message = f"others may look into {location} (mode {mode:o})"
        yield Check("privacy", WARN, message, f"chmod 700 {location}")


def is_read_only(location: str) -> bool:
    """Says whether the disk that a vault lies on takes no writes."""
    try:
        return bool(os.statvfs(location).f_flag & os.ST_RDONLY)
    except OSError:
        return False


def _free_space(location: str) -> Check:
    if is_url(location):
        return Check("space", OK, "packs are in a bucket")
    folder = location
    while folder and not os.path.isdir(folder) and os.path.dirname(folder) != folder:
        folder = os.path.dirname(folder)  # The vault is not there yet: where it would be.
    try:
        found = os.statvfs(folder)
    except OSError as error:
        return Check("space", WARN, f"unknown: {error.strerror}")
    free = found.f_bavail * found.f_frsize
    message = f"{words.size(free)} free"
    hint = "Free disk space; `holdfast forget` and `holdfast gc --now` make some."
    if free >= LITTLE_SPACE_BYTES:
        return Check("space", OK, message)
    if free < holdfast.Limits().free_floor_bytes:
        return Check("space", FAIL, f"{message}: nothing more is written", hint)
    return Check("space", WARN, message, hint)


def _packs(vault: "holdfast.Holdfast", console: Console) -> Check:
    try:
        lost = vault.lost_packs()
    except HoldfastError as error:
        return Check("packs", FAIL, str(error), hint_of(error, console))
    if lost:
        named = f"{words.number(len(lost), 'pack')} not there, or too short: {lost[0]}"
        return Check("packs", FAIL, named, DAMAGE_HINT)
    return Check("packs", OK, "all are there (`holdfast verify` looks into them)")


def _catalog(vault: "holdfast.Holdfast", console: Console) -> Check:
    if loss := vault.find_loss():
        return Check("catalog", FAIL, str(loss), LOSS_HINT)
    try:
        faults = vault.find_index_faults()
    except HoldfastError as error:
        return Check("catalog", FAIL, str(error), hint_of(error, console))
    if faults:
        return Check("catalog", FAIL, f"rows and indexes do not agree: {faults[0]}", DAMAGE_HINT)
    return Check("catalog", OK, "opens, and its indexes agree with its rows")


def _lags(vault: "holdfast.Holdfast", console: Console) -> Iterator[Check]:
    """Says what waits to be done by itself; a warning is what has waited for long."""
    try:
        lags, now = vault.lags(), vault.now()
    except HoldfastError as error:
        yield Check("upkeep", FAIL, str(error), hint_of(error, console))
        return

    def waiting(name: str, message: str, since: datetime | None = None) -> Check:
        if since is None or now - since <= LATE:
            return Check(name, OK, message)
        hint = "Is a server running? It delivers, numbers events and looks after the vault."
        return Check(name, WARN, f"{message}, the oldest {words.ago(since, now)}", hint)

    due = words.number(lags.deliveries, "delivery", "deliveries")
    behind = words.number(lags.webhooks, "webhook")
    message = f"{due} due, {behind} with events to look at"
    yield waiting("webhooks", message, lags.deliveries_since)
    yield waiting(
        "events", f"{words.number(lags.unnumbered, 'event')} to be numbered", lags.unnumbered_since
    )
    where = words.number(lags.namespaces, "namespace")
    changes = words.number(lags.pending, "change")
    yield waiting("pending", f"{changes} in {where} since the last snapshots")
    kept, collected = (
        "never" if at is None else words.ago(at, now)
        for at in (lags.looked_after_at, lags.collected_at)
    )
    yield waiting("upkeep", f"looked after {kept}, collected {collected}")
    chains = words.number(lags.anchors, "chain")
    schedules = words.number(lags.schedules, "schedule")
    gone = words.number(lags.forgotten, "trace")
    yield waiting("journal", f"{chains} of traces to be anchored, {gone} let go by retention")
    yield waiting("schedules", f"{schedules} due")
    if lags.git_backups:
        failed = words.number(lags.git_backups, "copy", "copies")
        hint = "`holdfast git --namespace NAME` says why."
        yield Check("git", WARN, f"the last push of {failed} failed", hint)


def _attached(vault: "holdfast.Holdfast") -> Check:
    attached = vault.workspaces()
    missing = [str(each.path) for each in attached if not os.path.isdir(each.path)]
    if missing:
        named = ", ".join(missing[:3]) + (" …" if len(missing) > 3 else "")  # noqa: PLR2004 - enough to recognise them
        hint = (
            f"Deleted? `holdfast -C {shlex.quote(missing[0])} undo` brings it back. Moved? "
            "`holdfast status` in its new place says how to go on. No longer needed? "
            f"`holdfast detach {shlex.quote(missing[0])}` lets go of it."
        )
        return Check("directories", WARN, f"{len(missing)} not there: {named}", hint)
    return Check("directories", OK, f"{len(attached)} attached")


def _mirrors(console: Console) -> Iterator[Check]:
    folder = mirrors_of(console.environ)
    if os.path.isdir(folder):
        from holdfast.cli.mirrors import check_mirrors  # noqa: PLC0415 - loads a client

        yield from check_mirrors(folder, console)


def _workspace(console: Console, location: str) -> Iterator[Check]:
    try:
        workspace = console.vaults.find_workspace(location, console.cwd)
        if workspace is None:
            hint = "`holdfast init` attaches it."
            yield Check("directory", WARN, f"{console.cwd} is not attached", hint)
            return
        status = workspace.status()
    except HoldfastError as error:
        yield Check("directory", FAIL, str(error), hint_of(error, console))
        return
    yield Check("directory", OK, f"{workspace.path}, namespace {workspace.namespace.name}")
    if status.recovered:
        yield Check("restore", WARN, status.recovered, "`holdfast diff` shows what is there.")
    else:
        yield Check("restore", OK, "none was interrupted")
    line = words.coverage_line(status.coverage)
    hint = "`holdfast status` names them; a snapshot would be partial."
    yield (
        Check("coverage", WARN, line, hint)
        if status.coverage.is_partial
        else Check("coverage", OK, line)
    )
    unread = [*words.unread_lines(status.coverage)]
    if unread:
        hint = "Mend it, or take it out: what it should leave out is captured."
        yield Check("ignore file", WARN, "; ".join(unread), hint)
    else:
        yield _ignore_file(str(workspace.path))


def _ignore_file(folder: str) -> Check:
    path = os.path.join(folder, _IGNORE_FILE)
    try:
        with open(path, "rb") as file:
            lines = [line.strip() for line in file.read(1 << 20).splitlines()]
    except FileNotFoundError:
        return Check("ignore file", OK, f"no {_IGNORE_FILE}: everything is captured")
    except OSError as error:
        return Check("ignore file", FAIL, f"{_IGNORE_FILE}: {error.strerror}", "Make it readable.")
    rules = sum(1 for line in lines if line and not line.startswith(b"#"))
    return Check("ignore file", OK, f"{_IGNORE_FILE} has {words.number(rules, 'rule')}")


def _hooks(console: Console, location: str) -> Iterator[Check]:
    """Says what hooks of coding agents have noted in the last day, if anything."""
    since = (console.clock() - timedelta(days=1)).strftime(problems.STAMP)
    noted = [line for line in problems.last(location, most=problems.MANY) if line >= since]
    if noted:
        count = words.number(len(noted), "problem")
        hint = "`holdfast hook status` shows the last of them."
        yield Check("hooks", WARN, f"{count} in the last day: {noted[-1]}", hint)


def _compiled_check() -> Check:
    from holdfast.workspace.statcheck import load_library  # noqa: PLC0415 - loads ctypes

    if load_library() is not None:
        return Check("fast scan", OK, "the compiled check is there")
    hint = "Install a C compiler and reinstall: results are the same, only faster."
    return Check("fast scan", WARN, "no compiled check: scans run in Python", hint)


def _watches() -> Check:
    try:
        with open(_WATCHES, encoding="ascii") as file:
            most = int(file.read())
    except (OSError, ValueError):
        return Check("inotify", OK, "not on this system: directories are looked at instead")
    message = f"{most:,} directories can be watched"
    if most < FEW_WATCHES:
        hint = f"As root, `sysctl fs.inotify.max_user_watches={FEW_WATCHES}` allows more."
        return Check("inotify", WARN, message, hint)
    return Check("inotify", OK, message)


def _git(console: Console) -> Check:
    named = sorted(name for name in console.environ if name.startswith("GIT_"))
    more = f"; {', '.join(named[:3])} set, and ignored" if named else ""
    return Check("git", OK, f"not needed{more}")
