"""Values of comparing and of going back: what differs, what a restore did, the history of a thing.

As in `model`: frozen, without behaviour beyond what follows from their fields. Who looks into a
vault finds the entries themselves in a change; over HTTP there are their sizes alone.
"""

from base64 import b64decode
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Annotated, Final

import msgspec

from holdfast.display import MOST_ROWS, brief, line, quoted, table
from holdfast.display import counted as in_words
from holdfast.entries import Entry
from holdfast.ids import ObjectId, SnapshotId
from holdfast.jsontext import legible
from holdfast.model.basics import Counts, Plane, SnapshotInfo
from holdfast.model.execonfig import is_executable_config
from holdfast.model.marks import FLAT, HERE, UNSAID, Inside, Named, Shape
from holdfast.model.names import Name
from holdfast.storekeys import from_store_key, to_store_key

Names = Annotated[Sequence[str], Shape(list[str], legible)]
"""Names of files, some of which may be no text."""


@dataclass(frozen=True, slots=True)
class Change:
    """One entry that differs.

    `name`: the path, `namespace/key` in the store, the id of a session or memory.
    """

    plane: Plane
    key: bytes
    name: str
    change: str
    """`added`, `removed` or `changed`."""
    old: Entry | None = field(default=None, repr=False)
    new: Entry | None = field(default=None, repr=False)
    """What was there, and is: known to whoever looks into the vault itself."""
    old_bytes: int | None = None
    """The size before, None if it was not there."""
    new_bytes: int | None = None
    """The size after, None if it is not there."""

    def __repr__(self) -> str:
        return brief(type(self).__name__, SIGNS.get(self.change, "?"), self.plane.value, self.name)

    @classmethod
    def wire_shape(cls) -> Shape:
        """Returns how it is sent: of its entries, the sizes."""
        return Shape(ChangeOnWire, ChangeOnWire.of, ChangeOnWire.read)

    @property
    def named(self) -> Name:
        """What it is called, to the letter: for `names` and `except_` of a restore."""
        if self.plane is Plane.STORE:
            return Name.value(*from_store_key(self.key))
        return (
            Name.file(self.key) if self.plane is Plane.FILES else Name(self.plane.value, self.name)
        )

    @property
    def is_executable_config(self) -> bool:
        """Whether programs run what this file says, without being asked to."""
        return self.plane is Plane.FILES and is_executable_config(self.key)


class ChangeOnWire(msgspec.Struct, kw_only=True):
    """One entry that differs between two moments."""

    plane: str
    name: str
    change: str
    """`added`, `removed` or `changed`."""
    old_bytes: int | None
    new_bytes: int | None
    is_executable_config: bool
    """Whether programs run what this file says, without being asked to."""
    namespace: str | None
    """In the store, the namespace: a name with several slashes does not say where it ends."""
    key: str | None
    """In the store, the key."""
    name_b64: str | None = None
    """The bytes of a path that is not UTF-8, in base64; what is no text in `name` is replaced."""

    @classmethod
    def of(cls, change: Change) -> "ChangeOnWire":
        """Returns a change as it is sent."""
        named = change.named
        return cls(
            plane=change.plane.value,
            name=legible(change.name),
            change=change.change,
            old_bytes=change.old_bytes,
            new_bytes=change.new_bytes,
            is_executable_config=change.is_executable_config,
            namespace=named.namespace,
            key=named.key,
            name_b64=named.name_b64,
        )

    def read(self) -> Change:
        """Returns the change that was sent."""
        plane, key = Plane(self.plane), self.name.encode("utf-8", "surrogateescape")
        if self.name_b64 is not None:
            key = b64decode(self.name_b64, validate=True)
        elif self.namespace is not None and self.key is not None:
            key = to_store_key(self.namespace, self.key)
        return Change(
            plane,
            key,
            self.name if plane is Plane.STORE else key.decode("utf-8", "surrogateescape"),
            self.change,
            old_bytes=self.old_bytes,
            new_bytes=self.new_bytes,
        )


WORDS: Final = ("added", "removed", "changed")
"""What can have happened to an entry."""

SIGNS: Final = {"added": "+", "removed": "-", "changed": "~"}
"""What stands before the name of one, for people."""
_NAMED: Final = 3
"""Names that are shown of changes at a prompt."""

Tally = Mapping[tuple[Plane, str], int]
"""How many there are of each plane and word."""


class Changes(msgspec.Struct, frozen=True):
    """Differences in the order of planes and keys; `truncated` if there are more."""

    items: Sequence[Change]
    truncated: bool = False
    unlisted: Tally | None = None
    """How many more there are, if `truncated`; None where that was not counted."""

    @classmethod
    def wire_shape(cls) -> Shape:
        """Returns how they are sent: with how many there are, listed or not."""
        return Shape(ChangesOnWire, ChangesOnWire.of, ChangesOnWire.read)

    def __iter__(self) -> Iterator[Change]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)

    def __repr__(self) -> str:
        named = [f"{SIGNS.get(each.change, '?')} {each.name}" for each in self.items[:_NAMED]]
        if len(self.items) > _NAMED or self.truncated:
            named.append("…")
        return brief(type(self).__name__, self.summary(), f"({', '.join(named)})" if named else "")

    def _repr_html_(self) -> str:
        return _as_table(self)

    def summary(self) -> str:
        """Returns how many there are in words: `1 added, 2 changed`, or `nothing`."""
        if self.truncated and self.unlisted is None:
            return f"{len(self.items):,} or more"
        numbers = ((self.count(word), word) for word in WORDS)
        return ", ".join(f"{number:,} {word}" for number, word in numbers if number) or "nothing"

    def first(self, limit: int | None) -> "Changes":
        """Returns the first so many of them; all, without a limit."""
        if limit is None or len(self.items) <= limit:
            return self
        if self.truncated and self.unlisted is None:
            return Changes(self.items[:limit], truncated=True)
        return counted(self.items[:limit], tally(self.items[limit:]) + self._more())

    def without(self, files: Mapping[bytes, str | None]) -> "Changes":
        """Returns them without those of some files: by key, `added`, `removed` or `changed`.

        None stands for a file that is not among them.
        """
        if not files:
            return self
        kept = [c for c in self.items if c.plane is not Plane.FILES or c.key not in files]
        if self.unlisted is None:
            return Changes(kept, self.truncated)
        listed = {change.key for change in self.items if change.plane is Plane.FILES}
        left_out = Counter(
            (Plane.FILES, word) for key, word in files.items() if word and key not in listed
        )
        return counted(kept, self._more() - left_out)

    def count(self, change: str | None = None, *, plane: Plane | None = None) -> int | None:
        """Returns how many there are, listed or not; None if there are more, and none counted.

        Of one word (`added`, `removed`, `changed`), of one plane, or of all.
        """
        every = self.counts()
        if every is None:
            return None
        return sum(
            number
            for (on, word), number in every.items()
            if change in (None, word) and plane in (None, on)
        )

    def counts(self) -> Counter[tuple[Plane, str]] | None:
        """Returns how many there are of each plane and word, listed or not; None as `count`."""
        if self.truncated and self.unlisted is None:
            return None
        listed = tally(self.items)
        return listed + self._more() if self.unlisted else listed

    def _more(self) -> Counter[tuple[Plane, str]]:
        return Counter(self.unlisted or {})

    def of(self, change: str, plane: Plane | None = None) -> list[str]:
        """Returns the names of what was `added`, `removed` or `changed`."""
        return [
            item.name
            for item in self.items
            if item.change == change and (plane is None or item.plane is plane)
        ]


class ChangesOnWire(msgspec.Struct, kw_only=True):
    """What differs between two moments."""

    changes: list[ChangeOnWire]
    """What changed, as far as it is listed."""
    truncated: bool
    """Whether there are more changes than are listed."""
    counts: Counts | None
    """How many entries of each plane were `added`, `removed` and `changed`, listed or not."""

    @classmethod
    def of(cls, changes: Changes) -> "ChangesOnWire":
        """Returns changes as they are sent."""
        counts = to_counts(changes.counts() or {})
        listed = [ChangeOnWire.of(each) for each in changes]
        return cls(changes=listed, truncated=changes.truncated, counts=counts)

    def read(self) -> Changes:
        """Returns the changes that were sent, but for planes that nobody here knows."""
        # A later server may have more of them than this client.
        items = [each.read() for each in self.changes if each.plane in _PLANES]
        if self.counts is None:
            return Changes(items, self.truncated)
        return counted(items, from_counts(self.counts) - tally(items))


_PLANES: Final = frozenset(Plane)
_NAMES: Final = [(plane.value, plane) for plane in Plane]


def to_counts(every: Tally) -> Counts:
    """Returns how many there are of each plane and word, by their names; 0 where there are none."""
    return {name: {word: every.get((plane, word), 0) for word in WORDS} for name, plane in _NAMES}


def from_counts(counts: Mapping[str, Mapping[str, int]]) -> Counter[tuple[Plane, str]]:
    """Returns the same by planes, but for those that nobody here knows."""
    return Counter(
        {
            (Plane(plane), word): n
            for plane, words in counts.items()
            for word, n in words.items()
            if plane in _PLANES
        }
    )


def counts_text(every: Tally) -> str:
    """Returns how many there are as a row keeps it: without planes in which nothing differs."""
    if not every:
        return "{}"
    kept = {name: words for name, words in to_counts(every).items() if any(words.values())}
    return msgspec.json.encode(kept).decode()


class ChangesPage(msgspec.Struct, frozen=True, kw_only=True):
    """A part of what leads from one moment to another."""

    namespace: Annotated[str | None, HERE] = None
    old: SnapshotId | None
    new: SnapshotId | None
    changes: list[Change]
    truncated: bool
    next_cursor: str | None
    """Where it goes on: `cursor` of the next request; None if nothing follows."""
    counts: Annotated[Counts | None, UNSAID] = None
    """How many entries of each plane were `added`, `removed` and `changed`, in all parts together:
    where that was asked for, and could be counted in a second."""


class ChangeText(msgspec.Struct, frozen=True, kw_only=True):
    """One entry that differs, and how: a unified diff."""

    change: Change
    diff: Annotated[str, Shape(str, legible)]


class Patch(msgspec.Struct, frozen=True, kw_only=True):
    """One change, with what it takes to do it again."""

    change: Change
    text: str
    """A unified diff, or a line that says why there is none; empty if the content is the same."""
    renamed_from: str | None = None
    """The path that the file had before, if it is the same file at another one."""
    before: bytes | None = None
    after: bytes | None = None
    """The content, where there is no unified diff of it: empty where there was no file. None if it
    is in `text`, or was too much."""


class TextsPage(msgspec.Struct, frozen=True, kw_only=True):
    """A part of all that leads from one moment to another, with its unified diffs."""

    namespace: Annotated[str | None, HERE] = None
    diffs: list[ChangeText]
    next_cursor: str | None
    """Where it goes on: `cursor` of the next request; None if nothing follows."""


def _as_table(changes: Changes) -> str:
    rows = (
        (SIGNS.get(each.change, "?"), each.plane.value, each.name, each.old_bytes, each.new_bytes)
        for each in changes.items[:MOST_ROWS]
    )
    titles = ("", "plane", "name", "bytes before", "bytes now")
    return table(titles, rows, more=changes.summary())


def tally(changes: Iterable[Change]) -> Counter[tuple[Plane, str]]:
    """Returns how many changes there are of each plane and word."""
    return Counter((change.plane, change.change) for change in changes)


def counted(items: Sequence[Change], more: Tally) -> Changes:
    """Returns changes of which some are listed, and the rest is counted."""
    return Changes(items, truncated=bool(more), unlisted=more or None)


_KNOWN_PLANES: Final = Shape(
    list[str], list, lambda names: [Plane(name) for name in names if name in _PLANES]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """What a restore did, or with `dry_run` would do."""

    target: Annotated[SnapshotId, Named("snapshot_id")]
    """The snapshot that was brought back."""
    snapshot: SnapshotInfo | None
    """The new snapshot on the timeline; None after a dry run."""
    safety_id: Annotated[SnapshotId | None, Named("safety_snapshot_id")]
    """The snapshot that keeps what was pending; None if nothing was."""
    root: ObjectId
    old_root: ObjectId | None = None
    """The root of all that was there when it was done, or looked at, pending included."""
    changes: Annotated[Changes, FLAT]
    files: int | None = None
    """How many files, links and empty directories were brought back; None if not all were."""
    verified: bool
    """Whether the result was read back, from the vault and from an attached directory, and is
    what was asked for. What that was worth when it was captured, the next two say."""
    uncaptured: Names = ()
    """Paths that the snapshot should hold and could not capture: it is partial. They are left as
    they are."""
    is_partial: Annotated[bool, Named("partial")] = False
    """Whether there are such paths; what was imported may be without having their names."""
    in_motion: Names = ()
    """Files that somebody could write to when they were captured, or when they were read back:
    each may be a mixture of two versions."""
    dry_run: bool = False
    left_alone: Annotated[Sequence[Plane], _KNOWN_PLANES] = ()
    """Planes that were asked for and are as they were: the snapshot is older than they are, and
    does not know what they held."""
    kept: Names = ()
    """Directories that had to stay, as something lies in them that is not captured."""
    uncovered: Names = ()
    """Files and directories that were left alone and are in no snapshot: the rules had excluded
    them, and those that are back do not."""
    differing: Annotated[Sequence[str], Inside(outside=())] = ()
    """Some of what was read back in the directory and is not what was asked for: it is not
    verified then."""
    was_missing: Annotated[bool, Inside(outside=False)] = False
    """Whether the attached directory itself was gone, and made anew."""
    recovered: Annotated[str | None, Inside()] = None
    """What was put right before, if an earlier restore of the directory had been interrupted."""
    left: Names = ()
    """What stays as others made it after the task that was taken back, or since nobody can tell
    whose it is, each with its plane."""
    by_snapshots: bool = False
    """Whether all that lies between a task's two snapshots, and that no other task noted, counted
    as the task's own."""

    def __repr__(self) -> str:
        said = [self.changes.summary(), "verified" if self.verified else "NOT VERIFIED"]
        if self.dry_run:
            said = [f"would be {said[0]}"]
        if self.is_partial:
            said.append("PARTIAL")
        if self.in_motion:
            said.append(f"{len(self.in_motion):,} in motion")
        kept = None if self.safety_id is None else f"kept as {self.safety_id}"
        return brief(type(self).__name__, f"{self.target}:", ", ".join(said), kept)

    def _repr_html_(self) -> str:
        return _as_table(self.changes)

    @property
    def changed(self) -> dict[str, int]:
        """How many entries of each plane changed, listed or not."""
        changed = {name: 0 for name, _ in _NAMES}
        for (plane, _), number in (self.changes.counts() or {}).items():
            changed[plane.value] += number
        return changed

    ON_WIRE = MappingProxyType({"changed": "changed"})


class MergeResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a merge did: its snapshot on our timeline, and what changed for us."""

    snapshot: SnapshotInfo
    changes: Annotated[Changes, FLAT]


class Merged(MergeResult, frozen=True, kw_only=True):
    """What a merge did to a directory."""

    safety_id: SnapshotId | None
    """The snapshot that keeps what was in the directory; None if all of it was in one."""
    verified: bool
    """Whether what was written was read back, and is what was asked for."""


class Forked(msgspec.Struct, frozen=True, kw_only=True):
    """A namespace that was forked."""

    namespace: str
    forked_from: str
    snapshot: SnapshotInfo | None


class Committed(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot that was made of a directory of another machine."""

    snapshot: SnapshotInfo
    replaced: SnapshotId | None
    """The snapshot that shows what was there before; None if there was nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Something that happened to one thing."""

    change: str
    """`added`, `removed` or `changed`."""
    snapshot: SnapshotInfo | None
    """The first that shows it, with when, by whom and why; None for what is in none yet."""
    previous: SnapshotId | None
    """The snapshot before that one, which still shows it as it was; None if there is none."""
    gone: int = 0
    """How many snapshots between the two are no longer there: it may be older than `snapshot`."""
    old_bytes: int | None = None
    """The size before; None if it was not there, or was a directory."""
    new_bytes: int | None = None
    """The size after; None if it is not there, or is a directory."""
    entries: int = 1
    """How many entries changed: 1, but in a directory. 1,000 stands for that many or more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """What happened to one thing, newest first."""

    name: Name
    steps: Sequence[Step]
    searched_to: int | None
    """The number of the oldest snapshot that was looked at; None if there was none."""
    before: Annotated[int | None, Named("next_before")]
    """Where it goes on, for `before`; None if nothing older is there to be looked at."""
    namespace: Annotated[str | None, HERE] = field(default=None, compare=False)

    def __repr__(self) -> str:
        what = self.name.name or self.name.name_b64 or f"{self.name.namespace}/{self.name.key}"
        return line("History", in_words(len(self.steps), "step"), f"of {quoted(what)}")

    def __iter__(self) -> Iterator[Step]:
        return iter(self.steps)

    def __len__(self) -> int:
        return len(self.steps)
