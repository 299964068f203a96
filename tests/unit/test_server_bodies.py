"""JSON on its way in and out: counted before it is made, and never made for long at a time."""

import asyncio
import json
import sys
import tracemalloc
from itertools import pairwise
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.engine.core import decoding
from holdfast.errors import TooLarge
from holdfast.server import bodies, calling, counting
from holdfast.server.compat.trove.texts import UNQUOTED_BYTES, Unquoted
from holdfast.server.problems import BodyTooLarge, Unfit
from holdfast.server.requests import Request

MIB = 1 << 20

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=40,
)


def nodes(value: object) -> int:
    """Returns how many values and keys there are."""
    if isinstance(value, dict):
        return 1 + len(value) + sum(map(nodes, value.values()))
    return 1 + sum(map(nodes, value)) if isinstance(value, list) else 1


def boxes(value: object) -> list[object]:
    """Returns all lists and objects."""
    inside = list(value.values()) if isinstance(value, dict) else value
    if not isinstance(inside, list):
        return []
    return [value, *(box for part in inside for box in boxes(part))]


def depth(value: object) -> int:
    inside = list(value.values()) if isinstance(value, dict) else value
    return 1 + max(map(depth, inside), default=0) if isinstance(inside, list) else 0


@given(
    value=VALUES,
    ascii_only=st.booleans(),
    indent=st.sampled_from([None, 0, 2]),
    cuts=st.lists(st.integers(min_value=0), max_size=8),
)
def test_what_is_counted_is_never_less_than_what_there_is(
    value: object, ascii_only: bool, indent: int | None, cuts: list[int]
) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent).encode()
    ends = sorted({*(cut % (len(text) + 1) for cut in cuts), 0, len(text)})
    counter = counting.Counter()
    for start, end in pairwise(ends):
        counter.add(text[start:end])
    counter.end()
    found = boxes(value)
    assert counter.inside == len(found)
    assert counter.values == nodes(value) + sum(not box for box in found)
    assert counter.depth == 0
    assert counter.deepest == depth(value)


@pytest.mark.parametrize(
    "text", [b'{"a": "[[[[,,,,::::{{{{"}', b'["\\\\", "\\",,,,", "\\\\\\",,,"]']
)
def test_what_stands_in_a_string_is_not_counted(text: bytes) -> None:
    counter = counting.Counter()
    counter.add(text)
    assert counter.values == nodes(json.loads(text))


MANY = counting.MOST_VALUES

SHAPES = {
    "floats": (b"[" + b"1.5," * MANY + b"1]", TooLarge),
    "empty texts": (b"[" + b'"",' * MANY + b"1]", TooLarge),
    "keys": (b"{" + b",".join(b'"%d":1' % n for n in range(MANY // 2)) + b"}", TooLarge),
    "the same key": (b"{" + b",".join([b'"a":1'] * (MANY // 2)) + b"}", TooLarge),
    "spaces between": (b"[" + b"1 ,\n" * MANY + b"1]", TooLarge),
    "numbers without end": (b"[" + (b"7" * 399 + b",") * (13 * MIB // 400) + b"1]", TooLarge),
    "lists": (b"[" + b"[]," * counting.MOST_INSIDE + b"1]", Unfit),
    "objects": (b"[" + b"{}," * counting.MOST_INSIDE + b"1]", Unfit),
    "depth": (b"[" * 201 + b"]" * 201, Unfit),
    "depth of objects": (b'{"a":' * 201 + b"1" + b"}" * 201, Unfit),
    "a long number": (b"[" + b"7" * 401 + b"]", Unfit),
    "a long fraction": (b"[0." + b"7" * 401 + b"]", Unfit),
    "no UTF-8": (b'["' + b"a" * MIB + b'\xff"]', Unfit),
    "no UTF-8 at the end": (b'["' + b"a" * MIB + b'"]\xc3', Unfit),
}


class Taken(msgspec.Struct):
    """What a route takes."""

    state: dict[str, Any] | None = None
    number: int = 0


def decoded(text: bytes, kind: type[Any]) -> Any:
    coming = bodies.Coming()
    coming.add(text)
    return bodies.decode(coming.whole(), bodies.decoder_of(kind))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("place", [b'{"state":{"a":%b}}', b'{"unknown":%b}'])
def test_a_body_of_a_hostile_shape_is_refused_before_anything_is_made_of_it(
    shape: str, place: bytes
) -> None:
    text, error = SHAPES[shape]
    body = place % text
    tracemalloc.start()
    try:
        with pytest.raises(error) as refused:
            decoded(body, Taken)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8 * MIB
    assert any(character.isdigit() for character in str(refused.value)) or error is Unfit


def test_a_field_that_nobody_knows_is_passed_over_and_not_made() -> None:
    body = b'{"unknown":[' + b'"abcdefgh",' * (MANY * 9 // 10) + b'1],"number":7}'
    tracemalloc.start()
    try:
        assert decoded(body, Taken) == Taken(number=7)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # As objects these texts take 30 MB.
    assert peak < 8 * MIB


class Exact(Taken, forbid_unknown_fields=True):
    """What is read to the letter."""


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b'{"number": 7, "unknown": 1}', "unknown field `unknown`"),
        (b'{"number": "7"}', "number: Expected `int`, got `str`"),
    ],
)
def test_what_refuses_names_that_it_does_not_know_is_read_to_the_letter(
    body: bytes, sentence: str
) -> None:
    assert decoded(body, Taken) == Taken(number=7)
    for kind in (Exact, Exact | None):
        with pytest.raises(Unfit, match=sentence):
            decoded(body, kind)


@pytest.mark.parametrize(
    "value",
    [
        [1.5] * (MANY - 19),
        {str(number): None for number in range(MANY // 3 - 9 - MANY // 300)},
        [[]] * (counting.MOST_INSIDE - 9),
        ["1,2;3:4[{" * 99_999],
        10**399,
        -1.7976931348623157e308,
    ],
)
def test_as_much_as_is_promised_is_taken(value: object) -> None:
    body = msgspec.json.encode({"state": {"a": value}})
    assert decoded(body, Taken).state == {"a": value}


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b'{"number": "x"}', "number: Expected `int`, got `str`"),
        (b'{"state": {"a": ]}', "the body cannot be read: JSON is malformed: invalid character"),
        (b'{"state": {"a": "\xff"}}', "the body is not UTF-8"),
        (b'{"state": {"a": "\\ud800"}}', "the body cannot be read: a text in it holds half"),
        (b'{"state": {"a": "\\ud83d", "b": "c"}}', "cannot be read: a text in it holds half"),
        (b'{"state": {"a": "\\udc00"}}', "the body cannot be read: a text in it holds half"),
        (b'{"state": {"a": "\\ud83d\\ude00"}', "the body cannot be read: Input data was truncated"),
        (b"[]", "Expected `object`, got `array`"),
    ],
)
def test_what_does_not_fit_is_named(body: bytes, sentence: str) -> None:
    with pytest.raises(Unfit, match=sentence.replace("(", r"\(")):
        decoded(body, Taken)


def unquoted(quoted: bytes, *, max_bytes: int = 1 << 30, read: int = 4093) -> bytes:
    file, parts = Unquoted(msgspec.Raw(quoted), max_bytes=max_bytes), list[bytes]()
    while part := file.read(read):
        parts.append(part)
    assert file.tell() == sum(map(len, parts))
    file.seek(0)
    assert file.readall() == b"".join(parts)
    return b"".join(parts)


@given(text=st.text(), ascii_only=st.booleans())
def test_a_quoted_text_is_unquoted_as_json_says(text: str, ascii_only: bool) -> None:
    assert unquoted(json.dumps(text, ensure_ascii=ascii_only).encode()) == text.encode()


@pytest.mark.parametrize("escape", ["\\\\", '\\"', "\\n", "\\u20ac", "\\ud83d\\ude00", "€", "😀"])
def test_a_piece_never_ends_within_a_character(escape: str) -> None:
    for before in range(13):
        quoted = f'"{"a" * (UNQUOTED_BYTES - before)}{escape}{escape}z"'.encode()
        assert unquoted(quoted, read=MIB) == json.loads(quoted).encode()
    quoted = ('"' + escape * (UNQUOTED_BYTES // 2) + '"').encode()
    assert unquoted(quoted, read=MIB) == json.loads(quoted).encode()


@pytest.mark.parametrize(
    "quoted",
    [
        b'"\\ud83d"',
        b'"\\ude00"',
        b'"\\ude00\\ud83d"',
        b'"\\ud83dx"',
        b'"\xff"',
        b"12",
        b"[]",
        b'"\\u12"',
    ],
)
def test_what_is_no_text_is_refused(quoted: bytes) -> None:
    with pytest.raises(Unfit):
        unquoted(quoted)


def test_a_quoted_text_is_as_long_as_its_bytes() -> None:
    assert unquoted(b'"\\u20ac"', max_bytes=3) == b"\xe2\x82\xac"
    with pytest.raises(TooLarge, match="2 bytes"):
        unquoted(b'"\\u20ac"', max_bytes=2)


class Answer(msgspec.Struct, kw_only=True):
    """An answer that shows a value twice."""

    session_id: str
    state: dict[str, Any]
    data: dict[str, Any]


LARGE = {
    "floats": {"a": [1.5] * 300_000},
    "long texts": {"a": "\x01€" * (2 * MIB), "b": "x", "c": ["y" * 3 * MIB] * 2},
    "many keys": {f"key {number}": number for number in range(70_000)},
    "long keys": {"k" * 2 * MIB: 1, "": {}, "l" * MIB: []},
    "many small": {"a": [{"b": [None, True]}] * 30_000},
    "depth": {"a": json.loads("[" * 190 + "1," * 100_000 + '"\\n"' + "]" * 190)},
    "long numbers": {"a": [10**399] * 9_000},
    "nothing": {},
}


@pytest.mark.parametrize("shape", LARGE)
def test_an_answer_in_parts_is_the_answer(shape: str) -> None:
    answer = Answer(session_id="s", state=LARGE[shape], data=LARGE[shape])
    whole = msgspec.json.encode(answer)
    assert calling.encode(answer) == whole
    assert calling.encode([answer]) == b"[" + whole + b"]"
    # A character is six at the most.
    assert max(map(len, calling.parts_of(answer))) <= 6 * calling.LIGHT


@given(value=VALUES)
def test_any_answer_in_parts_is_the_answer(value: object) -> None:
    # So large that its parts are not together.
    answer = [value, "x" * calling.LIGHT, value]
    assert calling.encode(answer) == msgspec.json.encode(answer)


@pytest.mark.parametrize(
    "number",
    [
        b"1." + b"1" * 388 + b"e-300",
        b"1.2345678901234567e-300",
        b"2.5E-324",
        b"9e0000289",
        b"1." + b"1" * 19 + b"e99",
        b"0." + b"0" * 300 + b"12345678901234567",
    ],
)
def test_a_number_that_is_slow_to_convert_counts_for_a_hundred_values(number: bytes) -> None:
    counter = counting.Counter()
    counter.add(b"[" + b",".join([number] * 100) + b"]")
    assert counter.weight >= 100 * decoding.HARDER
    with pytest.raises(TooLarge):
        counter.add_all(b"," + b",".join([number] * 5_000))


@pytest.mark.parametrize(
    "number",
    [
        b"578317797100.00000",
        b"-81533691256500.000",
        b"26932812663400.000e-2",
        b"9765625.0009765625",
        b"0.98760223388671875",
        b"90071992547409.93",
        b"9007199254740995e-1",
        b"99999999999.00000",
    ],
)
def test_a_number_that_is_a_float_to_the_last_of_many_digits_counts_for_four(number: bytes) -> None:
    counter = counting.Counter()
    counter.add(b"[1" + b"," + b",".join([number] * 100) + b",1]")
    assert counter.weight - counter.values >= 100 * decoding.HARD


@pytest.mark.parametrize("number", [0.1234567890123456, -1.2345678901234567e-05, 1e-200, 7, 2**53])
def test_a_number_as_encoders_write_it_counts_once(number: float) -> None:
    counter = counting.Counter()
    counter.add(json.dumps([number] * 100).encode())
    # The list counts twice.
    assert counter.weight == 102


@pytest.mark.parametrize(
    ("text", "weight"),
    [
        (b'["' + b"a" * 2_560 + b'"]', 3 + 10),
        (b'["' + b"\\n" * 80 + b'"]', 3 + 10),
        (b'["' + "é".encode() * 160 + b'"]', 3 + 1 + 10),
        (b'{"a":1,"b":2}', 2 + 2 * 3),
        (b"[[],[]]", 5 + 3),
    ],
)
def test_what_takes_longer_than_a_number_counts_for_more(text: bytes, weight: int) -> None:
    assert decoding.weigh(text) == weight


def test_a_file_of_any_characters_fits_into_a_body() -> None:
    counter = counting.Counter()
    counter.add_all(b'{"path":"a","content":"' + b"\\n" * (30 * MIB) + b'"}')
    assert decoding.MOST_TEXT < counter.weight < counting.MOST_VALUES


PARTS = st.sampled_from(
    [
        b"[",
        b"]",
        b"{",
        b"}",
        b'"',
        b"\\",
        b",",
        b":",
        b" ",
        b"1e300",
        b"0" * 150,
        b"\xc3\xa4",
        b"\xc3",
    ]
)


def outcome(judge: Any, text: bytes) -> str:
    try:
        judge(text)
    except (TooLarge, Unfit) as exc:
        return repr(exc)
    return "taken"


def counted(text: bytes) -> None:
    counter = counting.Counter()
    counter.add_all(text)
    counter.end()


@given(text=st.lists(PARTS | st.sampled_from([b"[" * 150, b"x" * 300]), max_size=12).map(b"".join))
def test_a_short_text_is_judged_as_a_long_one_is(text: bytes) -> None:
    assert outcome(counting.count_short, text) == outcome(counted, text)


@given(value=VALUES)
def test_how_long_an_indented_text_is_at_the_most_is_known_before_it_is_made(value: object) -> None:
    text = msgspec.json.encode(value)
    assert len(msgspec.json.format(text, indent=2)) <= decoding.indented_bytes(text, indent=2)


# As it comes.


def request_of(*pieces: bytes, length: int | None = None) -> Request:
    """Returns a request with a body in pieces."""
    coming = [
        {"type": "http.request", "body": piece, "more_body": at < len(pieces)}
        for at, piece in enumerate(pieces, 1)
    ]

    async def receive() -> Any:
        return coming.pop(0) if coming else {"type": "http.disconnect"}

    headers = [] if length is None else [(b"content-length", b"%d" % length)]
    scope = {"method": "POST", "path": "/", "headers": headers, "query_string": b""}
    return Request(scope, receive, cast("Any", None), "req_1")


def test_a_body_is_read_as_it_comes_and_no_generator_is_made_for_it() -> None:
    made = list[object]()

    async def read() -> bytes:
        sys.set_asyncgen_hooks(firstiter=made.append)
        return await bodies.read_bytes(request_of(b"a", b"", b"bc"), most=3)

    assert asyncio.run(read()) == b"abc"
    assert not made


@pytest.mark.parametrize("request_", [request_of(b"ab", b"cd"), request_of(b"abcd", length=4)])
def test_a_body_that_is_longer_than_it_may_be_is_refused(request_: Request) -> None:
    with pytest.raises(BodyTooLarge):
        asyncio.run(bodies.read_bytes(request_, most=3))


def test_a_body_whose_sender_goes_away_is_refused() -> None:
    request = request_of()
    with pytest.raises(Unfit):
        asyncio.run(bodies.read_bytes(request, most=3))
