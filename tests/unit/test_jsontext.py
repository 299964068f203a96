"""JSON text of objects, and text that has bytes."""

import pytest

from holdfast.engine.core.coverage import check_omission
from holdfast.errors import TooLarge, Unencodable
from holdfast.jsontext import is_whole, object_text


@pytest.mark.parametrize("text", ["", "plain", "ü\U0001f600", "\ud7ff\ue000"])
def test_text_with_bytes_is_whole(text: str) -> None:
    assert is_whole(text)
    assert text.encode().decode() == text


@pytest.mark.parametrize("text", ["\ud800", "a\udfff", "\udc80 behind", "ü\udcff"])
def test_half_a_character_is_not(text: str) -> None:
    assert not is_whole(text)
    with pytest.raises(UnicodeEncodeError):
        text.encode()


@pytest.mark.parametrize("row", [["a\ud800", ""], ["\ud800", ""], ["a", "b\udcff"], ["a\0", ""]])
def test_an_omission_with_half_a_character_anywhere_is_none(row: list[str]) -> None:
    with pytest.raises(ValueError, match="what no row can"):
        check_omission(row)


def test_an_object_is_text_up_to_its_bound() -> None:
    assert object_text("metadata", None, max_bytes=2) == "{}"
    assert object_text("metadata", {"a": 1}, max_bytes=7) == '{"a":1}'
    with pytest.raises(TooLarge, match="metadata may have 6 bytes; there are 7"):
        object_text("metadata", {"a": 1}, max_bytes=6)
    with pytest.raises(Unencodable, match="metadata"):
        object_text("metadata", {"a": float("nan")}, max_bytes=99)
