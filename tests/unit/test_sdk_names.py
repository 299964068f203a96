"""The client offers what the embedded door offers, by the same names, awaited or not.

Two comparisons: `Client` with `AsyncClient`, and both with `Namespace` and its groups. What may be
missing is in a table, with the reason.
"""

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.errors import InvalidValue, Unauthorized
from holdfast.model.basics import SnapshotInfo
from holdfast.sdk.calls import Group, _Described, _Iterating, asked
from holdfast.sdk.groups.store import StoreSnapshot
from holdfast.sdk.tasks import AsyncTasks, SyncTasks

GROUPS = ("files", "store", "sessions", "memory", "entities", "traces", "tasks", "schedules")

URL = "http://127.0.0.1:9"
SNAPSHOT = "snap-aaaaaaaaaaaaaaaa"


@pytest.fixture
def client() -> Iterator[holdfast.Client]:
    with holdfast.Client("key", url=URL, namespace="alice") as made:
        yield made


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[holdfast.Namespace]:
    with holdfast.open(tmp_path / "vault") as vault:
        yield vault.namespace("alice")


def names_of(subject: object) -> set[str]:
    """Returns what users see of an object: methods, attributes, groups."""
    return {name for name in dir(subject) if not name.startswith("_")} - {"sender", "above"}


def member_of(subject: object, name: str) -> Any:
    return inspect.getattr_static(type(subject), name, None)


def takes(member: Any) -> dict[str, tuple[str, str]] | None:
    """Returns how a method is called: each argument with its kind and its default."""
    function = member.describe if isinstance(member, _Described) else member
    function = getattr(function, "__func__", function)
    if not inspect.isfunction(function) or isinstance(member, asked):
        return None
    found = inspect.signature(function).parameters
    return {
        name: (each.kind.name, shown(each.default))
        for name, each in found.items()
        if name != "self"
    }


def shown(default: Any) -> str:
    return default.__name__ if callable(default) else repr(default)


# Both clients.


def pairs_of_clients() -> Iterator[tuple[str, Any, Any]]:
    plain = holdfast.Client("key", url=URL, namespace="alice")
    awaited = holdfast.AsyncClient("key", url=URL, namespace="alice")
    yield "client", plain, awaited
    yield "moment", plain.at(SNAPSHOT), awaited.at(SNAPSHOT)
    admin = holdfast.AdminClient("key", url=URL)
    yield "admin", admin, holdfast.AsyncAdminClient("key", url=URL)


def walked(name: str, one: Any, other: Any) -> Iterator[tuple[str, Any, Any]]:
    yield name, one, other
    for each, value in vars(one).items():
        if isinstance(value, Group):
            yield f"{name}.{each}", value, getattr(other, each)


COUPLES = [
    pytest.param(one, other, id=name)
    for pair in pairs_of_clients()
    for name, one, other in walked(*pair)
]


@pytest.mark.parametrize(("one", "other"), COUPLES)
def test_both_clients_offer_the_same_names_with_the_same_arguments(one: Any, other: Any) -> None:
    assert names_of(type(one)) == names_of(type(other))
    assert set(vars(one)) == set(vars(other))
    for name in names_of(type(one)):
        assert takes(member_of(one, name)) == takes(member_of(other, name)), name
        assert is_described(member_of(one, name)) == is_described(member_of(other, name)), name


def is_described(member: Any) -> bool:
    return isinstance(member, _Described)


AT_ONCE = {"namespace", "name", "at", "task", "workspace", "from_env", "store.at"}
"""What sends nothing, and so is the same for both."""


@pytest.mark.parametrize(("one", "other"), COUPLES)
def test_every_method_of_an_asynchronous_client_that_sends_is_awaited(one: Any, other: Any) -> None:
    for name in names_of(type(one)) - AT_ONCE:
        member = member_of(other, name)
        if is_described(member) or isinstance(member, property) or not inspect.isfunction(member):
            continue
        if inspect.getmodule(member).__name__.startswith("holdfast.sdk.groups"):
            continue  # What describes for others.
        assert inspect.iscoroutinefunction(member), name
        assert not inspect.iscoroutinefunction(member_of(one, name)), name


def test_a_call_is_an_answer_a_coroutine_or_an_iterator_as_the_client_is() -> None:
    awaited = holdfast.AsyncClient("key", url=URL, namespace="alice")
    for group in (awaited, awaited.files, awaited.store, awaited.sessions):
        for name in names_of(type(group)):
            member = member_of(group, name)
            if isinstance(member, _Iterating):
                assert not inspect.iscoroutinefunction(getattr(group, name))
    answer = awaited.files.read("a")
    assert inspect.iscoroutine(answer)
    answer.close()
    assert inspect.isasyncgen(awaited.files.iter())
    assert inspect.isasyncgen(awaited.files.stream("a"))


def test_both_kinds_of_tasks_offer_the_same() -> None:
    assert names_of(SyncTasks) == names_of(AsyncTasks)
    plain, awaited = (holdfast.Client, holdfast.AsyncClient)
    one, other = (kind("key", url=URL).checkpointed for kind in (plain, awaited))
    assert takes(type(one).__call__) == takes(type(other).__call__)
    assert one.__doc__ is not None
    for enter, leave, kind in (
        ("__enter__", "__exit__", SyncTasks),
        ("__aenter__", "__aexit__", AsyncTasks),
    ):
        assert hasattr(kind, enter)
        assert hasattr(kind, leave)


def test_both_kinds_of_remote_directories_offer_the_same() -> None:
    plain, awaited = holdfast.RemoteWorkspace, holdfast.AsyncRemoteWorkspace
    for name in names_of(plain) - {"path"}:
        one, other = getattr(plain, name), getattr(awaited, name)
        assert takes(one) == takes(other), name


# The client and the embedded door.


OPERATORS = "an operator decides that: admin.namespaces"
INSIDE = "how the plane is opened, inside a vault"
IN_PROCESS = "what the in-process store is asked; a server's is never otherwise"

MISSING: dict[str, dict[str, str]] = {
    "namespace": {
        "comparing": "what the embedded door and the server compare with",
        "acting_as": "a server writes down the key that asked",
        "checkout": "a remote directory has it: a client writes no files",
    }
    | dict.fromkeys(
        [
            "deleted_snapshots",
            "forget",
            "quota",
            "recover_snapshot",
            "retention",
            "set_quota",
            "set_retention",
        ],
        OPERATORS,
    ),
    "files": {"still": "holds a vault still while a reader reads: no request lasts that long"},
    "at.files": {"still": "as above"},
    "store": dict.fromkeys(["codec", "max_history", "clear_history", "still"], IN_PROCESS),
    "at.store": {"still": "as of files"},
    "memory": {"recover": OPERATORS},
    "entities": {"recover": OPERATORS},
}

NOT_TAKEN: dict[str, str] = {
    "actor": "a server writes down the key that asked",
}
"""Arguments that no method of a client has."""


def couples_of_doors(
    agent: holdfast.Namespace, client: holdfast.Client
) -> Iterator[tuple[str, Any, Any]]:
    yield "namespace", agent, client
    for group in GROUPS:
        yield group, getattr(agent, group), getattr(client, group)
    taken = agent.snapshot()
    then, there = agent.at(taken), client.at(taken)
    yield "at", then, there
    for group in ("files", "store", "sessions"):
        yield f"at.{group}", getattr(then, group), getattr(there, group)


def test_the_client_has_every_name_of_the_embedded_door(
    agent: holdfast.Namespace, client: holdfast.Client
) -> None:
    for place, here, there in couples_of_doors(agent, client):
        wanted = names_of(here) - {"opened"}
        offered = names_of(type(there)) | set(vars(there))
        assert wanted - offered == set(MISSING.get(place, {})), place


def test_the_clients_methods_take_what_the_embedded_ones_take(
    agent: holdfast.Namespace, client: holdfast.Client
) -> None:
    for place, here, there in couples_of_doors(agent, client):
        for name in names_of(type(here)) & names_of(type(there)):
            wanted, taken = takes(member_of(here, name)), takes(member_of(there, name))
            if wanted is None or taken is None:
                continue
            left = {each: how for each, how in wanted.items() if each not in NOT_TAKEN}
            differing = {each for each in left if taken.get(each) != left[each]}
            assert differing == set(), f"{place}.{name}"
            added = {taken[each] for each in taken.keys() - left.keys()}
            assert {kind for kind, _ in added} <= {"KEYWORD_ONLY"}, f"{place}.{name}"


def test_no_exception_is_one_any_more(agent: holdfast.Namespace, client: holdfast.Client) -> None:
    places = {place: (here, there) for place, here, there in couples_of_doors(agent, client)}
    for place, names in MISSING.items():
        for name in names:
            assert hasattr(places[place][0], name)
            assert not hasattr(type(places[place][1]), name)


def test_what_is_an_operators_is_with_the_operators() -> None:
    offered = names_of(holdfast.AdminClient("key", url=URL).namespaces)
    wanted = {name for name, why in MISSING["namespace"].items() if why is OPERATORS}
    assert wanted - offered == set()
    assert {"recover_memory", "recover_entity"} <= offered


def test_a_snapshot_of_the_store_has_the_same_names(
    agent: holdfast.Namespace, client: holdfast.Client
) -> None:
    here = agent.store.snapshot()
    there = StoreSnapshot(client.sender, agent.get_snapshot(here))
    whole = names_of(SnapshotInfo) | set(SnapshotInfo.__annotations__)
    # The rest of what is known of any snapshot is at `info`.
    assert names_of(here) - names_of(there) <= whole | {"of"}
    assert {"id", "parent", "timestamp", "size_bytes", "keys", "diff", "get", "items"} <= names_of(
        there
    )


def test_a_remote_directory_has_every_name_of_a_local_one() -> None:
    here, there = holdfast.Workspace, holdfast.RemoteWorkspace
    # On a server, whoever holds the key acts, and namespaces are merged there; `pull` brings what
    # others did. A patch has the content of what was there, which lies on the server. There is no
    # second namespace of the directory that it could enter. Its tasks are the server's, which ends
    # them, too.
    missing = {"acting_as", "agree", "end_badly", "enter", "give_up", "merge", "patches"}
    assert names_of(here) - names_of(there) == missing
    for name in names_of(here) & names_of(there):
        wanted = takes(inspect.getattr_static(here, name))
        taken = takes(inspect.getattr_static(there, name))
        if wanted is not None and taken is not None:
            assert {each: taken.get(each) for each in wanted} == wanted, name


def test_what_is_given_and_empty_is_not_taken_from_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # An id that was not found must not become somebody else's namespace, or their key.
    monkeypatch.setenv("HOLDFAST_NAMESPACE", "shared")
    monkeypatch.setenv("HOLDFAST_API_KEY", "the key of the machine")
    monkeypatch.setenv("HOLDFAST_URL", URL)
    with pytest.raises(InvalidValue, match="namespace"):
        holdfast.Client("key", namespace="")
    with pytest.raises(Unauthorized, match="API key"):
        holdfast.Client("", namespace="alice")
    with pytest.raises(InvalidValue, match="URL"):
        holdfast.Client("key", namespace="alice", url="")


def test_every_group_says_its_type_where_it_is_made() -> None:
    # mypy infers Any for `self.files = Files[F](…)`, since `F` is one of two; pyright does not.
    folder = Path(inspect.getfile(Group)).parent
    found: dict[bool, list[str]] = {True: [], False: []}
    for source in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(source.read_text("utf-8"))):
            if isinstance(node, ast.AnnAssign) and "[F]" in ast.unparse(node.annotation):
                found[True].append(ast.unparse(node.target))
            if isinstance(node, ast.Assign) and "[F](" in ast.unparse(node.value):
                found[False].append(f"{source.name}: {ast.unparse(node)}")
    assert set(GROUPS) <= {name.removeprefix("self.") for name in found[True]}
    assert found[False] == []


@pytest.mark.parametrize(
    ("kind", "variable"),
    [(holdfast.Client, "HOLDFAST_API_KEY"), (holdfast.AdminClient, "HOLDFAST_ADMIN_KEY")],
)
def test_a_client_without_a_key_says_what_to_set(
    kind: type[holdfast.Client | holdfast.AdminClient],
    variable: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(variable, raising=False)
    with pytest.raises(Unauthorized, match=f"api_key=, or set {variable}"):
        kind()
