"""Looks at all of an archive before any of it is used.

Every header is read, every name checked, and the tree that the names make; of the content, the
manifest, the values of the store, and sessions with their turns. What is found is a list of what
to bring in and from where. Nothing has been written when an archive is refused here: only after
it, content is read a second time to be stored.

A plain tar file, of other programs, has files alone. As tar itself has it, the last of two members
of one name counts, and a hard link is what its target was when it came.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final, TypeVar

import msgspec

from holdfast.engine.archives.archivefile import FileName, Source
from holdfast.engine.archives.manifest import (
    MANIFEST_NAME,
    MAX_MANIFEST_BYTES,
    WITHOUT_MEMORIES,
    Manifest,
    decode_manifest,
)
from holdfast.engine.archives.memoryfile import SurveyedMemories
from holdfast.engine.archives.plaintar import HardLink, iter_plain
from holdfast.engine.archives.sessionfile import (
    SESSION_NAME,
    TURNS_NAME,
    read_session,
    read_turns,
)
from holdfast.engine.archives.tarread import Member, MemberKind, iter_members
from holdfast.engine.core.limits import Limits
from holdfast.engine.core.paths import to_key
from holdfast.engine.core.wellformed import check_msgpack
from holdfast.engine.files.editing import MAX_MODE
from holdfast.errors import Invalid, TooLarge, UnsafeArchive
from holdfast.model.basics import Size
from holdfast.model.files import MAX_PATH_BYTES, USUAL_DIRECTORY_MODE
from holdfast.progress import Progress, no_progress
from holdfast.storekeys import MAX_KEY_BYTES, to_store_key

FILES_PREFIX: Final = b"files/"
VALUE_NAME: Final = b"store/%d.msgpack"
"""Values are numbered: their keys may hold what no file name can."""

BEGINNING_BYTES: Final = 2 * MAX_MANIFEST_BYTES
"""More than what comes before the end of a manifest."""

_VALUE_OVERHEAD_BYTES: Final = MAX_KEY_BYTES + 64
_TOLD_EVERY: Final = 1000
"""Members between two words about the progress."""

_OF_FILES: Final = (
    "`export` writes archives that begin with one; `import --files`, `import_files` in Python, "
    "takes a plain tar file."
)
_HINT: Final = "Nothing of it was used: make one that has files, directories and links alone."

M = TypeVar("M", Member, Member | HardLink)


class StoredValue(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What a member of the store holds: `[namespace, key, value]`, the value as its msgpack."""

    namespace: str
    key: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Surveyed:
    """What an archive holds: members in their order, the files' under their keys."""

    manifest: Manifest
    files: Sequence[Member]
    values: Sequence[Member]
    sessions: Sequence["SurveyedSession"]
    memories: Sequence[Member]


@dataclass(frozen=True, slots=True)
class SurveyedSession:
    """The member of a session, and that of its conversation, if it has one."""

    member: Member
    turns: Member | None


def announced(path: FileName) -> Manifest:
    """Returns what an archive says of itself, of which `BEGINNING_BYTES` have to be there.

    Raises as `survey`. What it says is proven by the rest of it alone.
    """
    with Source(path) as source:
        return _read_manifest(source, next(iter_members(source), None))


def survey(source: Source, limits: Limits, progress: Progress) -> Surveyed:
    """Returns what there is to import.

    Raises `UnsafeArchive` for what is not an archive of ours or could do harm, `VaultTooNew`
    for one of a later format and `TooLarge` for one beyond the limits.
    """
    _check_size(source.size, limits)
    # To its end, before anything of it is looked into: what follows there is cheap to find.
    members = iter([*_counted(iter_members(source), source, limits, progress)])
    manifest = _read_manifest(source, next(members, None))
    files: list[Member] = []
    values, sessions = _Values(source, limits), _Sessions(source, limits)
    memories = SurveyedMemories(source, limits)
    for member in members:
        if member.name.startswith(FILES_PREFIX):
            files.append(_checked_file(member, member.name[len(FILES_PREFIX) :], limits))
        elif member.kind is not MemberKind.FILE or not (
            values.take(member) or sessions.take(member) or memories.take(member)
        ):
            raise UnsafeArchive("it does not belong into an archive", member=member.name)
    sessions.finish()
    _check_tree(files)
    size = size_of_files(files)
    if memories.found and manifest.format == WITHOUT_MEMORIES:
        raise UnsafeArchive("archives of its format hold no memories")
    if size + values.size + sessions.size + memories.size != manifest.size:
        raise UnsafeArchive("its content is not as much as its manifest says")
    return Surveyed(manifest, files, values.found, sessions.found, memories.found)


class _Values:
    """The values of the store, as they are met."""

    def __init__(self, source: Source, limits: Limits) -> None:
        self._source, self._limits = source, limits
        self._keys: set[bytes] = set()
        self.found: list[Member] = []
        self.size = Size()

    def take(self, member: Member) -> bool:
        """Takes the next value in; False for what is none."""
        if member.name != VALUE_NAME % len(self.found):
            return False
        key, data = read_value(self._source, member, self._limits)
        check_msgpack(data, most=self._limits.decoded_values)
        if key in self._keys:
            raise UnsafeArchive("it holds the same key of the store twice", member=member.name)
        self._keys.add(key)
        self.found.append(member)
        self.size += Size(1, len(data))
        return True


class _Sessions:
    """Sessions, as they are met: each is followed by its conversation, if it has one."""

    def __init__(self, source: Source, limits: Limits) -> None:
        self._source, self._limits = source, limits
        self._ids: set[str] = set()
        self._awaited = 0
        self.found: list[SurveyedSession] = []
        self.size = Size()

    def take(self, member: Member) -> bool:
        """Takes the next session or conversation in; False for what is neither."""
        if self._awaited:
            return self._take_turns(member)
        if member.name != SESSION_NAME % len(self.found):
            return False
        told = read_session(self._source, member, self._limits)
        if told.id in self._ids:
            raise UnsafeArchive("it holds the same session twice", member=member.name)
        self._ids.add(told.id)
        self._awaited = told.turns
        self.found.append(SurveyedSession(member, None))
        self.size += Size(1, len(bytes(told.state)))
        return True

    def finish(self) -> None:
        """Raises if a conversation is missing."""
        if self._awaited:
            raise UnsafeArchive("a session's conversation is missing")

    def _take_turns(self, member: Member) -> bool:
        last = self.found[-1]
        if member.name != TURNS_NAME % (len(self.found) - 1):
            return False
        if sum(1 for _ in read_turns(self._source, member, self._limits)) != self._awaited:
            raise UnsafeArchive(
                "it has another number of turns than its session", member=member.name
            )
        self.found[-1], self._awaited = replace(last, turns=member), 0
        return True


def read_value(source: Source, member: Member, limits: Limits) -> tuple[bytes, bytes]:
    """Returns the map key and the value that a member of the store holds."""
    if member.size > limits.value_bytes + _VALUE_OVERHEAD_BYTES:
        raise TooLarge(f"a value may have {limits.value_bytes} bytes; one in the archive has more")
    try:
        held = msgspec.msgpack.decode(source.read(member.at, member.size), type=StoredValue)
        key = to_store_key(held.namespace, held.key)
    except (ValueError, Invalid) as exc:
        reason = f"it holds no value of the store: {exc}"
        raise UnsafeArchive(reason, member=member.name) from exc
    if len(held.data) > limits.value_bytes:
        raise TooLarge(f"a value may have {limits.value_bytes} bytes; one in the archive has more")
    return key, held.data


def survey_files(source: Source, limits: Limits, progress: Progress) -> Sequence[Member]:
    """Returns the files, links and directories of a plain tar file, under their keys, in order.

    Directories are those that need an entry. Raises as `survey`.
    """
    _check_size(source.size, limits)
    try:
        found = _last_of_each(_counted(iter_plain(source), source, limits, progress), limits)
        in_order = _check_tree([*found.values()])
    except UnsafeArchive as exc:
        if exc.hint == UnsafeArchive.hint:
            exc.hint = _HINT
        raise
    # A file with many names has its size as often: what a later export has to write.
    _check_size(size_of_files(in_order).bytes, limits)
    return [*_needed(in_order)]


def announced_files(path: FileName) -> Size:
    """Returns how much a plain tar file says to hold, as far as its headers have come.

    Raises as `survey`, which knows what the vault accepts.
    """
    limits = Limits()
    with Source(path) as source:
        members = _counted(iter_plain(source, is_whole=False), source, limits, no_progress)
        return size_of_files(_last_of_each(members, limits).values())


def size_of_files(files: Iterable[Member]) -> Size:
    """Returns how much of a namespace these members make."""
    sizes = [member.size + len(member.target) for member in files]
    return Size(len(sizes), sum(sizes))


def _last_of_each(members: Iterable[Member | HardLink], limits: Limits) -> dict[bytes, Member]:
    """Returns what each name stands for once all members have come."""
    found: dict[bytes, Member] = {}
    for member in members:
        if isinstance(member, HardLink):
            target = found.get(member.target)
            if target is None or target.kind is MemberKind.DIRECTORY:
                reason = "it holds a hard link to what is no file in it"
                raise UnsafeArchive(reason, member=member.name)
            checked = _checked_file(target, member.name, limits)
        elif member.kind is MemberKind.DIRECTORY and member.name in (b"", b"."):
            continue  # The folder that all of it lies in.
        else:
            checked = _checked_file(member, member.name, limits)
        found[checked.name] = checked
    return found


def _needed(in_order: Sequence[Member]) -> Iterator[Member]:
    """Yields members but for directories of the usual mode in which there is something."""
    for number, member in enumerate(in_order):
        is_usual = member.kind is MemberKind.DIRECTORY and member.mode == USUAL_DIRECTORY_MODE
        behind = in_order[number + 1].name if number + 1 < len(in_order) else b""
        if not (is_usual and behind.startswith(member.name + b"/")):
            yield member


def _check_size(size: int, limits: Limits) -> None:
    if size > limits.archive_bytes:
        message = f"an archive may have {limits.archive_bytes} bytes, this one has {size}"
        raise TooLarge(message)


def _counted(
    members: Iterable[M], source: Source, limits: Limits, progress: Progress
) -> Iterator[M]:
    for number, member in enumerate(members):
        if number > limits.archive_members:
            message = f"an archive may have {limits.archive_members} members; this one has more"
            raise TooLarge(message)
        if number % _TOLD_EVERY == 0:
            progress("check", member.at, source.size)
        yield member


def _read_manifest(source: Source, member: Member | None) -> Manifest:
    if member is None or member.name != MANIFEST_NAME or member.kind is not MemberKind.FILE:
        reason = "it does not begin with a manifest"
        raise UnsafeArchive(reason, member=member and member.name).with_hint(_OF_FILES)
    if member.size > MAX_MANIFEST_BYTES:
        raise UnsafeArchive("its manifest is too large")
    return decode_manifest(source.read(member.at, member.size))


def _checked_file(member: Member, name: bytes, limits: Limits) -> Member:
    """Returns a member of the files plane under its key."""
    try:
        key = to_key(name)
        if member.twin:
            to_key(member.twin)
    except Invalid as exc:
        raise UnsafeArchive(f"its name is not usable: {exc}", member=member.name) from exc
    if member.mode > MAX_MODE:
        reason = f"mode {member.mode:#o} has a set-user-id, set-group-id or unknown bit"
        raise UnsafeArchive(reason, member=member.name)
    if member.size > limits.file_bytes:
        message = f"a file may have {limits.file_bytes} bytes; one in the archive has {member.size}"
        raise TooLarge(message)
    if member.kind is MemberKind.LINK:
        # Where a link leads is the user's own data: it is kept, and never followed.
        target = member.target
        if not target or b"\0" in target or len(target) > MAX_PATH_BYTES:
            reason = "its target is empty, too long, or holds a NUL byte"
            raise UnsafeArchive(reason, member=member.name)
    return replace(member, name=key)


def _check_tree(files: Sequence[Member]) -> Sequence[Member]:
    """Returns members by their names, what lies in a directory right behind it.

    Raises if two members have one name, or if something lies below a file or link.
    """
    # With the lowest byte of all for a slash, what lies below a name comes right behind it.
    # A look at the directories above each name would take a hostile archive hours: a path can
    # have two thousand of them.
    in_order = sorted(files, key=lambda member: member.name.replace(b"/", b"\0"))
    for member, after in pairwise(in_order):
        if member.name == after.name:
            raise UnsafeArchive("two members have the same name", member=member.name)
        is_above = after.name.startswith(member.name + b"/")
        if is_above and member.kind is not MemberKind.DIRECTORY:
            raise UnsafeArchive("something lies below a file or link", member=after.name)
    return in_order
