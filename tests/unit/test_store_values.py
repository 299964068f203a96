"""What a value becomes in the store and on its way back, and how what cannot be stored is named."""

import array
import collections
import enum
import fractions
import pathlib
import re
import sys
import types
from dataclasses import dataclass, field, make_dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import store as compiled
from holdfast.errors import InvalidValue, Unencodable
from holdfast.store import dumps, loads
from holdfast.testing.cores import load_interpreted_store

WAYS = {"chosen": compiled.Store, "interpreted": load_interpreted_store().Store}


@pytest.fixture(params=WAYS)
def store(request: pytest.FixtureRequest) -> Any:
    return WAYS[request.param]()


class Color(enum.Enum):
    RED = "red"
    PAIR = (1, 2)
    NOTHING = None


class Number(enum.IntEnum):
    ONE = 1


class Mode(enum.Flag):
    READ = 1
    WRITE = 2


class Word(enum.StrEnum):
    YES = "yes"


class Point(NamedTuple):
    x: int
    y: int


@dataclass
class Person:
    name: str
    tags: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Slotted:
    a: int
    inner: Any = None


class Struct(msgspec.Struct):
    a: int
    inner: Any = None


class Frozen(msgspec.Struct, frozen=True):
    a: int


class Listed(msgspec.Struct, frozen=True, array_like=True):
    a: int
    b: int


class Renamed(msgspec.Struct, rename="camel", omit_defaults=True, tag="kind"):
    some_name: int = 1
    other_name: int = 2


class Text(str):
    __slots__ = ()

    def __str__(self) -> str:
        return "a lie"


class Whole(int):
    def __int__(self) -> int:
        return 9


class Real(float):
    def __float__(self) -> float:
        return 9.0


class Raw(bytes):
    def __bytes__(self) -> bytes:
        return b"a lie"


NOON = datetime(2026, 11, 15, 12, 0, 0, 123456, tzinfo=UTC)
ELSEWHERE = timezone(timedelta(hours=5, minutes=30))
ID = UUID("12345678-1234-5678-1234-567812345678")

SAME: list[Any] = [
    *(None, True, False),
    *(0, 1, -1, 127, 128, -32, -33, 2**31, 2**63, 2**64 - 1, -(2**63)),
    *(0.0, -0.0, 1.5, 1e308, 5e-324, float("inf"), float("-inf")),
    *("", "text", "é", "\0", "\U0001f600", "x" * 100_000),
    *(b"", b"\0\xff", b"x" * 100_000),
    *([], [1, [2, [3]]], [None] * 70_000),
    *({}, {"a": {"b": [{}]}}, {str(number): number for number in range(70_000)}),
    *({1: "a", -1: "b"}, {None: 1}, {True: 1}, {1.5: 1}, {b"k": 1}, {(1, (2, "a")): 3}, {(): 1}),
    NOON,
    {NOON: NOON},
    datetime(1, 1, 1, tzinfo=UTC),
    datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
    datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
]
BECOME: list[tuple[Any, Any]] = [
    ((1, (2,)), [1, [2]]),
    (Point(1, 2), [1, 2]),
    ({3}, [3]),
    (frozenset("a"), ["a"]),
    (bytearray(b"\0"), b"\0"),
    (memoryview(b"abc"), b"abc"),
    (memoryview(b"abc")[1:], b"bc"),
    (datetime(2026, 11, 15, 17, 30, tzinfo=ELSEWHERE), datetime(2026, 11, 15, 12, tzinfo=UTC)),
    (datetime(2026, 11, 15, 12, 0, 0, 5), "2026-11-15T12:00:00.000005"),  # noqa: DTZ001 - naive
    (date(2026, 11, 15), "2026-11-15"),
    (time(12, 30), "12:30:00"),
    (time(12, 30, tzinfo=UTC), "12:30:00Z"),
    (timedelta(days=1, seconds=2), "P1DT2S"),
    (timedelta(0), "P0D"),
    (ID, "12345678-1234-5678-1234-567812345678"),
    (Decimal("1.10"), "1.10"),
    (Color.RED, "red"),
    (Color.PAIR, [1, 2]),
    (Color.NOTHING, None),
    (Number.ONE, 1),
    (Word.YES, "yes"),
    (Mode.READ | Mode.WRITE, 3),
    (Person("Ada", ["x"]), {"name": "Ada", "tags": ["x"]}),
    (Slotted(1, {2}), {"a": 1, "inner": [2]}),
    (Struct(1, Slotted(2)), {"a": 1, "inner": {"a": 2, "inner": None}}),
    (Listed(1, 2), [1, 2]),
    (Renamed(some_name=3), {"type": "kind", "someName": 3}),
    (collections.OrderedDict(a=1), {"a": 1}),
    (collections.defaultdict(list, a=[1]), {"a": [1]}),
    (collections.Counter("aab"), {"a": 2, "b": 1}),
    (Text("t"), "t"),
    (Whole(3), 3),
    (Real(2.5), 2.5),
    (Raw(b"r"), b"r"),
    ([Text("t"), {"k": Whole(3)}], ["t", {"k": 3}]),
    ({Text("t"): 1}, {"t": 1}),
    ({Whole(3): 1, Raw(b"r"): 2}, {3: 1, b"r": 2}),
    ({ID: 1, Color.RED: 2}, {str(ID): 1, "red": 2}),
    ({Listed(1, 2): 3}, {(1, 2): 3}),
    ({Point(1, 2): 3}, {(1, 2): 3}),
    ({frozenset("a"): 3}, {("a",): 3}),
    ({date(2026, 11, 15): 1}, {"2026-11-15": 1}),
]


def shown(value: Any) -> str:
    """Returns a test's name for a value: without addresses, which differ from run to run."""
    return re.sub(r" at 0x\w+", "", ascii(value))[:40]


def exact(value: Any) -> Any:
    """Returns a value with the class of each part: 1, 1.0 and True are not the same."""
    match value:
        case dict():
            parts = [(exact(key), exact(part)) for key, part in value.items()]
        case list() | tuple():
            parts = [exact(part) for part in value]
        case _:
            parts = repr(value)
    return type(value).__name__, parts


@pytest.mark.parametrize("value", SAME, ids=shown)
def test_what_msgpack_carries_comes_back_as_it_was(store: Any, value: Any) -> None:
    store.set("n", "k", value)
    for found in (store.get("n", "k"), *store.get_many([("n", "k")]), store.items("n")[0][1]):
        assert exact(found) == exact(value)
    assert store.snapshot().get_data("n", "k") == dumps(value)
    assert exact(loads(dumps(value))) == exact(value)


@pytest.mark.parametrize(("value", "back"), BECOME, ids=shown)
def test_other_values_come_back_as_the_table_says(store: Any, value: Any, back: Any) -> None:
    store.set("n", "k", value)
    store.set_many([("n", "l", [value])])
    assert exact(store.get("n", "k")) == exact(back)
    assert exact(store.get("n", "l")) == exact([back])
    assert exact(loads(dumps(value))) == exact(back)
    # What came back is what is there: it stays the same from now on.
    assert dumps(store.get("n", "k")) == dumps(back)


def test_what_somebody_else_has_encoded_is_taken_at_its_word(store: Any) -> None:
    store.set("n", "k", {"a": msgspec.Raw(b"\x92\x01\xa1b")})
    assert store.get("n", "k") == {"a": [1, "b"]}
    # The first and the last character of each length, and those around half characters.
    text = "\0\x7f\x80\u07ff\u0800\ud7ff\ue000\uffff\U00010000\U0010ffff" * 3
    store.set("n", "k", msgspec.Raw(msgspec.msgpack.encode([text, text[:-1]])))
    assert store.get("n", "k") == [text, text[:-1]]


def test_nan_is_a_number_too(store: Any) -> None:
    store.set("n", "k", float("nan"))
    assert store.get("n", "k") != store.get("n", "k")


def test_a_moment_is_kept_to_the_microsecond_in_any_zone(store: Any) -> None:
    class Odd(tzinfo):
        def utcoffset(self, _: datetime | None) -> timedelta:
            return timedelta(hours=-3, seconds=7, microseconds=1)

    moment = datetime(2026, 11, 15, 12, 0, 0, 999999, tzinfo=Odd())
    store.set("n", "k", moment)
    assert store.get("n", "k") == moment
    assert store.get("n", "k").tzinfo is UTC


plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
    | st.binary()
    | st.datetimes(timezones=st.just(UTC)).map(lambda moment: moment.replace(fold=0)),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(
            st.recursive(
                st.none() | st.integers(-(2**63), 2**64 - 1) | st.binary() | st.text("abé"),
                lambda key: st.lists(key, max_size=3).map(tuple),
                max_leaves=4,
            ),
            inner,
        )
    ),
    max_leaves=20,
)


@given(plain)
def test_any_plain_value_comes_back_as_it_was(value: Any) -> None:
    data = dumps(value)
    assert exact(loads(data)) == exact(value)
    for make in WAYS.values():
        store = make()
        store.set("n", "k", value)
        assert exact(store.get("n", "k")) == exact(value)
        assert store.snapshot().get_data("n", "k") == data, "the same bytes by every way"
        assert store.snapshot().size_bytes == len(data)


@given(st.binary(max_size=40))
def test_any_bytes_are_a_value_or_a_value_error(data: bytes) -> None:
    try:
        value = loads(data)
    except ValueError:
        return
    # Written again, perhaps shorter: msgpack has long and short forms.
    assert len(dumps(value)) <= len(data) + 8


# What cannot be stored


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


CYCLE: list[Any] = []
CYCLE.append({"again": CYCLE})
OBJECT = object()
REFUSED: list[tuple[Any, str]] = [
    (OBJECT, ""),
    ([OBJECT], "[0]"),
    ((1, OBJECT), "[1]"),
    ({"a": OBJECT}, "['a']"),
    ({"a": [1, {"b": OBJECT}]}, "['a'][1]['b']"),
    ({1: {None: {b"k": OBJECT}}}, "[1][None][b'k']"),
    ({(1, 2): OBJECT}, "[(1, 2)]"),
    ([[0], [[0], {"x": 2**64}]], "[1][1]['x']"),
    ({"a": [Person("Ada", OBJECT)]}, "['a'][0].tags"),  # type: ignore[arg-type]
    (Slotted(1, Slotted(2, [OBJECT])), ".inner.inner[0]"),
    (Struct(1, {"a": Struct(OBJECT)}), ".inner['a'].a"),  # type: ignore[arg-type]
    ({"a": Listed(1, OBJECT)}, "['a'].b"),  # type: ignore[arg-type]
    ({"a": {OBJECT}}, "['a'][0]"),
    ([frozenset([1j])], "[0][0]"),
    ({"it's": OBJECT}, '["it\'s"]'),
    ({"a": 1, "b": 2**64}, "['b']"),
    ([-(2**63) - 1], "[0]"),
    (["fine", "half \ud800"], "[1]"),
    ({"a": Text("\udfff")}, "['a']"),
    ({"a": Whole(2**64)}, "['a']"),
    # In a key, the dict is named.
    ({"a": [{OBJECT: 1}]}, "['a'][0]"),
    ({"a": {"\ud800": 1}}, "['a']"),
    ({"a": {2**64: 1}}, "['a']"),
    ({"a": {Slotted(1): 2}}, "['a']"),  # Written as a map, which is no key.
    ({"a": {Frozen(1): 2}}, "['a']"),
    ({"a": {(1, Slotted(1)): 2}}, "['a']"),
    ({"a": {frozenset([Frozen(1)]): 2}}, "['a']"),
    # Bytes that somebody else has encoded.
    ([msgspec.Raw(b"\xc1")], "[0]"),
    ([msgspec.Raw(b"")], "[0]"),
    ([msgspec.Raw(b"\x01\x02")], "[0]"),
    ([msgspec.Raw(b"\x81\x80\x01")], "[0]"),
    ([msgspec.Raw(b"\xa1\xff")], "[0]"),  # Text that is not UTF-8: beside ASCII, as a key, long.
    ([msgspec.Raw(b"\xaalong text\x80")], "[0]"),
    ([msgspec.Raw(b"\x81\xa1\x80\x01")], "[0]"),
    ([msgspec.Raw(b"\xd9\x28" + b"x" * 39 + b"\xc3")], "[0]"),
    ([msgspec.Raw(b"\xda\x00\x02\xc3\x28")], "[0]"),
    ([msgspec.Raw(b"\xdb\x00\x00\x00\x03\xed\xa0\x80")], "[0]"),  # Half a character.
    ([msgspec.Raw(b"\xa2\xc0\x80")], "[0]"),  # More bytes than it takes.
    ([msgspec.Raw(b"\xa3\xe0\x9f\xbf")], "[0]"),
    ([msgspec.Raw(b"\xa4\xf0\x8f\xbf\xbf")], "[0]"),
    ([msgspec.Raw(b"\xa4\xf4\x90\x80\x80")], "[0]"),  # Beyond the last character.
    ([msgspec.Raw(b"\xa4\xf1\x80\x80\x28")], "[0]"),
    ([msgspec.msgpack.Ext(5, b"x")], "[0]"),
    ([datetime(1, 1, 1, tzinfo=ELSEWHERE)], "[0]"),  # Before the first year in UTC.
    ([memoryview(b"abcdef")[::2]], "[0]"),
    ([enum.Enum("Odd", {"A": OBJECT})["A"]], "[0]"),
]
KINDS: list[Any] = [
    *(1j, ..., int, len, range(3), {}.keys(), iter([]), Exception("x"), sys),
    *(array.array("i", [1]), fractions.Fraction(1, 2), collections.deque([1])),
    *(pathlib.PurePath("/"), types.SimpleNamespace(a=1), types.MappingProxyType({})),
    *(msgspec.UNSET, collections.UserDict(a=1), lambda: None, NotImplemented, Person, Struct),
]


def check_refused(store: Any, value: Any) -> str:
    """Returns what every way to store a value says of one that cannot be stored."""
    store.set("n", "k", "before")
    said = set[str]()
    for attempt in (
        lambda: store.set("n", "k", value),
        lambda: store.set_many([("n", "l", 1), ("n", "k", value)]),
        lambda: dumps(value),
    ):
        with pytest.raises(Unencodable) as caught:
            attempt()
        assert isinstance(caught.value, TypeError)
        assert isinstance(caught.value, InvalidValue)
        said.add(str(caught.value))
    assert store.items() == [(("n", "k"), "before")]
    (message,) = said
    return message


@pytest.mark.parametrize(("value", "place"), REFUSED, ids=shown)
def test_what_cannot_be_stored_is_named_by_its_place(store: Any, value: Any, place: str) -> None:
    where = f"the value at {place} cannot" if place else "the value cannot"
    assert check_refused(store, value).startswith(where)


@pytest.mark.parametrize("value", KINDS, ids=lambda value: type(value).__name__)
def test_what_is_not_data_is_refused_by_its_class(store: Any, value: Any) -> None:
    assert type(value).__name__.split(".")[-1] in check_refused(store, value)


def test_what_contains_itself_is_refused(store: Any) -> None:
    assert "contains itself" in check_refused(store, CYCLE)
    assert "contains itself" in check_refused(store, {"a": [CYCLE]})
    both = {"a": CYCLE, "b": OBJECT}
    assert "['b']" in check_refused(store, both) or "itself" in check_refused(store, both)


def test_there_is_a_greatest_depth_that_does_not_depend_on_who_asks(store: Any) -> None:
    deepest = max(levels for levels in range(1, 400) if is_stored(store, nested(levels)))
    assert deepest >= 128, "as many as the peer has"
    assert not is_stored(store, nested(deepest + 1))
    store.clear()
    assert "deep" in check_refused(store, nested(deepest + 1))
    assert "deep" in check_refused(store, nested(5_000))
    assert "deep" in check_refused(store, nested(100_000))
    store.clear()
    store.set("n", "k", nested(deepest))
    # From close to the end of the stack as well: to store it and to read it.
    room = sys.getrecursionlimit() - deepest - 60

    def go_down(levels: int) -> Any:
        if levels:
            return go_down(levels - 1)
        store.set("n", "l", nested(deepest))
        return store.get("n", "k")

    depth = len_of_stack()
    assert go_down(max(0, room - depth)) == nested(deepest) == store.get("n", "l")
    many: Any = [[nested(deepest - 2)] * 300]  # Many brackets, no more levels.
    assert is_stored(store, many)
    dicts: Any = {}
    for _ in range(deepest - 1):
        dicts = {"a": dicts}
    assert is_stored(store, dicts)
    assert not is_stored(store, {"a": {"a": dicts}})


def len_of_stack() -> int:
    frame, levels = sys._getframe(), 0
    while frame is not None:
        frame, levels = frame.f_back, levels + 1
    return levels


def is_stored(store: Any, value: Any) -> bool:
    try:
        store.set("n", "try", value)
    except Unencodable:
        return False
    assert store.get("n", "try") == value
    return True


def test_a_field_that_was_never_set_is_left_out(store: Any) -> None:
    person = Person("Ada")
    del person.tags
    store.set("n", "k", person)
    assert store.get("n", "k") == {"name": "Ada"}


def test_a_dataclass_of_many_fields_names_the_right_one(store: Any) -> None:
    many = make_dataclass("Many", [f"field_{number}" for number in range(50)])
    values = [*range(49), OBJECT]
    assert check_refused(store, many(*values)).startswith("the value at .field_49 cannot")


def test_a_long_key_is_shortened_where_it_is_named(store: Any) -> None:
    message = check_refused(store, {"k" * 100_000: OBJECT})
    assert len(message) < 500
    assert "kkk…" in message


def test_an_error_of_the_values_own_code_is_not_hidden(store: Any) -> None:
    class Broken(tzinfo):
        def utcoffset(self, _: datetime | None) -> timedelta:
            raise KeyError("mine")

    store.set("n", "k", 1)
    for attempt in (store.set, lambda *row: store.set_many([row])):
        with pytest.raises(KeyError, match="mine"):
            attempt("n", "k", datetime(2026, 1, 1, tzinfo=Broken()))
    assert store.get("n", "k") == 1
