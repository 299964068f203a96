"""Operations: one description is the signature of three doors, and what stands on the wire."""

import inspect
import json
from collections.abc import Iterable
from dataclasses import KW_ONLY
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Annotated, Any, Literal

import msgspec
import pytest

from holdfast.engine.audit.traces import Traces, WorkspaceTraces
from holdfast.engine.erasing.door import Erasures
from holdfast.engine.files.editing import Files
from holdfast.engine.gitbackup.door import GitBackups
from holdfast.engine.memories import Memories
from holdfast.engine.memory.reader import MemoriesReader
from holdfast.engine.namespace import Namespace
from holdfast.engine.sessions.door import Sessions
from holdfast.engine.sessions.entities import Entities
from holdfast.engine.sessions.reader import SessionsReader
from holdfast.engine.store.plane import Store
from holdfast.engine.tasks.runs import TaskRuns
from holdfast.engine.tasks.schedules import Schedules
from holdfast.engine.tenancy.keys import Keys
from holdfast.engine.tenancy.webhooks import Webhooks
from holdfast.errors import InvalidName, InvalidValue
from holdfast.ids import NamespaceId, ObjectId, object_id_of
from holdfast.model.basics import Plane, Size, SnapshotInfo, SnapshotLike
from holdfast.model.marks import (
    FLAT,
    HERE,
    AtMost,
    Header,
    Inside,
    Instead,
    Named,
    Shape,
    Text,
)
from holdfast.model.tasks import Cadence, Schedule
from holdfast.model.upkeep import Policy
from holdfast.operations.forms import form_of
from holdfast.operations.namespaces import ForgetSnapshots, SetQuota
from holdfast.operations.operation import Arguments, Operation, Paged, Who, operations_of, takes
from holdfast.operations.shapes import ASKED, shape_of
from holdfast.operations.tasks import CreateSchedule, GetSchedule
from holdfast.sdk.agent import Agent
from holdfast.sdk.calls import method, paging
from holdfast.sdk.groups import activity, operators
from holdfast.sdk.groups.files import Files as SdkFiles
from holdfast.sdk.groups.sessions import Entities as SdkEntities
from holdfast.sdk.groups.sessions import Memories as SdkMemories
from holdfast.sdk.groups.sessions import MemoriesReader as SdkMemoriesReader
from holdfast.sdk.groups.sessions import Sessions as SdkSessions
from holdfast.sdk.groups.sessions import SessionsReader as SdkSessionsReader
from holdfast.sdk.groups.store import Store as SdkStore
from holdfast.server import routes as served
from holdfast.server.doors import answers
from holdfast.server.openapi import describe
from holdfast.server.table import Group, Table

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


class Thing(msgspec.Struct, frozen=True, kw_only=True):
    """Has a field of every kind."""

    id: Annotated[str, Named("thing_id")]
    secret: Annotated[int, Inside(0)]
    where: Annotated[str | None, HERE] = None
    root: ObjectId
    made_at: datetime
    lasts: timedelta | None
    size: Annotated[Size, FLAT]
    planes: tuple[Plane, ...] = ()
    parts: dict[str, datetime] = {}
    ON_WIRE = {"large": "is_large"}

    @property
    def is_large(self) -> bool:
        return self.size.bytes > 1


class AskThing(Operation[Thing], post="/v1/things/{thing_id}", status=201):
    """Asks for everything."""

    thing_id: str
    _: KW_ONLY
    after: SnapshotLike | None = None
    lasts: timedelta | None = None
    planes: list[Plane] | None = None
    limit: int | None = 10
    deep: bool = True
    place: Annotated[str, Header("X-Place")] = "here"


class NameThing(
    Operation[None],
    delete="/v1/things/{name}",
    who=Who.OPERATOR,
    done="deleted",
    repeats=("name", "force"),
):
    """Asks for what may be called anything."""

    name: Annotated[str, Header("X-Name")]
    _: KW_ONLY
    force: bool = False


class MakeThing(Operation[None], post="/v1/things", status=204):
    """Asks for what must not be misunderstood."""

    name: str


def thing(**more: Any) -> Thing:
    known: dict[str, Any] = {
        "id": "t1",
        "secret": 7,
        "root": object_id_of(b"x"),
        "made_at": NOW,
        "lasts": timedelta(minutes=1),
        "size": Size(2, 3),
        "planes": (Plane.FILES,),
        "parts": {"a": NOW},
    }
    return Thing(**known | more)


def test_a_value_is_written_by_the_rules_of_its_types() -> None:
    shape = shape_of(Thing)
    ASKED.set("agent")
    assert shape.send is not None
    assert shape.read is not None
    sent = json.loads(msgspec.json.encode(shape.send(thing())))
    assert sent == {
        "thing_id": "t1",
        "where": "agent",
        "root": object_id_of(b"x").hex(),
        "made_at": "2026-01-02T03:04:05.000000Z",
        "lasts_seconds": 60,
        "entries": 2,
        "size_bytes": 3,
        "planes": ["files"],
        "parts": {"a": "2026-01-02T03:04:05.000000Z"},
        "large": True,
    }
    read = shape.read(msgspec.convert(sent, shape.wire))
    assert read == thing(secret=0, where="agent")


def test_an_operation_is_sent_and_read_as_it_was_asked() -> None:
    asked = AskThing("t/1", after="@-2", lasts=timedelta(hours=1), limit=None, deep=False)
    form = form_of(AskThing)
    sent = form.send(asked)
    assert sent.place == {"thing_id": "t/1"}
    assert sent.headers == {"X-Place": "here"}
    assert msgspec.to_builtins(sent.body) == {
        "after": "@-2",
        "lasts_seconds": 3600,
        "limit": None,
        "deep": False,
    }
    body = msgspec.json.decode(msgspec.json.encode(sent.body), type=form.body)
    said = {name: getattr(body, name) for name in body.__struct_fields__}
    assert form.read({**sent.place, **sent.headers, **said}) == asked


def test_a_name_that_a_path_cannot_hold_stands_in_a_header() -> None:
    sent = form_of(NameThing).send(NameThing("a/ä"))
    assert (sent.place, sent.headers) == ({"name": "-"}, {"X-Name": "a/ä"})
    with pytest.raises(InvalidName, match="empty"):
        form_of(NameThing).send(NameThing(""))


@pytest.mark.parametrize(
    ("path", "header", "name"),
    [
        ("plain", None, "plain"),
        ("plain", "other", "plain"),
        ("-", None, "-"),
        ("-", "a/ä", "a/ä"),
    ],
)
def test_a_server_finds_a_name_in_either_place(path: str, header: str | None, name: str) -> None:
    asked = list[NameThing]()

    def answer(_: object, wanted: NameThing) -> None:
        asked.append(wanted)

    route = answers(NameThing)(answer)
    given = {} if header is None else {b"x-name": header.encode()}
    request: Any = SimpleNamespace(
        places={"name": path},
        query=[("force", "true")],
        header=lambda wanted: given[wanted].decode("latin-1") if wanted in given else None,
    )
    made = route.function(whose=None, request=request, **route.parameters.values(request))
    assert asked == [NameThing(name, force=True)]
    assert msgspec.to_builtins(made) == {"deleted": True, "name": name, "force": True}


def test_of_a_value_a_request_may_say_a_part() -> None:
    form = form_of(ForgetSnapshots)
    body = msgspec.json.decode(b'{"policy": {"keep_last": 2}, "dry_run": null}', type=form.body)
    said = {"name": "a", "policy": body.policy, "dry_run": body.dry_run}
    assert form.read(said) == ForgetSnapshots("a", policy=Policy(keep_last=2))
    assert form.read({"name": "a"}) == ForgetSnapshots("a")


def test_an_empty_header_names_nothing() -> None:
    route = answers(NameThing)(lambda _, __: None)
    request: Any = SimpleNamespace(places={"name": "-"}, query=[], header=lambda _: "")
    with pytest.raises(InvalidName, match="empty"):
        route.parameters.values(request)


class ListWords(
    Operation[list[str]],
    get="/v1/words",
    under="words",
    repeats=("of",),
    paged=Paged(cursor="after", last=None, usual=2, most=5),
    of_moments=True,
):
    """Lists words."""

    of: str
    _: KW_ONLY
    after: Annotated[str | None, Named("starting_after")] = None
    limit: int | None = None


class SayWhen(Operation[None], put="/v1/when", repeats=("when",)):
    """Says when."""

    when: datetime


def test_what_nothing_comes_back_for_may_be_said_again() -> None:
    form, asked = form_of(SayWhen), SayWhen(NOW)
    sent = msgspec.json.encode(form.write(asked, None))
    assert json.loads(sent) == {"when": "2026-01-02T03:04:05.000000Z"}
    assert form.read_answer(sent) is None


class MeasureThing(Operation[Size], get="/v1/size", repeats=("within",)):
    """Asks how large one is."""

    within: timedelta


def test_what_is_said_again_stands_beside_what_comes_back() -> None:
    form, asked = form_of(MeasureThing), MeasureThing(timedelta(minutes=1))
    sent = msgspec.json.encode(form.write(asked, Size(1, 2)))
    assert json.loads(sent) == {"entries": 1, "size_bytes": 2, "within_seconds": 60}
    assert form.read_answer(sent) == Size(1, 2)


@pytest.mark.parametrize(
    ("words", "limit", "page"),
    [("abc", 2, "ab"), ("abc", 3, "abc")],
)
def test_a_part_of_a_list_says_whether_there_is_more(words: str, limit: int, page: str) -> None:
    def answer(_: object, wanted: ListWords) -> list[str]:
        return [*words][: wanted.limit]

    route = answers(ListWords)(answer)
    given: dict[str, Any] = {"whose": None, "request": None, "at": None}
    made = msgspec.to_builtins(route.function(**given, of="it", limit=limit))
    assert made == {"of": "it", "words": [*page], "has_more": len(page) < len(words)}


def test_the_parts_of_a_list_are_asked_for_at_the_moment_that_a_group_looks_at() -> None:
    pages = paging(ListWords("it"), {"at": "snap-1"})
    first = pages.call(None, 2)
    assert first.query == {"of": "it", "limit": 2, "at": "snap-1"}
    page = first.read(b'{"of": "it", "words": ["a", "b"], "has_more": true}')
    assert pages.call(page.cursor, 2).query == {**first.query, "starting_after": "b"}


def test_an_operation_passes_nothing_over() -> None:
    with pytest.raises(msgspec.ValidationError, match="unknown field"):
        msgspec.json.decode(b'{"name": "a", "namespce": "b"}', type=form_of(MakeThing).body)


class ListThings(Operation[list[Thing]], get="/v1/things", under="data"):
    """Asks for some."""

    metadata: dict[str, Any] | None = None
    made_by: Annotated[str | None, Named("from")] = None
    limit: Annotated[int | None, AtMost(5)] = 3


class KeepThing(Operation[None], post="/v1/things", status=204):
    """Keeps one for some time, or for ever."""

    span: Annotated[timedelta | None, Instead("for_ever")] = None


def test_an_object_stands_in_a_query_as_text() -> None:
    sent = form_of(ListThings).send(ListThings({"ä": [1]}))
    assert sent.query == {"metadata": '{"ä":[1]}', "limit": 3}


def test_what_is_above_the_most_is_the_most() -> None:
    read = form_of(ListThings).read
    assert read({"limit": 9}) == ListThings(limit=5)
    assert read({"limit": 2, "from": "me"}) == ListThings(limit=2, made_by="me")


def test_none_is_said_in_a_word_where_silence_is_something_else() -> None:
    form = form_of(KeepThing)
    assert msgspec.to_builtins(form.send(KeepThing()).body) == {"for_ever": True}
    given = form.send(KeepThing(timedelta(seconds=5))).body
    assert msgspec.to_builtins(given) == {"span_seconds": 5}


class FindThings(Operation[list[str]], get="/v1/things", under="data"):
    """Asks for those of some kinds."""

    kinds: Iterable[str] | None = None


def test_any_of_none_can_be_said_in_a_query() -> None:
    sent = form_of(FindThings).send(FindThings([]))
    assert sent.query == {"kinds": [""]}
    assert form_of(FindThings).read(sent.query) == FindThings([])
    assert form_of(FindThings).read({}) == FindThings()


def test_what_can_be_iterated_over_once_can_be_sent_twice() -> None:
    asked = FindThings(kind for kind in "ab")
    assert [form_of(FindThings).send(asked).query["kinds"] for _ in range(2)] == [["a", "b"]] * 2


class WeighThings(Operation[None], get="/v1/weights", status=204):
    """Asks for some that are large enough."""

    size: Annotated[Size | None, FLAT] = None


def test_the_fields_of_a_value_may_stand_beside_the_others() -> None:
    form = form_of(WeighThings)
    assert form.send(WeighThings()).query == {}
    assert form.read({}) == WeighThings()
    asked = WeighThings(Size(1, 2))
    assert form.send(asked).query == {"entries": 1, "size_bytes": 2}
    assert form.read({"entries": 1, "size_bytes": 2}) == asked


def test_null_need_not_be_written_where_it_has_to_be_said() -> None:
    read = msgspec.json.decode(b"{}", type=form_of(SetQuota).body)
    assert form_of(SetQuota).read({"quota_bytes": read.quota_bytes}) == SetQuota(None)


def test_null_says_nothing_where_none_is_no_value() -> None:
    read = form_of(AskThing).read({"thing_id": "t", "deep": None, "limit": None})
    assert read == AskThing("t", deep=True, limit=None)


@pytest.mark.parametrize(
    "given",
    [
        {"thing_id": 3},
        {"thing_id": b"t"},
        {"thing_id": "t", "lasts": 3},
        {"thing_id": "t", "planes": "files"},
        {"thing_id": "t", "limit": "10"},
        {"thing_id": "t", "limit": True},
        {"thing_id": "t", "deep": 1},
        {"thing_id": "t", "after": 1.5},
    ],
)
def test_what_is_of_another_type_is_refused_by_name(given: dict[str, Any]) -> None:
    name = [*given][-1]
    with pytest.raises(InvalidValue, match=f"^{name} is ") as caught:
        AskThing(**given)
    assert isinstance(caught.value, TypeError)


class ChooseThing(Operation[None], post="/v1/chosen"):
    """Asks for one of some."""

    _: KW_ONLY
    word: Literal["one", "two"] = "one"
    plane: Plane | None = None
    other: Plane | str = "any"
    words: Iterable[str] = ()


def test_a_choice_is_one_of_those_that_are_named() -> None:
    chosen = ChooseThing(word="two", plane=Plane.FILES, other="whatever", words=("a", "b"))
    assert chosen == ChooseThing(
        word="two",
        plane="files",
        other="whatever",
        words=iter("ab"),  # pyright: ignore[reportArgumentType]
    )
    with pytest.raises(InvalidValue, match=r"^word is 'one' or 'two', not 'three'"):
        ChooseThing(word="three")  # pyright: ignore[reportArgumentType]
    with pytest.raises(InvalidValue, match=r"^plane is 'files' or .* or None, not 'file'"):
        ChooseThing(plane="file")  # pyright: ignore[reportArgumentType]
    with pytest.raises(InvalidValue, match=r"^words\[1\] is text, not a whole number"):
        ChooseThing(words=["a", 1])  # pyright: ignore[reportArgumentType]


class BoundThing(Operation[None], post="/v1/bound"):
    """Asks for what has bounds."""

    _: KW_ONLY
    count: Annotated[int, msgspec.Meta(ge=0, lt=10)] | None = None
    lasts: Annotated[Annotated[timedelta, msgspec.Meta(gt=0, le=60)] | None, Named("span")] = None
    words: Annotated[list[str], msgspec.Meta(min_length=1, max_length=2)] | None = None
    label: Annotated[str, Text(3), msgspec.Meta(max_length=3)] | None = None


WITHIN: list[dict[str, Any]] = [
    {"count": 0},
    {"count": 9},
    {"lasts": timedelta(seconds=1)},
    {"lasts": timedelta(seconds=60)},
    {"words": ["a", "b"]},
    {"label": "abc"},
    {"count": None, "lasts": None, "label": None},
]
BEYOND: list[dict[str, Any]] = [
    {"count": -1},
    {"count": 10},
    {"lasts": timedelta(0)},
    {"lasts": timedelta(seconds=61)},
    {"words": list[str]()},
    {"words": ["a", "b", "c"]},
    {"label": "abcd"},
]


def decoded(given: dict[str, Any]) -> Operation[Any]:
    """Returns what a server makes of a request that says so."""
    form = form_of(BoundThing)
    ((name, value),) = given.items()
    (part,) = (each for each in form.parts if each.name == name)
    sent = value if part.shape.send is None or value is None else part.shape.send(value)
    body = msgspec.json.decode(msgspec.json.encode({part.wire: sent}), type=form.body)
    return form.read({part.wire: getattr(body, part.wire)})


@pytest.mark.parametrize("given", [each for each in WITHIN if len(each) == 1])
def test_what_is_within_its_bounds_is_taken_at_every_door(given: dict[str, Any]) -> None:
    assert decoded(given) == BoundThing(**given)


@pytest.mark.parametrize("given", BEYOND)
def test_a_bound_holds_at_every_door(given: dict[str, Any]) -> None:
    (name,) = given
    with pytest.raises((InvalidValue, InvalidName), match=name):
        BoundThing(**given)
    with pytest.raises(msgspec.ValidationError):
        decoded(given)


def test_none_is_within_all_bounds() -> None:
    assert BoundThing(**WITHIN[-1]) == BoundThing()


@pytest.mark.parametrize("text", ["a\0", "a\ud800"])
def test_text_that_no_row_holds_is_refused(text: str) -> None:
    with pytest.raises(InvalidName, match="NUL or half a character"):
        BoundThing(label=text)
    with pytest.raises(InvalidName, match="more than 3 characters"):
        BoundThing(label="abcd")
    with pytest.raises(InvalidValue, match="label is text or None, not bytes"):
        BoundThing(label=b"a")  # pyright: ignore[reportArgumentType]


class Stands:
    """Not a snapshot, and as good as one."""

    stands_for = SnapshotInfo
    id = "snap-1"


def test_what_stands_for_a_value_is_taken_for_it() -> None:
    stands: Any = Stands()
    sent: Any = form_of(AskThing).send(AskThing("t", after=stands)).body
    assert sent.after == "snap-1"
    with pytest.raises(InvalidValue, match="thing_id is text"):
        AskThing(stands)


class Heap:
    """Items that say how many they are, in a shape of its own."""

    def __init__(self, *items: str) -> None:
        self.items = items

    @classmethod
    def wire_shape(cls) -> Shape:
        return Shape(
            HeapOnWire,
            lambda heap: HeapOnWire([*heap.items], len(heap.items)),
            lambda sent: cls(*sent.items),
        )


class HeapOnWire(msgspec.Struct):
    """Such items."""

    items: list[str]
    count: int


class Holder(msgspec.Struct, frozen=True):
    """Holds them flat."""

    name: str
    heap: Annotated[Heap, FLAT]


def test_what_has_a_shape_of_its_own_may_lie_flat() -> None:
    shape: Any = shape_of(Holder)
    sent = shape.send(Holder("n", Heap("a", "b")))
    assert msgspec.to_builtins(sent) == {"name": "n", "items": ["a", "b"], "count": 2}
    read = shape.read(msgspec.convert(msgspec.to_builtins(sent), shape.wire))
    assert (read.name, read.heap.items) == ("n", ("a", "b"))


class Pair(Arguments):
    """Two texts."""

    first: str
    _: KW_ONLY
    second: str = "b"


class Taker:
    """Takes arguments of their own, together."""

    @takes(Pair)
    def join(self, pair: Pair) -> str:
        """Joins them."""
        return pair.first + pair.second


def test_a_method_takes_arguments_that_are_given_on_together() -> None:
    assert Taker().join("a") == "ab"
    assert Taker().join("a", second="c") == "ac"
    signed = inspect.signature(Taker.join)
    assert str(signed) == "(self, first: str, *, second: str = 'b') -> str"
    assert Taker.join.__doc__ == "Joins them."
    with pytest.raises(InvalidValue, match="second is text, not a whole number"):
        Taker().join("a", second=3)  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError):
        Taker().join("a", "b")  # pyright: ignore[reportCallIssue]


def namesake(module: str) -> Any:
    class Twin(Operation[list[str]], post=f"/v1/{module}", under=module):
        """One of two that are called so."""

        __module__ = module
        name: str

    return Twin


def test_operations_of_one_name_have_schemas_of_their_own() -> None:
    def answer(_: object, wanted: Any) -> list[str]:
        return [wanted.name]

    routes = [answers(namesake(module))(answer) for module in ("cats", "dogs")]
    document = json.loads(describe(Table([Group(routes, 99)])))
    assert {"cats.Twin", "dogs.Twin", "cats.TwinAnswer", "dogs.TwinAnswer"} <= {
        *document["components"]["schemas"]
    }
    answered = document["paths"]["/v1/dogs"]["post"]["responses"]["200"]["content"]
    assert answered["application/json"]["schema"] == {
        "$ref": "#/components/schemas/dogs.TwinAnswer"
    }


def test_parameters_are_described_with_what_they_are_unsaid_and_how_many_there_may_be() -> None:
    listing: list[Any] = [ListWords, ListThings, MeasureThing]
    routes = [answers(each)(lambda _, __: None) for each in listing]
    paths = json.loads(describe(Table([Group(routes, 99)])))["paths"]

    def schema(path: str, name: str) -> dict[str, Any]:
        found = {each["name"]: each["schema"] for each in paths[path]["get"]["parameters"]}
        return {key: found[name].get(key) for key in ("default", "minimum", "maximum")}

    assert schema("/v1/words", "limit") == {"default": 2, "minimum": 1, "maximum": 5}
    assert schema("/v1/words", "of") == {"default": None, "minimum": None, "maximum": None}
    assert schema("/v1/things", "limit") == {"default": 3, "minimum": None, "maximum": 5}
    assert schema("/v1/things", "metadata")["default"] is None


def test_of_every_list_the_document_says_how_many_there_may_be() -> None:
    parts = [*served.NAMED, *served.WITH_VALUES, *served.defaulted()]
    document = json.loads(describe(Table([Group(parts, 99)])))
    told = [
        parameter["schema"]
        for path in document["paths"].values()
        for operation in path.values()
        for parameter in operation.get("parameters", ())
        if parameter["name"] == "limit"
    ]
    told += [
        found
        for name in ("UndoChange", "RedoChange", "RestoreSnapshot", "MergeNamespace")
        for found in document["components"]["schemas"][name]["properties"]["limit"]["anyOf"][:1]
    ]
    assert len(told) > 20
    assert [each for each in told if not {"default", "maximum"} <= _flat(each)] == []


def _flat(schema: dict[str, Any]) -> set[str]:
    return {*schema, *(key for part in schema.get("anyOf", ()) for key in part)}


def test_a_span_that_no_calendar_has_is_refused() -> None:
    with pytest.raises(InvalidValue, match="longer than anything lasts"):
        form_of(CreateSchedule).read({"every_seconds": 10**18})


DOORS: list[tuple[type, Any]] = [
    (Files, SdkFiles),
    (Sessions, SdkSessions),
    (SessionsReader, SdkSessionsReader),
    (Schedules, activity.Schedules),
    (GitBackups, activity.GitBackups),
    (TaskRuns, activity.TaskRuns),
    (Traces, activity.Traces),
    (WorkspaceTraces, operators.WorkspaceTraces),
    (Memories, SdkMemories),
    (MemoriesReader, SdkMemoriesReader),
    (Entities, SdkEntities),
    (Keys, operators.Keys),
    (Webhooks, operators.Webhooks),
    (Erasures, operators.Erasures),
    (Store, SdkStore),
    (Namespace, Agent),
]
METHODS = [
    pytest.param(door, client, name, id=f"{door.__name__}.{name}")
    for door, client in DOORS
    for name in operations_of(door)
]


@pytest.mark.parametrize(("door", "client", "name"), METHODS)
def test_both_doors_have_the_signature_of_the_operation(door: type, client: Any, name: str) -> None:
    mine, theirs = getattr(door, name), getattr(client, name)
    (_, *taken), (_, *sent) = (
        inspect.signature(each).parameters.values() for each in (mine, theirs)
    )
    assert taken == sent
    assert inspect.signature(mine).return_annotation == inspect.signature(theirs).return_annotation
    assert [each.name for each in taken] == [*inspect.signature(mine.operation).parameters]
    assert mine.__doc__ == mine.operation.__doc__
    if isinstance(inspect.getattr_static(client, name), method):  # And not several requests.
        assert theirs.__doc__ == mine.__doc__
    assert mine.operation.__doc__


def test_what_a_door_is_given_wrongly_is_refused_before_anything_is_done() -> None:
    nowhere: Any = None
    with pytest.raises(InvalidValue, match="schedule_id is text"):
        Schedules.get(nowhere, 3)  # pyright: ignore[reportArgumentType]


def test_a_stopped_schedule_is_told_without_a_next_time() -> None:
    schedule = Schedule(
        id="sched-1",
        namespace_id=NamespaceId(5),
        cadence=Cadence.EVERY,
        amount=60,
        enabled=False,
        created_at=NOW,
        next_at=NOW,
        seen_at=NOW,
    )
    shape = form_of(GetSchedule).answer
    assert shape.send is not None
    assert shape.send(schedule).next_at is None
