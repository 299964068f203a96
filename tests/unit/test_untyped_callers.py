"""What callers without a type checker are told: at both doors, by every method, of every argument.

Nothing is known here of how arguments are checked: a method says in its signature what it takes,
and is given something else.
"""

import inspect
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any

import httpx2
import pytest

import holdfast
from holdfast import HoldfastError
from holdfast.sdk.admin import Operator
from holdfast.sdk.calls import asked
from holdfast.sdk.sending import SyncSender

PARTS = [
    *("files", "store", "sessions", "memory", "entities", "traces", "tasks", "schedules", "git"),
    *("snapshots", "events", "keys", "logins", "erasures", "webhooks", "namespaces"),
]
NOT_ASKED = {
    "checkpointed": "takes any function",
    "outbox": "for a server's worker",
    "record_uses": "for a server",
    "replying": "for a server",
    "take_requests": "for a server",
    "wait_for_changes": "waits",
}
WRONG: list[tuple[object, str]] = [
    (object(), "object|Any"),
    (5, "object|Any|int|float"),
    (True, "object|Any|bool"),
    (1.5, "object|Any|float"),
    ("zz", "object|Any|str|StrEnum"),
    (b"hello", "object|Any|bytes|ObjectId"),
    ([object()], "object|Any"),
    ({1: 2}, "object|Any|dict|Mapping"),
]
"""Values, and what a parameter says whose type one may be."""
ODD: list[object] = [
    *(2**70, -(10**5000), float("nan"), "\ud800", "a\0b", [("\ud800", "\ud800")]),
    datetime(2020, 1, 1),  # noqa: DTZ001 - of no time zone, which is the point
]
"""Of types that may be right, and yet nothing that can be kept or sent."""

Method = Callable[..., Any]


def methods_of(doors: list[Any]) -> Iterator[tuple[str, Method]]:
    """Yields every public method of doors and of their parts that takes something."""
    parts = [(name, getattr(door, name, None)) for door in doors for name in PARTS]
    for where, door in [*((type(each).__name__, each) for each in doors), *parts]:
        for name in dir(type(door)):
            static = inspect.getattr_static(type(door), name)
            if name.startswith("_") or name in NOT_ASKED or isinstance(static, property | asked):
                continue
            found = getattr(door, name)
            if inspect.isroutine(found) and inspect.signature(found).parameters:
                yield f"{where}.{name}", found


def is_any_of(parameter: inspect.Parameter, words: str) -> bool:
    return re.search(rf"\b({words})\b", str(parameter.annotation)) is not None


def example(parameter: inspect.Parameter) -> object:
    """Returns what fits where something else is given wrongly."""
    examples = {
        "Callable": lambda *_: None,
        "Iterable|Sequence|list|tuple": (),
        "str": "a",
        "int|float": 1,
        "dict|Mapping": {},
        "timedelta": timedelta(days=1),
        "datetime": datetime(2026, 1, 1, tzinfo=UTC),
        "bytes": b"a",
    }
    found = (made for words, made in examples.items() if is_any_of(parameter, words))
    return next(found, None)


def given(method: Method, wrong: inspect.Parameter, value: object) -> object:
    """Calls a method with one wrong argument, and all others that it needs."""
    args, kwargs = list[object](), dict[str, object]()
    for each in inspect.signature(method).parameters.values():
        if each.name != wrong.name and each.default is not each.empty:
            continue
        chosen = value if each.name == wrong.name else example(each)
        if each.kind in (each.POSITIONAL_ONLY, each.VAR_POSITIONAL):
            args.append(chosen)
        else:
            kwargs[each.name] = chosen
    made = method(*args, **kwargs)
    return [*islice(made, 1)] if isinstance(made, Iterator) else made


def complaints(doors: list[Any], values: list[tuple[object, str]], *, is_wrong: bool) -> list[str]:
    """Returns what was done with something wrong, or refused in words that are not ours."""
    found = list[str]()
    for where, method in methods_of(doors):
        for parameter in inspect.signature(method).parameters.values():
            for value, words in values:
                if is_any_of(parameter, words):
                    continue
                try:
                    given(method, parameter, value)
                    outcome = "was done" if is_wrong else ""
                except HoldfastError:
                    outcome = ""
                except Exception as exc:  # noqa: BLE001 - that is what is looked for
                    outcome = f"{type(exc).__name__}: {exc}"
                if outcome:
                    found.append(
                        f"{where}({parameter.name}: {type(value).__name__}) {outcome}"[:200]
                    )
    return found


class Seen(list[str]):
    """What a server was asked to do, other than to tell something."""

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        if request.method != "GET":
            self.append(f"{request.method} {request.url.path}")
        return httpx2.Response(404, json={"error": {"code": "not_found", "message": "none"}})


@pytest.fixture
def vault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[holdfast.Holdfast]:
    monkeypatch.chdir(tmp_path)
    with holdfast.open(tmp_path / "vault") as opened:
        yield opened


@pytest.fixture
def embedded(vault: holdfast.Holdfast, tmp_path: Path) -> Iterator[list[Any]]:
    agent = vault.namespace("a")
    agent.files.write("a", b"1")
    agent.store.set("a", "a", 1)
    agent.sessions.create("a", session_id="a", initial_state={"a": 1})
    agent.snapshot("a")
    (tmp_path / "directory").mkdir()
    with vault.workspace(tmp_path / "directory") as workspace:
        yield [vault, agent, agent.at("latest"), workspace]


@pytest.fixture
def seen() -> Seen:
    return Seen()


@pytest.fixture
def remote(seen: Seen, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    monkeypatch.chdir(tmp_path)
    client = holdfast.Client("key", url="http://127.0.0.1:9", namespace="a")
    http = httpx2.Client(transport=httpx2.MockTransport(seen))
    sender = SyncSender(client.sender.line, http=http, sleep=lambda _: None)
    client._begin(sender)
    return [client, client.at("snap-aaaaaaaaaaaaaaaa"), Operator(sender, workspace_id="me")]


def everything(vault: holdfast.Holdfast) -> list[object]:
    """Returns what a vault has, to compare."""
    with vault._context.catalog.read() as rows:
        heads = rows.iter_heads(vault._tenant.id)
        pending = [sorted(rows.all_pending(each.namespace_id)) for each in heads]
        return [rows.iter_tenants(), heads, pending, rows.iter_snapshots(vault._tenant.id)]


def test_an_embedded_vault_refuses_what_is_of_another_type(
    vault: holdfast.Holdfast, embedded: list[Any]
) -> None:
    before = everything(vault)
    assert complaints(embedded, WRONG, is_wrong=True) == []
    assert everything(vault) == before


def test_a_client_refuses_what_is_of_another_type(seen: Seen, remote: list[Any]) -> None:
    assert complaints(remote, WRONG, is_wrong=True) == []
    assert seen == []


def test_what_can_be_neither_kept_nor_sent_is_refused_in_our_words(
    embedded: list[Any], remote: list[Any]
) -> None:
    odd = [(each, "Any") for each in ODD]
    assert complaints([*embedded, *remote], odd, is_wrong=False) == []
