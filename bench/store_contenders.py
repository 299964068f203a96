"""Who takes part in `bench_store.py`, and what they are asked to keep.

In memory: swarmstate's `Store`, and ours with each of its two cores. On disk: swarmstate's
`DiskStore`, and ours in both durable forms, at the same policy of syncing. Whoever cannot run
here says why and is left out.
"""

import contextlib
import sqlite3
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

import msgspec

PEER = "swarmstate"
COMPILED = "compiled"
INTERPRETED = "interpreted"

NORMAL_PEER = "DiskStore, normal"
NORMAL_OURS = "Store.open, normal"
FULL_PEER = "DiskStore, full"
FULL_OURS = "Store.open, full"
PLANE_OURS = "namespace.store"


class Snapshot(Protocol):
    """What everybody's snapshots can do."""

    @property
    def keys(self) -> list[tuple[str, str]]: ...

    def diff(self, base: Any, /) -> dict[str, list[tuple[str, str]]]: ...  # noqa: ANN401 - of its own kind


class Store(Protocol):
    """What everybody's stores can do; values and snapshots are whatever they take."""

    def set(self, namespace: str, key: str, value: Any, /) -> None: ...  # noqa: ANN401
    def get(self, namespace: str, key: str, /) -> Any: ...  # noqa: ANN401
    def set_many(self, items: list[tuple[str, str, Any]], /) -> object: ...
    def get_many(self, pairs: list[tuple[str, str]], /) -> list[Any]: ...
    def contains(self, namespace: str, key: str, /) -> bool: ...
    def delete(self, namespace: str, key: str, /) -> bool: ...
    def keys(self, namespace: str, prefix: str | None = None, /) -> list[str]: ...
    def max_key(self, namespace: str, /) -> str | None: ...
    def namespaces(self) -> list[str]: ...
    def clear(self) -> None: ...
    def snapshot(self) -> Snapshot: ...
    def restore(self, snapshot: Any, /) -> object: ...  # noqa: ANN401
    def __len__(self) -> int: ...


def open_in_memory(name: str) -> Store:
    """Returns an empty store of a contender; ImportError says that it cannot run here."""
    if name == PEER:
        import swarmstate  # noqa: PLC0415 - whoever is not installed is left out

        return swarmstate.Store()
    if name == INTERPRETED:
        from holdfast.store import interpreted  # noqa: PLC0415

        return interpreted.Core()
    from holdfast.store import Store, _core  # noqa: PLC0415

    assert issubclass(Store, _core.Core)
    return Store()


IN_MEMORY = (PEER, COMPILED, INTERPRETED)


@dataclass(frozen=True)
class Durable:
    """How a contender is opened in a folder of its own, and closed."""

    name: str
    opened: Callable[[Path], contextlib.AbstractContextManager[Store]]


@contextlib.contextmanager
def open_disk_store(folder: Path, *, is_full: bool) -> Generator[Store]:
    from swarmstate.backends.disk import DiskStore  # noqa: PLC0415

    store = DiskStore(str(folder / "state.db"))
    if is_full:
        # As shipped it is NORMAL: no sync at a commit. It has no argument for another policy.
        connection: sqlite3.Connection = store._connect()  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
        connection.execute("PRAGMA synchronous=FULL")
    try:
        yield store
    finally:
        store.close()


@contextlib.contextmanager
def open_durable_store(folder: Path, *, sync: Literal["normal", "full"]) -> Generator[Store]:
    import holdfast  # noqa: PLC0415

    with holdfast.Store.open(folder / "store", sync=sync) as store:
        yield store


@contextlib.contextmanager
def open_plane(folder: Path) -> Generator[Store]:
    import holdfast  # noqa: PLC0415

    with holdfast.open(folder / "vault") as vault:
        yield vault.namespace("agent").store


DURABLE = (
    Durable(NORMAL_PEER, lambda folder: open_disk_store(folder, is_full=False)),
    Durable(NORMAL_OURS, lambda folder: open_durable_store(folder, sync="normal")),
    Durable(FULL_PEER, lambda folder: open_disk_store(folder, is_full=True)),
    Durable(FULL_OURS, lambda folder: open_durable_store(folder, sync="full")),
    Durable(PLANE_OURS, open_plane),
)

RIVALS: Mapping[str, str] = {
    COMPILED: PEER,
    INTERPRETED: PEER,
    NORMAL_OURS: NORMAL_PEER,
    FULL_OURS: FULL_PEER,
    PLANE_OURS: FULL_PEER,
}
"""Whom each of ours is compared with."""


def present(names: Iterable[str]) -> list[str]:
    """Returns those that can run here, and says who cannot."""
    found: list[str] = []
    for name in names:
        try:
            open_in_memory(name)
        except ImportError as error:
            print(f"left out: {name}: {error}")
        else:
            found.append(name)
    return found


TEXT = "The order was packed, the label is printed, and the carrier comes at four. " * 200
WORDS = TEXT.split()


def conversation(size_bytes: int) -> dict[str, Any]:
    """Returns an agent's state, exactly so large as msgpack: messages, a plan, some numbers."""
    messages: list[dict[str, Any]] = []
    state: dict[str, Any] = {
        "thread": "thread-7f3a91",
        "step": 1 << 20,
        "plan": ["collect", "compare", "write"],
        "usage": {"input": 1234, "output": 567, "cost": 0.0123},
        "messages": messages,
    }
    while (missing := size_bytes - len(msgspec.msgpack.encode(state))) > 0:
        number = len(messages)
        message = {
            "role": "assistant" if number % 2 else "user",
            "id": f"message-{number:04d}",
            "content": TEXT[number * 7 : number * 7 + 140],
            "meta": {"model": "large", "tokens": 42 + number, "tags": WORDS[number : number + 3]},
        }
        if missing < 2 * len(msgspec.msgpack.encode(message)):
            message["content"] = ""
            rest = missing - len(msgspec.msgpack.encode(message)) - 1  # its text has a longer head
            messages.append({**message, "content": TEXT[:rest]})
            break
        messages.append(message)
    return state


ONE_KB, TEN_KB = conversation(1024), conversation(10_240)

VALUES: dict[str, Callable[[int], Any]] = {
    "int": lambda number: number,
    "dict": lambda number: {"step": number, "name": "collect", "done": False},
    "1 KB": lambda number: {**ONE_KB, "step": (1 << 20) + number},
    "10 KB": lambda number: {**TEN_KB, "step": (1 << 20) + number},
    "1 KB str": lambda number: f"{number:08d}{TEXT[:1013]}",
    "10 KB str": lambda number: f"{number:08d}{TEXT[:10_229]}",
}
"""What is stored: equal in kind and size, different for every number."""
