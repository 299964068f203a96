"""The file system that fsspec finds by `holdfast://`.

What a method of fsspec does in many steps is one here, where one does it: a folder is deleted or
moved in one transaction, many files are written in one, a listing of all that is below a directory
is one question. Creation is exclusive where that is asked for (`xb`, `mode="create"`): of two who
try, one gets `FileExistsError`. Links are data, and are never followed.
"""

# fsspec has no types of its own: what pyright guesses of it says nothing.
# pyright: reportMissingTypeStubs=false, reportIncompatibleMethodOverride=false
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

import errno
import os
from collections.abc import Mapping
from glob import has_magic
from shutil import copyfileobj
from tempfile import SpooledTemporaryFile
from typing import Any

from fsspec.callbacks import DEFAULT_CALLBACK, Callback
from fsspec.spec import AbstractFileSystem
from fsspec.utils import stringify_path

from holdfast import ABSENT
from holdfast.errors import NotADirectory
from holdfast.integrations.failures import failure, system_errors
from holdfast.integrations.fsspec.backing import Backing
from holdfast.integrations.fsspec.opened import GATHERED_BYTES, HoldfastFile, Together
from holdfast.integrations.fsspec.places import (
    MOMENT,
    SCHEME,
    described,
    joined,
    parsed,
    split,
)

Info = dict[str, Any]
"""What fsspec tells of a path."""


class _WorkingDirectory:
    """Where this process is, as an attribute of a class."""

    def __get__(self, _: object, __: object) -> str:
        return os.getcwd()


class HoldfastFileSystem(AbstractFileSystem):
    """The files of namespaces: `namespace/path`, as they are now or were at a snapshot.

    With `vault`, those of the vault there, which this process opens; else those of a server, at
    `server` with `api_key`, or where the environment says. With `at`, a snapshot's, to read. `url`
    is `server` where no function of fsspec has an argument of that name.
    """

    protocol = "holdfast"
    transaction_type = Together
    # What fsspec tells objects apart by, beside their options: elsewhere, `vault` is another one.
    working_directory = _WorkingDirectory()
    _extra_tokenize_attributes = ("working_directory",)

    def __init__(
        self,
        vault: str | os.PathLike[str] | None = None,
        *,
        server: str | None = None,
        url: str | None = None,
        api_key: str | None = None,
        at: str | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        if server is not None and url is not None:
            raise ValueError("server and url are the same option: give one of them")
        self.backing = Backing(vault, server=server or url, api_key=api_key, at=at)
        # Of the object, where the class has no moment to compare with: a URL of another moment
        # would be taken for this one.
        vars(self)["_strip_protocol"] = self._own_path

    # Names

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(each) for each in path]
        return parsed(stringify_path(path))[0]

    @staticmethod
    def _get_kwargs_from_urls(path: str) -> dict[str, str]:
        at = parsed(path)[1]
        return {} if at is None else {"at": at}

    def unstrip_protocol(self, name: str) -> str:
        """Returns the URL of a path, with the snapshot that it is of."""
        at = "" if self.backing.at is None else f"{MOMENT}{self.backing.at}"
        return f"{SCHEME}{self._strip_protocol(name)}{at}"

    def _own_path(self, path: Any) -> Any:
        if isinstance(path, list):
            return [self._own_path(each) for each in path]
        place, at = parsed(stringify_path(path))
        if at is not None and at != self.backing.at:
            message = f"{path} is of another moment than this file system: fsspec.open opens it"
            raise ValueError(message)
        return place

    # Looking

    def info(self, path: str, **_: Any) -> Info:
        """Returns what is known of a path; a namespace is a directory, also one without files."""
        place = self._strip_protocol(path)
        namespace, inner = split(place)
        if not inner:
            if namespace:
                self.backing.check_namespace(namespace, place)
            return {"name": place, "size": 0, "type": "directory"}
        with system_errors(place):
            return described(namespace, self.backing.reader(namespace, place).stat(inner))

    def exists(self, path: str, **_: Any) -> bool:
        """Says whether something is at a path; raises if no server can say."""
        try:
            self.info(path)
        except OSError as error:
            if error.errno not in {errno.ENOENT, errno.ENOTDIR, errno.EINVAL}:
                raise
            return False
        return True

    def isfile(self, path: str) -> bool:
        """Says whether a file is at a path; raises if no server can say."""
        try:
            return self.info(path)["type"] == "file"
        except OSError:
            return False

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        """Returns what lies in a directory; of a file, the file."""
        place = self._strip_protocol(path)
        if not place:
            names = [joined(name, "") for name in self.backing.namespaces()]
            listed = [{"name": name, "size": 0, "type": "directory"} for name in names]
        else:
            listed = self._listed(place, recursive=False)
        return listed if detail else [each["name"] for each in listed]

    def find(
        self,
        path: str,
        maxdepth: int | None = None,
        withdirs: bool = False,
        detail: bool = False,
        **options: Any,
    ) -> Any:
        """Returns all files below a path, with `withdirs` directories, too."""
        place = self._strip_protocol(path)
        if maxdepth is not None or not place:
            return super().find(place, maxdepth, withdirs, detail, **options)
        # A snapshot that is not there is not one without files.
        self.backing.reader(split(place)[0], place)
        try:
            listed = self._listed(place, recursive=True)
        except FileNotFoundError:
            listed = []
        entries = {each["name"]: each for each in listed if each["type"] != "directory"}
        if withdirs and (listed or self.isdir(place)) and place not in entries:
            entries |= self._folders(place, listed)
        return {name: entries[name] for name in sorted(entries)} if detail else sorted(entries)

    def checksum(self, path: str) -> int:
        """Returns a number for the bytes of a file: others have another."""
        return int(self.ukey(path), 16)

    def ukey(self, path: str) -> str:
        """Returns the tag of a file, which names its bytes."""
        place = self._strip_protocol(path)
        info = self._stat(place)
        if info.tag is None:
            raise failure(errno.EISDIR, place)
        return info.tag

    def modified(self, path: str) -> Any:
        """Returns when a file was modified, or the newest one in a directory."""
        return self._stat(self._strip_protocol(path)).modified_at

    def _stat(self, place: str) -> Any:
        namespace, inner = _within(place)
        with system_errors(place):
            return self.backing.reader(namespace, place).stat(inner)

    def _listed(self, place: str, *, recursive: bool) -> list[Info]:
        namespace, inner = split(place)
        with system_errors(place):
            reader = self.backing.reader(namespace, place)
            try:
                listed = reader.list(inner, recursive=recursive)
            except NotADirectory:
                listed = [reader.stat(inner)]
        if not inner and not listed:
            self.backing.check_namespace(namespace, place)
        return [described(namespace, each) for each in listed]

    def _folders(self, place: str, listed: list[Info]) -> dict[str, Info]:
        """Returns the directory at a path, and all those between it and what is below it."""
        folders = {each["name"]: each for each in listed if each["type"] == "directory"}
        folders[place] = self.info(place)
        for each in listed:
            above = each["name"].rpartition("/")[0]
            while above not in folders:
                folders[above] = {"name": above, "size": 0, "type": "directory", "mode": 0o755}
                above = above.rpartition("/")[0]
        return folders

    # Reading and writing

    def _open(self, path: str, mode: str = "rb", **options: Any) -> HoldfastFile:
        return HoldfastFile(self, path, mode, backing=self.backing, **options)

    def cat_file(
        self,
        path: str,
        start: int | None = None,
        end: int | None = None,
        **_: Any,
    ) -> bytes:
        """Returns a file's bytes, or those from `start` to before `end`, as of a slice."""
        place = self._strip_protocol(path)
        namespace, inner = _within(place)
        with system_errors(place):
            reader = self.backing.reader(namespace, place)
            if (start or 0) < 0 or (end or 0) < 0:
                size = reader.stat(inner).size_bytes
                start, end = slice(start, end).indices(size)[:2]
            first = start or 0
            length = None if end is None else max(0, end - first)
            return reader.read(inner, start=first, length=length)

    def touch(self, path: str, truncate: bool = True, **options: Any) -> None:
        """Makes an empty file; without `truncate`, one that is there stays, and is new."""
        with self.open(path, "wb" if truncate else "ab", **options):
            pass

    def pipe_file(
        self,
        path: str,
        value: bytes,
        mode: str = "overwrite",
        **options: Any,
    ) -> None:
        """Writes a file; with the mode `create`, only if nothing is there."""
        place, creates = self._strip_protocol(path), mode == "create"
        if self._intrans:
            with self._opened(place, creates=creates, **options) as file:
                file.write(value)
        else:
            self._write(place, value, creates=creates)

    def pipe(
        self,
        path: str | Mapping[str, bytes],
        value: bytes | None = None,
        **options: Any,
    ) -> None:
        """Writes one file, or those of a mapping: many in each transaction."""
        if not isinstance(path, Mapping) or options or self._intrans:
            super().pipe(path, value, **options)
            return
        items = dict[str, list[tuple[str, bytes]]]()
        for name, data in path.items():
            namespace, inner = split(self._strip_protocol(name))
            items.setdefault(namespace, []).append((inner, data))
        for namespace, together in items.items():
            place = joined(namespace, "")
            several = {inner: joined(namespace, inner) for inner, _ in together}
            with system_errors(place, several=several):
                self.backing.files(namespace, place).write_many(together)

    def put_file(
        self,
        lpath: str | os.PathLike[str],
        rpath: str,
        callback: Callback = DEFAULT_CALLBACK,
        mode: str = "overwrite",
        **options: Any,
    ) -> None:
        """Writes a file from a local one, or makes a directory like it."""
        place, creates = self._strip_protocol(rpath), mode == "create"
        if os.path.isdir(lpath):
            self.makedirs(place, exist_ok=not creates)
            return
        with open(lpath, "rb") as local:
            size = os.fstat(local.fileno()).st_size
            callback.set_size(size)
            if self._intrans:
                with self._opened(place, creates=creates, **options) as file:
                    copyfileobj(local, file)
            else:
                self._write(place, local, creates=creates)
            callback.absolute_update(size)

    def cp_file(self, path1: str, path2: str, **_: Any) -> None:
        """Copies a file with its mode, a link as it is, of a directory itself."""
        source, target = self._strip_protocol(path1), self._strip_protocol(path2)
        info = self.info(source)
        if info["type"] == "directory":
            self.makedirs(target, exist_ok=True)
            return
        namespace, inner = split(target)
        with system_errors(target):
            files = self.backing.files(namespace, target)
            if "destination" in info:
                files.symlink(inner, info["destination"])
                return
            with SpooledTemporaryFile[bytes](max_size=GATHERED_BYTES) as copy:
                from_namespace, from_inner = split(source)
                for piece in self.backing.reader(from_namespace, source).stream(from_inner):
                    copy.write(piece)
                copy.seek(0)
                files.write(inner, copy, mode=info["mode"])

    def _opened(self, place: str, *, creates: bool, **options: Any) -> Any:
        """Opens a file that a transaction of fsspec will write."""
        return self.open(place, "xb" if creates else "wb", **options)

    def _write(self, place: str, data: Any, *, creates: bool) -> None:
        namespace, inner = _within(place)
        with system_errors(place):
            files = self.backing.files(namespace, place)
            files.write(inner, data, expected=ABSENT if creates else None)

    # Directories, and what goes away

    def mkdir(self, path: str, create_parents: bool = True, **_: Any) -> None:
        """Makes a directory; a namespace that is there is left as it is."""
        place = self._strip_protocol(path)
        if not create_parents and not self.isdir(self._parent(place)):
            raise failure(errno.ENOENT, place)
        self.makedirs(place, exist_ok=not split(place)[1])

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        """Makes a directory, with those above it; one of them may be the namespace."""
        place = self._strip_protocol(path)
        namespace, inner = split(place)
        if self.exists(place):
            # One that is there keeps its mode.
            if not exist_ok or not self.isdir(place):
                raise failure(errno.EEXIST, place)
        elif inner:
            with system_errors(place):
                self.backing.files(namespace, place).mkdir(inner)
        else:
            self.backing.make_namespace(namespace, place)

    def rmdir(self, path: str) -> None:
        """Deletes an empty directory."""
        place = self._strip_protocol(path)
        if self.info(place)["type"] != "directory":
            raise failure(errno.ENOTDIR, place)
        self._delete(place, recursive=False)

    def rm_file(self, path: str) -> None:
        """Deletes a file, a link, or an empty directory."""
        self._delete(self._strip_protocol(path), recursive=False)

    def rm(self, path: Any, recursive: bool = False, maxdepth: int | None = None) -> None:
        """Deletes files; with `recursive`, directories with all that is in them, each at once.

        Of a namespace, all files: its timeline stays, and `undo` brings them back.
        """
        places = self._strip_protocol(path if isinstance(path, list) else [path])
        if maxdepth is not None:
            for place in reversed(self.expand_path(places, recursive=recursive, maxdepth=maxdepth)):
                self._delete(place, recursive=False)
            return
        if any(has_magic(place) for place in places):
            places = reversed(self.expand_path(places))
        for place in places:
            self._delete(place, recursive=recursive)

    def mv(
        self,
        path1: Any,
        path2: Any,
        recursive: bool = False,
        maxdepth: int | None = None,
        **options: Any,
    ) -> None:
        """Moves a file or directory: in one transaction, if it stays in its namespace."""
        if not isinstance(path1, str) or not isinstance(path2, str) or maxdepth is not None:
            super().mv(path1, path2, recursive=recursive, maxdepth=maxdepth, **options)
            return
        old, new = self._strip_protocol(path1), self._strip_protocol(path2)
        if path2.endswith("/") or self.isdir(new):
            new = f"{new}/{old.rpartition('/')[2]}"
        (namespace, source), (other, target) = split(old), split(new)
        if has_magic(old) or path1.endswith("/") or not source or namespace != other:
            super().mv(path1, path2, recursive=recursive, **options)
            return
        if not recursive and self.info(old)["type"] == "directory":
            raise failure(errno.EISDIR, old)
        if old != new:
            with system_errors(old):
                self.backing.files(namespace, old).move(source, target, overwrite=True)

    def _delete(self, place: str, *, recursive: bool) -> None:
        namespace, inner = split(place)
        with system_errors(place):
            files = self.backing.files(namespace, place)
            if inner:
                files.delete(inner, recursive=recursive)
                return
            if not recursive or not namespace:
                raise failure(errno.EISDIR, place)
            self.backing.check_namespace(namespace, place)
            for each in files.list():
                files.delete(each.path, recursive=True)


def _within(place: str) -> tuple[str, str]:
    """Returns the namespace of a file, and its path there; raises for what is no file's."""
    namespace, inner = split(place)
    if not inner:
        raise failure(errno.EISDIR, place)
    return namespace, inner
