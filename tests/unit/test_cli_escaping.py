"""Text that an attacker chose never reaches a terminal as anything but text."""

import io
import os
import re
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import holdfast
from holdfast.cli.console import Console
from holdfast.cli.patches import lines_of
from holdfast.escaping import RAW, as_raw, escaped, escaped_line, quoted_for_git

HARMFUL = [
    "\x00",
    "\x07",
    "\x1b[2J",
    "\x1b]0;title\x07",
    "\r",
    "\n",
    "\t",
    "\x7f",
    "\x9b2J",  # the one-byte CSI
    "\u202e",
    "\u2066",
    "\u200f",
    "\u061c",
    "\u2028",
    "\ufeff",
    "\udcff",
    "\ud800",
    "\U000e0041",
]


@pytest.mark.parametrize("text", HARMFUL)
def test_nothing_harmful_is_left(text: str) -> None:
    safe = escaped(f"a{text}b")
    assert safe.startswith("a\\")
    assert safe.endswith("b")
    assert text[0] not in safe
    safe.encode("utf-8")


@pytest.mark.parametrize(
    "text", ["plain.txt", "übermut.md", "日本語", "a b", "back\\slash", "👩‍💻"]
)
def test_what_is_harmless_stays_as_it_is(text: str) -> None:
    assert escaped(text) == text


def test_bytes_that_are_not_utf8_show_as_those_bytes() -> None:
    assert escaped(os.fsdecode(b"ol\xe9")) == "ol\\xe9"
    assert escaped("\x1b[31m") == "\\x1b[31m"


@given(st.text(alphabet=st.characters()))
def test_no_text_makes_a_terminal_do_anything(text: str) -> None:
    for char in escaped(text):
        assert unicodedata.category(char) not in ("Cc", "Cs")
        assert unicodedata.bidirectional(char) not in (
            *("RLO", "LRO", "RLE", "LRE", "PDF"),
            *("LRI", "RLI", "FSI", "PDI"),
        )


def test_a_line_of_content_keeps_its_tabs_and_nothing_else() -> None:
    assert escaped_line("\tindented \x1b[0m") == "\tindented \\x1b[0m"


def unquoted(text: str) -> bytes:
    """Reads a name as git does."""
    if not text.startswith('"'):
        return text.encode()
    parts = re.findall(rb"\\([0-7]{3})|\\(.)|([^\\])", text[1:-1].encode(), re.DOTALL)
    return b"".join(
        bytes([int(octal, 8)]) if octal else escaped or plain for octal, escaped, plain in parts
    )


@given(st.binary(min_size=1, max_size=30))
def test_a_quoted_name_is_safe_and_reads_back_as_the_same_bytes(name: bytes) -> None:
    text = quoted_for_git(name.decode("utf-8", "surrogateescape"))
    assert escaped(text) == text
    assert unquoted(text) == name


@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "latin-1"])
@pytest.mark.parametrize("data", [b"plain", b"ol\xe9", "olé".encode(), bytes(range(256))])
def test_raw_bytes_are_written_as_they_are_in_every_encoding(data: bytes, encoding: str) -> None:
    assert as_raw(data).encode(encoding, RAW) == data
    written = io.BytesIO()
    stream = io.TextIOWrapper(written, encoding, errors=RAW, newline="")
    stream.write(as_raw(data))
    stream.flush()
    assert written.getvalue() == data


def test_what_an_encoding_lacks_is_escaped_beside_raw_bytes() -> None:
    text = "\udce9ü" + as_raw(b"\xff") + "\udcff€"
    assert text.encode("ascii", RAW) == b"\\udce9\\xfc\xff\\udcff\\u20ac"
    assert text.encode("utf-8", RAW) == "\\udce9ü".encode() + b"\xff\\udcff" + "€".encode()


@pytest.mark.parametrize("target", [b"ol\xe9.txt", "é".encode(), b"\xff\n\x9b"])
def test_a_program_gets_the_bytes_of_a_link_and_a_person_gets_none_that_is_obeyed(
    target: bytes, tmp_path: Path
) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    with holdfast.open(tmp_path / "vault") as vault, vault.workspace(tree) as workspace:
        workspace.snapshot()
        os.symlink(target, os.fsencode(tree / "link"))
        (patch,) = workspace.patches()
    piped, seen = (
        Console(out=io.StringIO(), err=io.StringIO(), cwd="/", environ={}, is_terminal=is_terminal)
        for is_terminal in (False, True)
    )
    written = "\n".join(lines_of(piped, patch)).encode("utf-8", RAW)
    assert b"\n+" + target.replace(b"\n", b"\n+") + b"\n\\ No newline" in written
    assert "\n".join(lines_of(seen, patch)).encode("utf-8")
