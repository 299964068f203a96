"""What leads from one state to another takes bounded work, however much differs."""

import time
from typing import Any

import msgspec
import pytest

from holdfast.engine.sessions import patching
from holdfast.engine.sessions.patching import make_patch, to_text

MANY = 400_000
NUMBERS = list(range(MANY))


def nested(value: object, depth: int) -> object:
    for _ in range(depth):
        value = [value]
    return value


LARGE: dict[str, tuple[Any, Any, str]] = {
    "numbers": (NUMBERS, [-1, *NUMBERS[:-1]], "/k"),
    "every second": (NUMBERS, [each if each % 2 else -1 for each in NUMBERS], "/k"),
    "keys": (
        {str(each): each for each in NUMBERS[:99_999]},
        {str(each): -each - 1 for each in NUMBERS[:99_999]},
        "/k",
    ),
    "what came": ([], NUMBERS, "/k"),
    "what went": (NUMBERS, [], "/k"),
    "small lists": (
        [[each] * 3 for each in NUMBERS[:60_000]],
        [[each] * 2 for each in NUMBERS[:60_000]],
        "/k",
    ),
    "depth": (nested([1, *NUMBERS], 150), nested([1.0, *NUMBERS], 150), ""),
}


@pytest.mark.parametrize("case", LARGE)
def test_what_differs_too_much_is_replaced_as_a_whole(case: str) -> None:
    old, new = ({"k": value, "same": 1} for value in LARGE[case][:2])
    begun = time.thread_time()
    patched = make_patch(old, new)
    text = to_text(old, patched)
    # Generous: 0.3 s; what leads from one to the other part by part took 4 s, or 20.
    assert time.thread_time() - begun < 2
    assert patched.is_coarse
    assert [each["op"] for each in patched.patch] == ["replace"]
    assert patched.patch[0]["path"].startswith(LARGE[case][2])
    assert text.startswith("Too different")
    assert len(text) < 3 * patching.VALUE_BYTES


def test_a_state_of_other_keys_is_replaced_as_a_whole() -> None:
    old, new = ({f"{name}{each}": each for each in NUMBERS[:60_000]} for name in "ab")
    patched = make_patch(old, new)
    assert patched.patch == [{"op": "replace", "path": "", "value": new}]
    assert patched.is_coarse


def test_what_is_beside_too_much_is_told_part_by_part() -> None:
    old = {"a": {"large": NUMBERS, "small": [1, 2, 3]}, "b": 1}
    new = {"a": {"large": [*NUMBERS[1:], -1], "small": [1, 7, 3]}, "b": 2}
    patched = make_patch(old, new)
    paths = [each["path"] for each in patched.patch]
    assert paths == ["/a/large", "/a/small/1", "/b"]
    assert patched.is_coarse


def test_as_much_as_is_promised_is_told_part_by_part() -> None:
    size = patching.MOST
    old, new = {"k": [0] * size}, {"k": [1] * size}
    patched = make_patch(old, new)
    assert (len(patched.patch), patched.is_coarse) == (size, False)
    assert len(to_text(old, patched).splitlines()) == 2 * size
    assert make_patch({"k": [0] * (size + 1)}, {"k": [1] * (size + 1)}).is_coarse


def test_the_text_shows_the_beginning_of_what_is_long() -> None:
    old = {str(each): "é" * 60_000 for each in range(40)}
    new = {str(each): "ü" * 60_000 for each in range(40)}
    patched = make_patch(old, new)
    text = to_text(old, patched)
    assert len(patched.patch) == 40
    assert len(msgspec.json.encode(text)) < 4 * patching.TEXT_BYTES
    assert "… (120002 bytes)" in text
    assert text.splitlines()[-1] == f"… and {40 - len(text.splitlines()) // 2} more changes"
