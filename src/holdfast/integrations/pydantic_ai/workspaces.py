"""A workspace of pydantic-ai that is a namespace: its files, with an undo button.

What tools of an agent write, move and delete through `ctx.workspace` is on the timeline of the
namespace. Paths are those that commands see which run there, links are followed inside of it, and
nothing outside of it can be reached. Errors are the ones of an operating system, which tools know
how to tell a model.

The environment is the namespace. A workspace that is made without a `ref` makes the namespace, if
that is not there; one that is made with a `ref` raises `WorkspaceUnavailableError` instead.
"""

import errno
import posixpath
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import Final, TypeVar
from uuid import uuid4

from pydantic_ai.workspaces import FileEntry, WorkspaceRef, WorkspaceUnavailableError

from holdfast import FileInfo
from holdfast.errors import InvalidPath, InvalidValue, PathNotFound
from holdfast.integrations.calling import Agent, Place, aside, within
from holdfast.integrations.failures import failure, system_errors
from holdfast.integrations.pydantic_ai.links import (
    ABOVE,
    absolute,
    follow,
    normalized,
    to_inner,
)
from holdfast.sandbox.confining import WORKSPACE

PROVIDER: Final = "holdfast"

Reach = Callable[[str], Agent]
"""Returns a namespace by its name: `vault.namespace`, or `client.namespace`."""

T = TypeVar("T")


class HoldfastWorkspace:
    """The files of a namespace as a workspace; without commands.

    Made of a namespace, or of what returns one by its name: then it is a new one, or the one that
    `ref` names.
    """

    def __init__(self, agent: Place | Reach, *, ref: WorkspaceRef | None = None) -> None:
        if ref is not None and ref.provider != PROVIDER:
            message = f"{ref.provider!r} is no workspace of Holdfast"
            raise InvalidValue(message)
        self._lock, self._is_there, self._may_be_new = Lock(), False, ref is None
        self._ref = ref
        self._reach: Reach | None = agent if callable(agent) else None
        self._agent: Agent | None = None
        if callable(agent):
            return
        self._agent = within(agent)
        name = self._agent.name
        if ref is None and name is not None:
            self._ref = WorkspaceRef(provider=PROVIDER, id=name)
        elif ref is not None and name not in (ref.id, None):
            message = f"this is the namespace {name!r}, not {ref.id!r}"
            raise InvalidValue(message)

    @property
    def ref(self) -> WorkspaceRef | None:
        """What names the namespace; None until a new one is made."""
        return self._ref

    async def working_dir(self) -> str:
        """Returns where the files are, as commands see it."""
        await aside(self._enter)
        return WORKSPACE

    async def read_bytes(self, path: str) -> bytes:
        """Returns what is in a file."""
        return await aside(
            self._done, normalized(path), lambda agent, inner: agent.files.read(inner)
        )

    async def write_bytes(self, path: str, data: bytes) -> None:
        """Writes a file, with the directories above it; through a link to what it names."""
        await aside(
            self._done,
            normalized(path),
            lambda agent, inner: agent.files.write(inner, data),
            outside=errno.EACCES,
        )

    async def stat(self, path: str) -> FileEntry:
        """Returns what is known of a path; of a link, what it leads to."""
        return await aside(self._stat, normalized(path))

    async def exists(self, path: str) -> bool:
        """Says whether a path leads to a file or directory."""
        try:
            await self.stat(path)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
                raise
            return False
        return True

    async def list_dir(self, path: str) -> Sequence[FileEntry]:
        """Returns what is in a directory, in the order of the names."""
        return await aside(self._list, normalized(path))

    async def make_dir(self, path: str) -> None:
        """Makes a directory, with those above it; leaves one that is there as it is."""
        await aside(self._make_dir, normalized(path))

    async def remove(self, path: str) -> None:
        """Removes a file or a link, or a directory with all that is in it.

        Raises `ValueError` for the working directory and what it lies in.
        """
        await aside(self._remove, normalized(path))

    async def realpath(self, path: str) -> str:
        """Returns where a path leads, with all links followed inside of the workspace."""
        return await aside(self._follow, absolute(path))

    # The rest is done in threads.

    def _enter(self) -> Agent:
        """Returns the namespace; raises if it was deleted, and makes it if it is to be new."""
        if not self._is_there:
            with self._lock:
                if not self._is_there:
                    self._begin()
                    self._is_there = True
        assert self._agent is not None  # noqa: S101 - it was made, or given
        if not self._agent.status().exists:
            raise _gone(self._agent)
        return self._agent

    def _begin(self) -> None:
        if self._agent is None:
            assert self._reach is not None  # noqa: S101 - one of both was given
            name = self._ref.id if self._ref is not None else f"workspace-{uuid4().hex}"
            self._agent = within(self._reach(name))
        agent = self._agent
        standing = agent.status()
        if not standing.exists:
            if not self._may_be_new:
                raise _gone(agent)
            agent.snapshot("a new workspace")
        name = agent.name or standing.namespace or ""
        self._ref = self._ref or WorkspaceRef(provider=PROVIDER, id=name)

    def _done(
        self,
        path: str,
        step: Callable[[Agent, str], T],
        *,
        outside: int = errno.ENOENT,
        at_root: int | None = errno.EISDIR,
    ) -> T:
        """Returns what comes of doing something at a path, or where the path leads."""
        agent, is_followed = self._enter(), False
        while True:
            try:
                inner = to_inner(path)
                if inner is None:
                    raise failure(errno.EISDIR if path in ABOVE else outside, path)
                if not inner and at_root is not None:
                    raise failure(at_root, path)
                with _system_errors(path):
                    return step(agent, inner)
            except OSError:
                # Most paths have no link in them: they are looked for where something is amiss.
                real = path if is_followed else self._follow(path, agent)
                if real == path:
                    raise
                path, is_followed = real, True

    def _stat(self, path: str) -> FileEntry:
        if path in ABOVE or path == WORKSPACE:
            self._enter()
            return _entry(path, None)
        info = self._done(path, _stat)
        return _entry(path, info if info.kind != "link" else self._led_to(path))

    def _led_to(self, path: str) -> FileInfo | None:
        """Returns what a link leads to; None for a directory that is none of the namespace."""
        real = self._follow(path)
        return None if real in ABOVE or real == WORKSPACE else self._done(real, _stat)

    def _list(self, path: str) -> list[FileEntry]:
        if path in ABOVE:
            self._enter()
            name = WORKSPACE.removeprefix(path).strip("/").partition("/")[0]
            return [_entry(posixpath.join(path, name), None)]
        found = self._done(path, lambda agent, inner: agent.files.list(inner), at_root=None)
        return [self._listed(posixpath.join(path, info.name), info) for info in found]

    def _listed(self, path: str, info: FileInfo) -> FileEntry:
        if info.kind != "link":
            return _entry(path, info)
        try:
            return _entry(path, self._led_to(path))
        except OSError:
            # One that leads nowhere must not keep the rest from being listed.
            return FileEntry(name=info.name, path=path, is_dir=False, size=None)

    def _make_dir(self, path: str) -> None:
        try:
            is_dir = self._stat(path).is_dir
        except FileNotFoundError:
            self._done(path, lambda agent, inner: agent.files.mkdir(inner), outside=errno.EACCES)
            return
        if not is_dir:
            raise failure(errno.EEXIST, path)

    def _remove(self, path: str) -> None:
        # A link is removed itself; one above it is followed.
        above = self._follow(posixpath.dirname(path))
        real = posixpath.join(above, posixpath.basename(path))
        if {path, real} & {WORKSPACE, *ABOVE}:
            message = f"a workspace, or what it lies in, is not removed: {path!r}"
            raise ValueError(message)
        inner = to_inner(real)
        if inner is None:
            raise failure(errno.ENOENT, path)
        with _system_errors(path):
            self._enter().files.delete(inner, recursive=True)

    def _follow(self, path: str, agent: Agent | None = None) -> str:
        files = (agent or self._enter()).files

        def find_target(inner: str) -> str | None:
            try:
                return files.stat(inner).target
            except (PathNotFound, InvalidPath):
                return None

        return follow(path, find_target)


def _stat(agent: Agent, inner: str) -> FileInfo:
    return agent.files.stat(inner)


def _gone(agent: Agent) -> WorkspaceUnavailableError:
    return WorkspaceUnavailableError(f"the namespace {agent.name!r} of this workspace is gone")


def _entry(path: str, info: FileInfo | None) -> FileEntry:
    """Returns what pydantic-ai calls an entry; without more it is a directory."""
    is_dir = info is None or info.is_dir
    size = None if info is None or is_dir else info.size_bytes
    return FileEntry(name=posixpath.basename(path), path=path, is_dir=is_dir, size=size)


@contextmanager
def _system_errors(path: str) -> Generator[None]:
    """Raises what an operating system would; for what is no path at all, `ValueError`."""
    with system_errors(path):
        try:
            yield
        except InvalidPath as error:
            raise ValueError(str(error)) from error
