"""Vaults to die in: put back to how they were as often as a test likes, on either database.

    for fuse in fuses(counts=place.counts):
        place.reset()
        with fuse, opened(place, fuse=fuse, seed=3) as context:
            Holdfast(context).namespace("alice").snapshot()
        with opened(place, seed=4) as context:
            ...                                         # the old, or the new

A place has room for directories beside its vault, which are saved and put back with it.

Power cuts at every system call by which a directory is changed, or what is noted of it.

Inside `fused_files` each of these is a step of a `Fuse`, beside those of the ports.
"""

import os
import shutil
import sqlite3
import sys
import tarfile
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from random import Random
from tempfile import NamedTemporaryFile
from typing import Any, Final, LiteralString, Protocol, cast

import psycopg

from holdfast.blobs.disk import DiskBlobStore
from holdfast.catalog.port import Catalog
from holdfast.catalog.postgres import PostgresCatalog
from holdfast.catalog.sqlite import SqliteCatalog
from holdfast.engine.core.context import Context
from holdfast.engine.core.limits import Limits
from holdfast.engine.vault import Holdfast
from holdfast.engine.workspace import Workspace
from holdfast.ids import IdMaker
from holdfast.testing.faults import (
    Counts,
    Fuse,
    FusedBlobStore,
    FusedCatalog,
    PowerCut,
    every_step,
    leaves_traces,
)

NOW: Final = datetime(2030, 1, 1, tzinfo=UTC)
"""The time in a place, unless a test says otherwise."""

LIMITS: Final = Limits(inline_bytes=4096, free_floor_bytes=0)
"""A few KB make a pack, and no disk is too full."""

Admin = psycopg.Connection[tuple[Any, ...]]


class Place(Protocol):
    """A vault, and what lies beside it, that can be put back to how they were."""

    folder: Path
    """All of it."""
    counts: Counts
    """Where to die: a step takes longer on one database than on the other."""

    @property
    def vault(self) -> Path:
        """The vault's own directory, in `folder`."""
        ...

    def open_catalog(self, ids: IdMaker) -> Catalog:
        """Opens the catalog as a process of its own does."""
        ...

    def bury(self, catalog: Catalog) -> None:
        """Ends what a dead process holds; what it left lies there still."""
        ...

    def save(self) -> None:
        """Remembers how everything is."""
        ...

    def reset(self) -> None:
        """Puts everything back to how it was when it was saved."""
        ...

    def rows(self) -> Iterator[str]:
        """Yields all rows of all tables, as text."""
        ...


class _Folders:
    """The part of a place that is in files."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._saved = folder / "now", folder / "saved"
        self.vault.mkdir(parents=True)

    @property
    def vault(self) -> Path:
        return self.folder / "vault"

    def save(self) -> None:
        copy(self.folder, self._saved)

    def reset(self) -> None:
        copy(self._saved, self.folder)


class SqlitePlace(_Folders):
    """A place whose catalog is a file, like everything else."""

    counts = staticmethod(every_step)

    def open_catalog(self, ids: IdMaker) -> SqliteCatalog:
        """Opens the catalog as a process of its own does."""
        return SqliteCatalog(self.vault, ids=ids)

    def bury(self, catalog: Catalog) -> None:
        """Does what the kernel does for the dead: locks end, their files stay."""
        locks = self.vault / "locks"
        names = os.listdir(locks)  # noqa: PTH208 - the catalog unlinks them as it closes
        catalog.close()
        for name in names:
            (locks / name).touch()

    def rows(self) -> Iterator[str]:
        """Yields all rows of all tables, as text; those that are made of others left out."""
        with closing(sqlite3.connect(self.vault / "catalog.sqlite")) as connection:
            found = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
            for (table,) in sorted(found):
                if "_fts" not in table:
                    rows = connection.execute(f"SELECT * FROM {table}")  # noqa: S608 - our own name
                    yield from sorted(map(str, rows))


class PostgresPlace(_Folders):
    """A place whose catalog is a database: one for many places, each of which empties it first."""

    counts = staticmethod(leaves_traces)

    def __init__(self, folder: Path, url: str, admin: Admin) -> None:
        super().__init__(folder)
        self._url, self._admin = url, admin
        self._tables = list[str]()
        self._putting_back = ""
        clear(admin)

    def open_catalog(self, ids: IdMaker) -> PostgresCatalog:
        """Opens the catalog as a process of its own does."""
        return PostgresCatalog(self._url, ids=ids)

    def bury(self, catalog: Catalog) -> None:
        """Waits until the server has done its part: connections end, and with them locks."""
        catalog.close()
        others = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND pid <> "
        while self._admin.execute(others + "pg_backend_pid()").fetchone():
            time.sleep(0.001)

    def save(self) -> None:
        """Remembers how everything is: rows as tables beside the catalog's own."""
        super().save()
        self._tables = self._names("SELECT tablename FROM pg_tables WHERE schemaname = 'holdfast'")
        # Table by table, with no eye to which needs which.
        back = ["SET LOCAL session_replication_role = replica"]
        self._run("DROP SCHEMA IF EXISTS saved CASCADE", "CREATE SCHEMA saved")
        for table in self._tables:
            back.append(f"DELETE FROM {table}")  # noqa: S608 - our own name
            if self._names(f"SELECT 1 FROM {table} LIMIT 1"):  # noqa: S608 - our own name
                self._run(f"CREATE TABLE saved.{table} AS TABLE {table}")
                back.append(f"INSERT INTO {table} OVERRIDING SYSTEM VALUE TABLE saved.{table}")
        # Ids go on from where they were: equal states shall be equal.
        found = "SELECT sequencename FROM pg_sequences WHERE schemaname = 'holdfast'"
        for sequence in self._names(found):
            query = f"SELECT last_value, is_called FROM {sequence}"  # noqa: S608 - our own name
            state = self._admin.execute(_sql(query))
            back += (f"SELECT setval('{sequence}', {at}, {called})" for at, called in state)
        self._putting_back = "; ".join(back)

    def reset(self) -> None:
        """Puts everything back: ten times quicker than a new copy of the database."""
        super().reset()
        self._run(self._putting_back)

    def rows(self) -> Iterator[str]:
        """Yields all rows of all tables, as text."""
        queries = (f"SELECT * FROM {table}" for table in self._tables)  # noqa: S608 - our own name
        # As one: there are many tables, and nothing in most of them.
        rows = self._admin.execute(_sql("; ".join(queries)))
        yield from sorted(map(str, rows))
        while rows.nextset():
            yield from sorted(map(str, rows))

    def _names(self, query: str) -> list[str]:
        return sorted(row[0] for row in self._admin.execute(_sql(query)))

    def _run(self, *statements: str) -> None:
        # Without parameters they are sent as one: one transaction, and one way there and back.
        self._admin.execute(_sql("; ".join(statements)))


def _sql(text: str) -> LiteralString:
    # Made of the names of our own tables; LiteralString cannot say so.
    return cast("LiteralString", text)


def clear(admin: Admin) -> None:
    """Leaves nothing of a catalog in a database, nor of what was saved of it."""
    admin.execute("DROP SCHEMA IF EXISTS holdfast CASCADE; DROP SCHEMA IF EXISTS saved CASCADE")


def copy(source: Path, target: Path) -> None:
    """Makes one directory what another is, with times, links and files of several names."""
    names: dict[int, str] = {}

    def copy_file(one: str, other: str) -> None:
        state = os.stat(one)  # noqa: PTH116 - `copytree` names files by text
        first = names.setdefault(state.st_ino, other) if state.st_nlink > 1 else other
        if first == other:
            shutil.copy2(one, other)
        else:
            os.link(first, other)

    shutil.rmtree(target, ignore_errors=True)
    # Not `cp -a`: to start it takes longer than to copy what a place has.
    shutil.copytree(source, target, symlinks=True, copy_function=copy_file)


@contextmanager
def opened(
    place: Place,
    *,
    fuse: Fuse | None = None,
    seed: int = 0,
    now: datetime = NOW,
    fused: type[FusedCatalog] = FusedCatalog,
) -> Generator[Context]:
    """Opens a vault as a process of its own; one that dies does not close it."""
    ids = IdMaker(Random(seed).randbytes)  # noqa: S311 - the same again in every run
    catalog = place.open_catalog(ids)
    packs = place.vault / "packs"
    blobs = DiskBlobStore(packs)

    def half_a_file(name: str, data: bytes) -> None:
        shard = packs / name[-2:]
        shard.mkdir(exist_ok=True)
        (shard / f"{name}.0123456789abcdef.tmp").write_bytes(data[: len(data) // 2])

    try:
        yield Context.of(
            catalog if fuse is None else fused(catalog, fuse),
            blobs if fuse is None else FusedBlobStore(blobs, fuse, tear=half_a_file),
            clock=lambda: now,
            ids=ids,
            limits=LIMITS,
            state=place.vault / "workspaces",
            folders=(place.vault,),
        )
    finally:
        if is_dead(fuse):
            place.bury(catalog)
        else:
            catalog.close()


@dataclass(frozen=True)
class Attached:
    """A vault and its directory in the hands of one process."""

    context: Context
    vault: Holdfast
    work: Workspace
    tree: Path


@contextmanager
def attached(
    place: Place,
    *,
    fuse: Fuse | None = None,
    seed: int = 0,
    fused: type[FusedCatalog] = FusedCatalog,
) -> Generator[Attached]:
    """Opens a vault with a directory, whose every change is a step; who dies lets go of both."""
    (place.folder / "tree").mkdir(exist_ok=True)
    with opened(place, fuse=fuse, seed=seed, fused=fused) as context:
        vault = Holdfast(context)
        work = vault.workspace(place.folder / "tree")
        try:
            with fused_files(fuse or Fuse(1 << 30)):
                yield Attached(context, vault, work, work.path)
        finally:
            if is_dead(fuse):
                work._directory.let_go()  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - the kernel's part
            else:
                work.close()


def is_dead(fuse: Fuse | None) -> bool:
    """Says whether a process has died of its fuse; those that let somebody else in only blow."""
    return type(fuse) is Fuse and fuse.blown


def fingerprint(place: Place) -> str:
    """Names what is on disk: equal states have equal names."""
    state = sha256()
    for row in place.rows():
        state.update(row.encode())
    packs = place.vault / "packs"
    for path in sorted(packs.rglob("*")):
        if path.is_file():
            state.update(f"{path.relative_to(packs)}".encode() + path.read_bytes())
    return state.hexdigest()


CHANGING: Final = frozenset(
    {"fchmod", "fdatasync", "fsync", "ftruncate", "link", "mkdir", "pwrite", "rename", "rmdir"}
    | {"symlink", "unlink", "utime", "write"}
)
"""Calls after which something on disk is another; so is `open` that makes or empties a file."""


class FusedOs:
    """The module `os`, in which every call that changes something on disk is a step.

    A call that writes bytes has a second one in its middle: half of them are there. Closing is
    no step: for the dead the kernel does it.
    """

    def __init__(self, fuse: Fuse) -> None:
        self._fuse = fuse

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - a module has things of all types
        real = getattr(os, name)
        if name not in CHANGING:
            return real

        def call(*args: Any, **options: Any) -> Any:  # noqa: ANN401 - the signatures of them all
            self._fuse.step(f"os.{name}")
            if name in ("pwrite", "write"):
                self._tear(real, *args)
            return real(*args, **options)

        return call

    def open(self, path: Any, flags: int, *args: Any, **options: Any) -> int:  # noqa: ANN401 - as os
        """Opens a file; a step if that makes it new or empties it. A lock's file does neither."""
        if flags & (os.O_EXCL | os.O_TRUNC):
            self._fuse.step("os.open")
        return os.open(path, flags, *args, **options)

    def _tear(self, real: Callable[..., object], fd: int, data: bytes, *at: int) -> None:
        try:
            self._fuse.step(f"os.{real.__name__} torn")
        except (PowerCut, OSError):
            real(fd, data[: len(data) // 2], *at)
            raise


@contextmanager
def fused_files(fuse: Fuse) -> Generator[None]:
    """Makes each system call by which the engine changes a directory, or its notes, a step."""
    names = ("holdfast.engine.", "holdfast.workspace.", "pathlib")
    modules = [module for name, module in sys.modules.items() if name.startswith(names)]
    found = [module for module in modules if getattr(module, "os", None) is os]
    try:
        for module in found:
            vars(module)["os"] = FusedOs(fuse)
        yield
    finally:
        for module in found:
            vars(module)["os"] = os


def touches_files(name: str, /) -> bool:
    """Counts the system calls of `fused_files`, and the moments around a commit."""
    return name.startswith(("os.", "commit"))


@contextmanager
def tar_file() -> Generator[str]:
    """Writes what another program might: a file, one that becomes a pack, and its second name."""
    # What does not compress.
    noise = b"".join(sha256(b"%d" % number).digest() for number in range(220))
    with NamedTemporaryFile() as file:
        with tarfile.open(fileobj=file, mode="w") as tar:
            for name, data in {"notes.md": b"brought", "new.bin": noise}.items():
                member = tarfile.TarInfo(name)
                member.size = len(data)
                tar.addfile(member, BytesIO(data))
            twin = tarfile.TarInfo("twin.bin")
            twin.type, twin.linkname = tarfile.LNKTYPE, "new.bin"
            tar.addfile(twin)
        file.flush()
        yield file.name
