"""What `holdfast doctor` says of directories whose timelines are on servers."""

from collections.abc import Iterator

from holdfast.cli import words
from holdfast.cli.checks import OK, WARN, Check
from holdfast.cli.console import Console
from holdfast.cli.exits import hint_of
from holdfast.errors import HoldfastError
from holdfast.mirror.memo import Lagging, find_caches, find_lagging

_NAME = "mirrors"
_SHOWN = 3


def check_mirrors(folder: str, console: Console) -> Iterator[Check]:
    """Says what their servers lack of what was captured here, as it is known here."""
    mirrors, checks = list[Lagging](), list[Check]()
    for cache in find_caches(folder):
        try:
            mirrors += find_lagging(cache)
        except HoldfastError as error:
            checks.append(Check(_NAME, WARN, f"{cache}: {error}", hint_of(error, console)))
    checks += [_check(each) for each in mirrors if each.since or each.is_following]
    yield from checks
    if mirrors and not checks:
        count = words.number(len(mirrors), "directory", "directories")
        yield Check(_NAME, OK, f"{count}, with nothing that their servers lack")


def _check(mirror: Lagging) -> Check:
    where = mirror.where or "its server"
    if mirror.since is None:
        message = f"{mirror.path} has not followed {where}, which may have moved"
        return Check(_NAME, WARN, message, "The next call of its workspace lets it follow.")
    count = words.number(len(mirror.snapshots), "snapshot")
    more = ", …" if len(mirror.snapshots) > _SHOWN else ""
    named = ", ".join(mirror.snapshots[:_SHOWN]) + more
    message = f"{mirror.path}: {count} not on {where}, since {words.local(mirror.since)}: {named}"
    return Check(_NAME, WARN, message, "`snapshot()` of its workspace sends what is there now.")
