"""Dialects: clients of others are heard and told otherwise, where our own routes are."""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Annotated, Any

import msgspec
import pytest

from holdfast.engine.namespace import Namespace
from holdfast.errors import SessionNotFound
from holdfast.model.marks import Header, Named
from holdfast.operations.operation import Operation, Paged, does
from holdfast.server import doors
from holdfast.server.dialects import Answered, Dialect, Exchange, Speech
from holdfast.server.paging import UnknownCursor
from holdfast.server.routing import Route

PAGE = Paged(cursor="starting_after", last="id", usual=2, most=3, unknown=(SessionNotFound,))


@dataclass(frozen=True)
class Coat:
    """Something to wear."""

    id: str
    size: Annotated[int, Named("coat_size")]


class GetCoat(Operation[Coat], get="/v1/coats/{coat_id}", of_moments=True):
    """Returns a coat."""

    coat_id: str
    size: Annotated[int, Named("from")] = 1


class ListCoats(Operation[list[Coat]], get="/v1/coats", under="data", paged=PAGE):
    """Returns coats."""

    limit: int | None = 2
    starting_after: str | None = None


class MakeCoat(Operation[Coat], post="/v1/coats", status=201):
    """Makes a coat."""

    size: int


class Coats:
    """All of them."""

    @does(GetCoat)
    def get(self, wanted: GetCoat) -> Coat:
        return Coat(wanted.coat_id, wanted.size)

    @does(ListCoats)
    def list(self, wanted: ListCoats) -> list[Coat]:
        if wanted.starting_after == "none":
            raise SessionNotFound("none")
        return [Coat(str(number), number) for number in range(wanted.limit or 0)]

    @does(MakeCoat)
    def make(self, wanted: MakeCoat) -> Coat:
        return Coat("new", wanted.size)


class OldCoats:
    """As they were."""

    @does(GetCoat)
    def get(self, wanted: GetCoat) -> Coat:
        return Coat(f"old {wanted.coat_id}", wanted.size)


class Wardrobe(Namespace):
    """Where coats are, now and before."""

    name = "wardrobe"
    coats = Coats()

    def __init__(self) -> None:
        pass

    def at(self, _: str) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        return SimpleNamespace(coats=OldCoats())


def hear(exchange: Exchange) -> None:
    said = exchange.said
    said.setdefault("size", len(said.get("name") or ""))
    if said.get("why"):
        said["size"] += 1000


THEIRS = Dialect(
    {
        Coat: {
            "object": Answered(str, lambda _: "coat"),
            "half": Answered(int, lambda s: s.coat_size // 2),
        }
    },
    {
        MakeCoat: [
            Speech(
                takes={"name": str, "why": Annotated[str, Header("X-Why")]},
                optional=frozenset({"size"}),
                hears=hear,
                shows=lambda exchange: Coat("shown", exchange.made.size),
                tells={"asked": Answered(int, lambda exchange: exchange.asked.size)},
            ),
            Speech(method="GET", paths=["/v1/coat", "/coat"], name="make_by_get"),
        ],
    },
)


def routes(**more: Any) -> dict[str, Route]:
    found = doors.routes_of(Coats, lambda wardrobe: wardrobe.coats, **more)
    return {route.function.__name__: route for route in found}


def call(route: Route, **given: Any) -> Any:
    if "data" in given:
        given["data"] = msgspec.convert(given["data"], route.parameters.data)
    given |= {"at": given.get("at")} if "coat_id" in given else {}
    answer = route.function(whose=Wardrobe(), request=None, **given)
    return msgspec.to_builtins(answer)


def test_what_is_told_beside_stands_wherever_the_value_does() -> None:
    theirs = routes(dialect=THEIRS)
    one = {"id": "c", "coat_size": 8, "object": "coat", "half": 4}
    assert call(theirs["get_coat"], coat_id="c", size=8) == one
    listed = call(theirs["list_coats"], limit=1)
    assert listed["data"] == [{"id": "0", "coat_size": 0, "object": "coat", "half": 0}]
    assert call(routes()["get_coat"], coat_id="c", size=8) == {"id": "c", "coat_size": 8}


def test_what_is_said_otherwise_is_heard() -> None:
    make = routes(dialect=THEIRS)["make_coat"]
    assert call(make, data={"name": "four"}) == {
        "id": "shown",
        "coat_size": 4,
        "object": "coat",
        "half": 2,
        "asked": 4,
    }
    assert call(make, data={"size": 1}, why="cold")["asked"] == 1001
    assert [each.wire for each in make.parameters.own] == ["X-Why"]
    with pytest.raises(msgspec.ValidationError):
        call(routes()["make_coat"], data={"name": "four"})


def test_an_operation_is_served_by_another_verb_at_other_paths() -> None:
    found = routes(dialect=THEIRS)["make_by_get"]
    assert (found.method, found.paths) == ("GET", ["/v1/coat", "/coat"])
    assert call(found, size=3)["coat_size"] == 3
    assert found.parameters.data is None


def test_a_snapshot_is_asked_by_the_door_that_shows_it() -> None:
    get = routes()["get_coat"]
    assert call(get, coat_id="c", at="snap-1") == {"id": "old c", "coat_size": 1}
    assert call(get, coat_id="c") == {"id": "c", "coat_size": 1}
    assert [each.wire for each in get.parameters.own] == ["coat_id", "from", "at"]


def test_a_list_says_whether_there_is_more_and_refuses_a_cursor_that_is_none() -> None:
    listing = routes()["list_coats"]
    assert call(listing, limit=1)["has_more"]
    assert len(call(listing, limit=9)["data"]) == PAGE.most
    with pytest.raises(UnknownCursor):
        call(listing, starting_after="none")
    assert call(listing, limit=1, starting_after="") == call(listing, limit=1)
