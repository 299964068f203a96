"""Where the files are: in a vault that this process opens, or on a server."""

import errno
import os
from threading import Lock
from typing import Any, Final
from weakref import WeakValueDictionary, finalize

import holdfast
from holdfast import Client, Holdfast, Namespace
from holdfast.errors import InvalidName, InvalidValue
from holdfast.integrations.failures import failure, system_errors


class _Opened:
    """A vault or a client, closed when nobody has it any more, or the process ends."""

    def __init__(self, within: Holdfast | Client) -> None:
        self.within = within
        finalize(self, _close, within, os.getpid())


def _close(within: Holdfast | Client, pid: int) -> None:
    # What a process has inherited is its parent's to close.
    if os.getpid() == pid:
        within.close()


_vaults: Final = WeakValueDictionary[tuple[int, str], _Opened]()
_opening: Final = Lock()


def _open_vault(location: str) -> _Opened:
    """Returns the vault that is open already, or opens it: fsspec makes an object per thread."""
    # A process that was forked opens its own.
    name = (os.getpid(), location if "://" in location else os.path.realpath(location))
    with _opening:
        opened = _vaults.get(name)
        if opened is None:
            opened = _vaults[name] = _Opened(holdfast.open(location))
        return opened


class Backing:
    """The files of every namespace, as they are now or as a snapshot shows them."""

    def __init__(
        self,
        vault: str | os.PathLike[str] | None,
        *,
        server: str | None,
        api_key: str | None,
        at: str | None,
    ) -> None:
        if vault is not None and (server is not None or api_key is not None):
            message = "files are in a vault or on a server: give vault, or server and api_key"
            raise ValueError(message)
        self.at = at
        self._readers = dict[str, Any]()
        self._opened = (
            _Opened(Client(api_key, url=server)) if vault is None else _open_vault(os.fspath(vault))
        )

    def namespaces(self) -> list[str]:
        """Returns the names of all namespaces; a server tells them to its operators alone."""
        within = self._opened.within
        if isinstance(within, Client):
            raise failure(errno.EACCES, "")
        with system_errors(""):
            return within.namespaces()

    def check_namespace(self, namespace: str, place: str) -> None:
        """Raises if there is no such namespace, or not at that moment."""
        if self.at is not None:
            self.reader(namespace, place)
            return
        with system_errors(place):
            is_there = self._agent(namespace).status().exists
        if not is_there:
            raise failure(errno.ENOENT, place)

    def make_namespace(self, namespace: str, place: str) -> None:
        """Makes a namespace that has no files yet."""
        self.files(namespace, place)
        with system_errors(place):
            self._agent(namespace).snapshot("a new namespace")

    def files(self, namespace: str, place: str) -> Any:
        """Returns files to change; raises if they are those of a snapshot."""
        if self.at is not None:
            raise failure(errno.EROFS, place)
        with system_errors(place):
            return self._agent(namespace).files

    def reader(self, namespace: str, place: str) -> Any:
        """Returns files to read, all of one moment if it is one of a snapshot."""
        if (reader := self._readers.get(namespace)) is not None:
            return reader
        with system_errors(place):
            agent = self._agent(namespace)
            if self.at is None:
                return agent.files
            snapshot = agent.get_snapshot(self.at)
            reader = agent.at(snapshot).files
        # A whole id means one snapshot for ever; `latest` and `@-1` come to mean another one.
        if snapshot.id == self.at:
            self._readers[namespace] = reader
        return reader

    def _agent(self, namespace: str) -> Namespace | Client:
        try:
            return self._opened.within.namespace(namespace)
        except InvalidValue as error:
            # What no request can name, a client refuses itself; a vault says `InvalidName` of it.
            raise InvalidName("namespace", namespace, reason=str(error)) from error
