"""What every use case needs: the ports, the clock, the id maker, the limits, the caches.

Passed in, never looked up: the engine reads no environment, no home directory and no system
clock of its own. It is synchronous and safe to use from many threads.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Protocol

from holdfast import fetching
from holdfast.blobs.places import Place
from holdfast.blobs.port import BlobStore
from holdfast.catalog.port import Catalog
from holdfast.catalog.transaction import Transaction
from holdfast.engine.core.caches import ByteCache
from holdfast.engine.core.embedding import Embedder
from holdfast.engine.core.limits import Limits, check_room
from holdfast.engine.core.linediff import Unify, unify
from holdfast.engine.core.recent import Lately
from holdfast.engine.core.replying import Replying
from holdfast.errors import AddOnly
from holdfast.ids import IdMaker, NamespaceId, ObjectId, PackName, TenantId
from holdfast.model.basics import Plane, Root
from holdfast.tree import Node

Clock = Callable[[], datetime]

ROOT_CACHE_BYTES: Final = 1 << 18
"""Some hundred roots: those of heads, which every read of theirs begins with."""

SHORT_CACHE_BYTES: Final = 8 << 20
"""Some thousand short files: to find one in its block, and to prove it, takes 20 us."""

COUNT_CACHE_BYTES: Final = 2 << 20
"""Counts of some ten thousand nodes, which are about a million entries."""

TALLY_CACHE_BYTES: Final = 4 << 20
"""How much differs between some ten thousand pairs of roots."""

STATE_CACHE_BYTES: Final = 32 << 20
"""The states of sessions that are being used: read from its map, one of 1 MB takes 5 ms."""


@dataclass(frozen=True, slots=True)
class Look:
    """Which packs of a tenant were not there, or too short, at some moment."""

    at: datetime
    wanted: Mapping[str, int]
    """How long they should be."""
    lost: Mapping[str, int]
    """How long they are."""


Salvage = Callable[[Path], Iterable[tuple[str, bytes]]]
"""Yields the packs that lie in a place, with what they are called there."""


class OpenPlace(Protocol):
    """Opens a place for backups by what people call it."""

    def __call__(self, place: str, /, *, key: str | None = None) -> Place:
        """Opens it, encrypted if there is a key."""
        ...


def no_packs(_place: Path, /) -> Iterable[tuple[str, bytes]]:
    """Finds none."""
    return ()


def system_clock() -> datetime:
    """Returns the current instant, in UTC."""
    return datetime.now(tz=UTC)


@dataclass(frozen=True, slots=True)
class Context:
    """One engine's parts."""

    catalog: Catalog
    blobs: BlobStore
    clock: Clock
    ids: IdMaker
    limits: Limits
    nodes: ByteCache[tuple[TenantId, ObjectId], Node]
    blocks: ByteCache[tuple[str, int], bytes]
    roots: ByteCache[tuple[TenantId, ObjectId], Root]
    shorts: ByteCache[tuple[TenantId, ObjectId], bytes]
    """The content of short files, each of which is one object."""
    directories: ByteCache[tuple[TenantId, ObjectId], int]
    """How many of the entries below a node are directories."""
    counts: ByteCache[tuple[TenantId, ObjectId, ObjectId], Mapping[tuple[Plane, str], int]]
    """How much differs between two roots: see `timeline/counting.py`."""
    states: ByteCache[tuple[TenantId, bytes], Any]
    """The states of sessions, by their entries: `CachedState`, whose module needs this one."""
    lately: Lately
    vault: str = ""
    """Which vault this is: stands in the names of its packs."""
    state: Path | None = None
    """Where this machine keeps what it knows of attached directories."""
    folders: tuple[Path, ...] = ()
    """The vault's own directories: never captured, wherever they lie."""
    embedder: Embedder | None = None
    """What knows the meaning of texts; without it, memories are found by their words."""
    actor: str | None = None
    """Who acts, where a call does not say: behind a server, the key that the call came with."""
    adds_only: bool = False
    """Whether who acts may add to the history alone: see `timeline/additions.py`."""
    hands_texts: bool = False
    """Whether states and turns are handed out with the JSON text of each key (`msgspec.Raw`) in
    place of its value: who only sends them on need not make anything of them."""
    salvage: Salvage = no_packs
    """Finds packs in another place: a copy of a vault, or what is left of one."""
    open_place: OpenPlace | None = None
    """Opens a place for a backup, in a directory or a bucket."""
    unify: Unify = unify
    """Compares texts: here, or where nobody has to wait for it."""
    commands: Any = None
    """What runs commands: `planes/commanding.Commands`, whose module needs this one. None where
    nobody has turned that on."""
    secrets_key: str | None = field(default=None, repr=False)
    """What secrets of others are encrypted with; without it none are kept."""
    private_remotes: bool = True
    """Whether a git remote may be at an address that is not public."""
    git_certificates: Path | None = None
    """A file of certificates by which an https remote is known; None for the system's."""
    looked: dict[TenantId, Look] = field(default_factory=dict[TenantId, Look])
    """What was seen when the packs of a tenant were last looked at: see `objects/trust.py`."""
    settled: dict[NamespaceId, Any] = field(default_factory=dict[NamespaceId, Any])
    """The timelines of which nothing is to go for now: `timeline/settled.Settled`, whose module
    needs this one."""
    added: dict[NamespaceId, tuple[int, ...]] = field(
        default_factory=dict[NamespaceId, tuple[int, ...]]
    )
    """Sums of marks for which all pending rows are known to be there: `planes/missing.py`."""

    @classmethod
    def of(
        cls,
        catalog: Catalog,
        blobs: BlobStore,
        *,
        clock: Clock = system_clock,
        ids: IdMaker | None = None,
        limits: Limits | None = None,
        state: Path | None = None,
        folders: tuple[Path, ...] = (),
        embedder: Embedder | None = None,
        hands_texts: bool = False,
        salvage: Salvage = no_packs,
        open_place: OpenPlace | None = None,
        unify: Unify = unify,
        commands: Any = None,  # noqa: ANN401 - as above
        secrets_key: str | None = None,
        private_remotes: bool = True,
        git_certificates: Path | None = None,
    ) -> "Context":
        """Returns a context with empty caches of the size that the limits say."""
        limits = limits or Limits()
        return cls(
            catalog=catalog,
            blobs=blobs,
            clock=clock,
            ids=ids or IdMaker(),
            limits=limits,
            nodes=ByteCache(limits.node_cache_bytes),
            blocks=ByteCache(limits.block_cache_bytes),
            roots=ByteCache(ROOT_CACHE_BYTES),
            shorts=ByteCache(SHORT_CACHE_BYTES),
            directories=ByteCache(COUNT_CACHE_BYTES),
            counts=ByteCache(TALLY_CACHE_BYTES),
            states=ByteCache(STATE_CACHE_BYTES),
            lately=Lately(),
            state=state,
            folders=folders,
            embedder=embedder,
            hands_texts=hands_texts,
            salvage=salvage,
            open_place=open_place,
            unify=unify,
            commands=commands,
            secrets_key=secrets_key,
            private_remotes=private_remotes,
            git_certificates=git_certificates,
        )

    @property
    def own_folders(self) -> tuple[Path, ...]:
        """All directories in which the vault, or this machine for it, keeps something."""
        return self.folders if self.state is None else (*self.folders, self.state.parent)

    @property
    def keep_deleted(self) -> timedelta:
        """How long bytes outlive the rows that named them."""
        said = self.limits.keep_deleted
        return self.catalog.keep_deleted if said is None else said

    def work(self) -> AbstractContextManager[Transaction]:
        """Opens a write transaction that does what was asked for, after which little is left to do.

        Of a request under a name, its reply is kept in it.
        """
        catalog = self.catalog
        opened = catalog.work() if isinstance(catalog, Replying) else catalog.write()
        # Who has a bucket may begin anew until then, and never after.
        return _Done(opened) if self.blobs.is_remote else opened

    def if_undone(self, act: Callable[[], None]) -> None:
        """Does something should the last transaction of `work` be undone yet, with its reply."""
        if isinstance(self.catalog, Replying):
            self.catalog.if_undone(act)

    @property
    def is_committed_at_once(self) -> bool:
        """Whether `work` is committed where it ends, and not when an answer has been made."""
        return not isinstance(self.catalog, Replying)

    def begin_anew(self) -> None:
        """Commits what waits for its reply: something else is being prepared, which takes time."""
        if isinstance(self.catalog, Replying):
            self.catalog.commit()

    def check_takes_away(self, what: str) -> None:
        """Raises `AddOnly` where who acts may not do `what`: it takes away, or changes rules."""
        if self.adds_only:
            raise AddOnly(what)

    def check_room(
        self, transaction: Transaction, tenant_id: TenantId, needed_bytes: int
    ) -> int | None:
        """Raises if rows may not take so many more bytes, and returns what `check_room` does."""
        places = (self.catalog,)
        return check_room(
            transaction, tenant_id, needed_bytes=needed_bytes, limits=self.limits, places=places
        )

    def new_pack_name(self) -> PackName:
        """Returns a name for a pack that says which vault it belongs to."""
        return self.ids.pack(self.vault)

    def owns_pack(self, name: str) -> bool:
        """Says whether a pack of this name is one of this vault's."""
        return name.startswith(f"pack-{self.vault}-")

    def forget_caches(self) -> None:
        """Empties the caches: something in them may be erased everywhere else."""
        shown = (self.nodes, self.blocks, self.roots, self.shorts, self.directories, self.states)
        for cache in (*shown, self.counts):
            cache.clear()
        self.lately.clear()
        self.blobs.forget()

    def without_caches(self) -> "Context":
        """Returns the same parts with caches that keep nothing: every read goes to the store."""
        none = ByteCache[Any, Any](0)
        return replace(
            self,
            blobs=self.blobs.uncached(),
            nodes=none,
            blocks=none,
            roots=none,
            shorts=none,
            directories=none,
            counts=none,
            states=none,
            lately=Lately(0),
            added={},
        )


class _Done:
    """A write transaction after which nothing is done anew."""

    __slots__ = ("_opened",)

    def __init__(self, opened: AbstractContextManager[Transaction]) -> None:
        self._opened = opened

    def __enter__(self) -> Transaction:
        return self._opened.__enter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        suppresses = self._opened.__exit__(kind, error, trace)
        if kind is None:
            fetching.done()
        return suppresses
