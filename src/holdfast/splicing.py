"""Puts members into a JSON text, or takes them out, and leaves every other byte as it is.

Settings files are their owners': comments are not allowed in them, but order, indentation and the
way a number is written are theirs. So the text is not written anew from what it means. Where the
member goes is found by reading, only that span is replaced, and the result is read again before
anybody uses it. What is not plain JSON is refused with `ValueError`.
"""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, cast

_SPACE: Final = re.compile(r"[ \t\n\r]*")
_USUAL_INDENT: Final = "  "


@dataclass(frozen=True)
class _Member:
    """One member of an object: its key, and where key and value stand in the text."""

    key: str
    begin: int
    value: int
    end: int


def find(text: str, *, section: str, name: str) -> object:
    """Returns what a member of `section` means; None if it is not there."""
    whole = _read(text) if text.strip() else {}
    return _as_object(whole.get(section, {}), f"`{section}`").get(name)


def put(text: str, *, section: str, name: str, value: dict[str, Any]) -> str:
    """Returns a text in which `section` has this member; the same text if it has it already."""
    if not text.strip():
        return json.dumps({section: {name: value}}, indent=_USUAL_INDENT, ensure_ascii=False) + "\n"
    whole = _read(text)
    found = _as_object(whole.get(section, {}), f"`{section}`")
    if found.get(name) == value:
        return text
    made = _spliced(text, lambda text: _put(text, section=section, name=name, value=value))
    return _checked(made, {**whole, section: {**found, name: value}})


def take_out(text: str, *, section: str, name: str) -> str:
    """Returns a text whose `section` does not have this member; the same text if it has not."""
    if not text.strip():
        return text
    whole = _read(text)
    found = _as_object(whole.get(section, {}), f"`{section}`")
    if name not in found:
        return text
    outer = next(each for each in _members(text, _begin(text)) if each.key == section)
    left = {key: value for key, value in found.items() if key != name}
    return _checked(_cut(text, outer.value, name), {**whole, section: left})


def turn_into(text: str, wanted: dict[str, Any]) -> str:
    """Returns a text that means this: only members that differ are put in, or taken out."""
    whole = _read(text)

    def splice(text: str) -> str:
        for name in whole.keys() - wanted.keys():
            text = _cut(text, _begin(text), name)
        for name, value in wanted.items():
            if name not in whole or whole[name] != value:
                text = _set(text, name, value)
        return text

    return _checked(_spliced(text, splice), wanted)


def _spliced(text: str, splice: Callable[[str], str]) -> str:
    """Returns a text that is changed with the line ends that it has."""
    lines = text.count("\r\n")
    if not lines or lines < text.count("\n"):
        return splice(text)
    # No string of JSON holds a line's end: all of them are between its parts.
    return splice(text.replace("\r\n", "\n")).replace("\n", "\r\n")


def _checked(made: str, expected: dict[str, Any]) -> str:
    if _read(made) != expected:
        message = "what would be written is not what was meant"
        raise ValueError(message)
    return made


def _cut(text: str, begin: int, name: str) -> str:
    """Returns a text without one member of the object that begins here."""
    members = list(_members(text, begin))
    at = next(number for number, each in enumerate(members) if each.key == name)
    if at:
        cut = (members[at - 1].end, members[at].end)
    elif len(members) > 1:
        cut = (members[0].begin, members[1].begin)
    else:
        cut = (begin + 1, text.index("}", members[0].end))
    return text[: cut[0]] + text[cut[1] :]


def _put(text: str, *, section: str, name: str, value: dict[str, Any]) -> str:
    top = _begin(text)
    outer = next((each for each in _members(text, top) if each.key == section), None)
    unit = _unit(text, top)
    if outer is None:
        return _add(text, top, section, {name: value}, unit=unit, depth=1)
    inner = next((each for each in _members(text, outer.value) if each.key == name), None)
    if inner is None:
        return _add(text, outer.value, name, value, unit=unit, depth=2)
    return text[: inner.value] + _written(value, unit=unit, depth=2) + text[inner.end :]


def _set(text: str, name: str, value: object) -> str:
    top = _begin(text)
    unit = _unit(text, top)
    member = next((each for each in _members(text, top) if each.key == name), None)
    if member is None:
        return _add(text, top, name, value, unit=unit, depth=1)
    return text[: member.value] + _written(value, unit=unit, depth=1) + text[member.end :]


def _add(text: str, begin: int, key: str, value: object, *, unit: str | None, depth: int) -> str:
    """Returns a text with one more member at the end of the object that begins here."""
    members = list(_members(text, begin))
    written = f"{json.dumps(key, ensure_ascii=False)}: {_written(value, unit=unit, depth=depth)}"
    if members:
        # As the last one is set off from what is before it, so is this.
        before = text[begin + 1 : members[0].begin]
        if len(members) > 1:
            before = text[members[-2].end : members[-1].begin].partition(",")[2]
        return f"{text[: members[-1].end]},{before}{written}{text[members[-1].end :]}"
    close = _SPACE.match(text, begin + 1)
    end = begin + 1 if close is None else close.end()
    if unit is None:
        return f"{text[: begin + 1]}{written}{text[end:]}"
    inside, outside = f"\n{unit * depth}", f"\n{unit * (depth - 1)}"
    return f"{text[: begin + 1]}{inside}{written}{outside}{text[end:]}"


def _written(value: object, *, unit: str | None, depth: int) -> str:
    """Returns a value as it stands in a text with this indentation; None for a single line."""
    if unit is None:
        return json.dumps(value, ensure_ascii=False)
    lines = json.dumps(value, indent=unit, ensure_ascii=False).split("\n")
    return f"\n{unit * depth}".join(lines)


def _unit(text: str, top: int) -> str | None:
    """Returns what a text is indented with; None if it stands on one line."""
    first = next(_members(text, top), None)
    if first is None:
        return _USUAL_INDENT
    before = text[top + 1 : first.begin]
    return before.rpartition("\n")[2] or _USUAL_INDENT if "\n" in before else None


def _begin(text: str) -> int:
    found = _SPACE.match(text)
    return 0 if found is None else found.end()


def _read(text: str) -> dict[str, Any]:
    """Returns what a text means; raises `ValueError` for what is no JSON object."""
    try:
        whole = json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse)
    except RecursionError as exc:
        raise ValueError("it is nested too deeply") from exc
    return _as_object(whole, "it")


def _as_object(value: object, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        message = f"{what} is no JSON object"
        raise ValueError(message)  # noqa: TRY004 - the text is wrong, not a type
    return cast("dict[str, Any]", value)  # the keys of JSON are text


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        # Programs differ in which of the two they take.
        raise ValueError("a key stands twice in one object")
    return made


def _refuse(word: str) -> Any:  # noqa: ANN401 - as its caller has it
    message = f"{word} is no JSON"
    raise ValueError(message)


def _members(text: str, begin: int) -> Iterator[_Member]:
    """Yields the members of the object whose brace stands here; the text is known to be JSON."""
    decoder = json.JSONDecoder()

    def skip(at: int) -> int:
        found = _SPACE.match(text, at)
        return at if found is None else found.end()

    at = skip(begin + 1)
    while text[at] != "}":
        key, end = decoder.raw_decode(text, at)
        value = skip(skip(end) + 1)
        _, after = decoder.raw_decode(text, value)
        yield _Member(key, at, value, after)
        at = skip(after)
        if text[at] == ",":
            at = skip(at + 1)
