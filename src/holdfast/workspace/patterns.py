"""Patterns of a `.gitignore`, as regular expressions that cannot be made slow.

A `*` that is followed by something fixed takes the first place where that fits, and never comes
back to it (an atomic group): for these patterns the first place is as good as any. So the time to
match a name grows with the name, whatever the pattern is. Where git and this module could differ, a
test asks git.
"""

import re
from collections.abc import Iterator
from typing import Final

MAX_CHARS: Final = 1000
"""In a pattern: the time to match a name grows with both."""

_FOLDERS: Final = "(?:[^/]+/)*?"
_CLASSES: Final = {
    "alnum": "a-zA-Z0-9",
    "alpha": "a-zA-Z",
    "blank": " \\t",
    "cntrl": "\\x00-\\x1f\\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": "!-/:-@[-`{-~",
    "space": "\\s",
    "upper": "A-Z",
    "xdigit": "0-9a-fA-F",
}
_ANY_FOLDERS: Final = re.compile(r"\*\*+")
_NAMED: Final = re.compile(r"\[:(\w*):\]")
_NOTHING: Final = "(?!)"
_STAR: Final = ""
"""Stands for a star among the parts of a name; no part that was written is empty."""


class BadPattern(ValueError):
    """A pattern that matches nothing, whatever its author had in mind."""


def to_regex(pattern: str) -> str:
    """Returns what matches the paths that a pattern means; those of folders end in a slash.

    Raises `BadPattern`. Whether the pattern is negated is not its business.
    """
    if not pattern:
        raise BadPattern("there is no pattern")
    if len(pattern) > MAX_CHARS:
        raise BadPattern(f"it has more than {MAX_CHARS} characters")
    only_folders = pattern.endswith("/")
    names = pattern.removesuffix("/").split("/")
    is_anchored = len(names) > 1
    if names[0] == "" and is_anchored:
        names = names[1:]
    if not is_anchored:
        names = ["**", *names]
    return _path(names) + ("/" if only_folders else "/?")


def _path(names: list[str]) -> str:
    """Returns the expression for names one below the other."""
    blocks: list[list[str]] = [[]]
    for name in names:
        if _ANY_FOLDERS.fullmatch(name):
            blocks.append([])
        else:
            blocks[-1].append(_name(name))
    *front, last = blocks
    # A block that is not the last one ends where a folder ends, and the first such place will do.
    parts = [
        f"(?>{_FOLDERS if number else ''}{''.join(f'{name}/' for name in block)})"
        for number, block in enumerate(front)
        if block
    ]
    if not last:
        return "".join([*parts, "[^/].*?"])
    return "".join([*parts, _FOLDERS if front else "", "/".join(last)])


def _name(name: str) -> str:
    """Returns the expression for one name."""
    if not name:
        return _NOTHING
    fixed = [""]
    for part in _parts(name):
        if part == _STAR:
            fixed.append("")
        else:
            fixed[-1] += part
    first, *rest = fixed
    if not rest:
        return first
    *middle, last = rest
    stars = "".join(f"(?>[^/]*?{part})" for part in middle if part)
    # The last star takes as much as it can: what follows it ends the name, or does not match.
    return f"(?>{first}{stars}[^/]*{last})"


def _parts(name: str) -> Iterator[str]:
    """Yields the expressions of a name, one for each of its characters, and `_STAR`."""
    at = 0
    while at < len(name):
        char = name[at]
        at += 1
        match char:
            case "*":
                yield _STAR
            case "?":
                yield "[^/]"
            case "[":
                text, at = _class(name, at)
                yield text
            case "\\":
                if at == len(name):
                    raise BadPattern("it ends with a backslash")
                yield re.escape(name[at])
                at += 1
            case _:
                yield re.escape(char)


def _class(name: str, at: int) -> tuple[str, int]:
    """Returns the expression for what is between brackets, and where it ends."""
    is_negated = name[at : at + 1] in ("!", "^")
    at += is_negated
    inside, start = list[str](), at
    while True:
        if at >= len(name):
            raise BadPattern("a bracket is not closed")
        if name[at] == "]" and at > start:
            break
        named = _NAMED.match(name, at)
        if named is not None:
            if named[1] not in _CLASSES:
                raise BadPattern(f"there is no class {named[1]}")
            inside.append(_CLASSES[named[1]])
            at = named.end()
            continue
        first, at = _literal(name, at)
        if name[at : at + 1] == "-" and name[at + 1 : at + 2] not in ("", "]"):
            last, at = _literal(name, at + 1)
            inside += [f"{re.escape(first)}-{re.escape(last)}"] if first <= last else []
        else:
            inside.append(re.escape(first))
    if not inside:
        return ("[^/]" if is_negated else _NOTHING), at + 1
    return f"(?!/)[{'^' if is_negated else ''}{''.join(inside)}]", at + 1


def _literal(name: str, at: int) -> tuple[str, int]:
    if name[at] == "\\":
        at += 1
    if at >= len(name):
        raise BadPattern("a bracket is not closed")
    return name[at], at + 1
