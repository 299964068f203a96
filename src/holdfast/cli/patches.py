"""Writes changes as git does, so that `git apply` and `patch` make them somewhere else.

Everything that git can say is said in its own words: modes, links, renames, names with odd bytes,
a missing line end, and content that is no text. What it has no words for (a directory, further
bits of a mode, values of the store, sessions, memories) stands where both programs skip it.

On a terminal lines are coloured, control bytes are escaped, and content that is no text is not
spelled out.
"""

import os
import zlib
from base64 import b85encode
from collections.abc import Callable, Iterable, Iterator
from hashlib import sha1

import holdfast
from holdfast.cli import words
from holdfast.cli.console import Console
from holdfast.cli.wordwise import marked
from holdfast.entries import Link
from holdfast.escaping import as_raw, escaped_line, quoted_for_git
from holdfast.git.names import is_refused

_LINK = "120000"
"""What diffs write for a link, which has no mode of its own."""

_FILE, _PROGRAM = "100644", "100755"
_OWNER_RUNS = 0o100
_NOTHING = "/dev/null"
_NO_OBJECT = "0" * 40
_NO_END = "\\ No newline at end of file"
_LINE_BYTES = 52
"""Of content that is no text, in a line; its first letter says how many there are."""

_COLOURS = {"+": "green", "-": "red", "@": "cyan"}


def lines_of(
    console: Console, patch: "holdfast.Patch", *, word_by_word: bool = False
) -> Iterator[str]:
    """Yields the lines of one change."""
    change = patch.change
    if change.plane.value != "files":
        yield from _other_plane(console, patch)
        return
    modes = [getattr(each, "mode", None) for each in (change.old, change.new)]
    if words.is_folder(change):
        more = "" if None in modes else ": mode {:o} -> {:o}".format(*modes)
        yield f"Directory {quoted_for_git(change.name)} {change.change}{more}"
        return
    if change.is_executable_config:
        yield console.paint("! executable configuration: other programs run this", "yellow")
    git_modes = _git_mode(change.old), _git_mode(change.new)
    if None not in modes and modes[0] != modes[1] and git_modes[0] == git_modes[1]:
        yield "Mode of {}: {:o} -> {:o}".format(quoted_for_git(change.name), *modes)
    if is_said_by_git(patch):
        yield from _file(console, patch, git_modes, word_by_word=word_by_word)


def is_said_by_git(patch: "holdfast.Patch") -> bool:
    """Says whether a change of a file is one that git has words for."""
    change = patch.change
    is_new = change.old is None or change.new is None or patch.renamed_from is not None
    return is_new or bool(patch.text) or _git_mode(change.old) != _git_mode(change.new)


def is_for_git(patch: "holdfast.Patch") -> bool:
    """Says whether git takes a patch of this path: it refuses all of one with a single `.git`."""
    change = patch.change
    is_link = any(isinstance(each, Link) for each in (change.old, change.new))
    return change.plane.value != "files" or not is_refused(change.key, is_link=is_link)


def is_whole(patch: "holdfast.Patch") -> bool:
    """Says whether a patch has all that differs in a file, or only says that it does."""
    is_spelled = not patch.text or _hunks(patch)[1] is not None
    return patch.change.plane.value != "files" or is_spelled or patch.after is not None


def _file(
    console: Console,
    patch: "holdfast.Patch",
    modes: tuple[str, str],
    *,
    word_by_word: bool,
) -> Iterator[str]:
    change = patch.change
    old, new = f"a/{patch.renamed_from or change.name}", f"b/{change.name}"
    remark, hunks = _hunks(patch)
    if remark and hunks is not None:
        yield remark
    yield console.paint(f"diff --git {quoted_for_git(old)} {quoted_for_git(new)}", "bold")
    yield from _header(patch, modes)
    if patch.before is not None and patch.after is not None and not console.is_terminal:
        yield from _binary(patch.before, patch.after, change)
        return
    sides = (
        _NOTHING if change.old is None else _named(old),
        _NOTHING if change.new is None else _named(new),
    )
    if hunks is None:
        if patch.text:
            yield f"Binary files {sides[0].strip()} and {sides[1].strip()} differ"
            yield remark
        return
    yield f"--- {sides[0]}"
    yield f"+++ {sides[1]}"
    if word_by_word:
        yield from (_painted_words(console, line) for line in marked(hunks))
        return
    # A program gets the very bytes of a link; what a person sees is escaped.
    decoded = os.fsdecode if console.is_terminal else as_raw
    for line in _link_lines(change, decoded) if _LINK in modes else hunks:
        yield _content_line(console, line)


def _link_lines(change: "holdfast.Change", decoded: Callable[[bytes], str]) -> Iterator[str]:
    """Yields the one hunk of a link: its target may have line ends, and seldom ends with one."""
    entries = (change.old, change.new)
    targets = [decoded(each.target) if isinstance(each, Link) else "" for each in entries]
    sides = [target.removesuffix("\n").split("\n") if target else [] for target in targets]
    yield "@@ -{} +{} @@".format(*(f"{int(bool(lines))},{len(lines)}" for lines in sides))
    for sign, target, lines in zip("-+", targets, sides, strict=True):
        yield from (f"{sign}{line}" for line in lines)
        if target and not target.endswith("\n"):
            yield _NO_END


def _header(patch: "holdfast.Patch", modes: tuple[str, str]) -> Iterator[str]:
    change = patch.change
    if patch.renamed_from is None and change.old is None:
        yield f"new file mode {modes[1]}"
    elif change.new is None:
        yield f"deleted file mode {modes[0]}"
    elif modes[0] != modes[1]:
        yield f"old mode {modes[0]}"
        yield f"new mode {modes[1]}"
    if patch.renamed_from is not None:
        yield "similarity index 100%"
        yield f"rename from {quoted_for_git(patch.renamed_from)}"
        yield f"rename to {quoted_for_git(change.name)}"


def _hunks(patch: "holdfast.Patch") -> tuple[str, list[str] | None]:
    """Returns a remark on a diff, and its lines without the names; None if there is no diff."""
    name = patch.change.name
    # Its own two lines of header hold the name as it is, line ends and all.
    remark, found, rest = patch.text.partition(f"--- a/{name}\n+++ b/{name}\n")
    return remark.removesuffix("\n"), rest.removesuffix("\n").split("\n") if found else None


def _named(name: str) -> str:
    """Returns a name as it stands behind `---`: one with blanks ends with a tab."""
    safe = quoted_for_git(name)
    return f"{safe}\t" if " " in safe and not safe.startswith('"') else safe


def _binary(before: bytes, after: bytes, change: "holdfast.Change") -> Iterator[str]:
    """Yields content that is no text: the names of both versions, then how to get to each."""
    old = _NO_OBJECT if change.old is None else _object_name(before)
    new = _NO_OBJECT if change.new is None else _object_name(after)
    yield f"index {old}..{new}"
    yield "GIT binary patch"
    for data in (after, before):
        yield f"literal {len(data)}"
        packed = zlib.compress(data)
        for at in range(0, len(packed), _LINE_BYTES):
            part = packed[at : at + _LINE_BYTES]
            yield _length_letter(len(part)) + b85encode(part, pad=True).decode("ascii")
        yield ""


def _object_name(data: bytes) -> str:
    """Returns what git calls content: it applies nothing to a file that is not the one meant."""
    return sha1(b"blob %d\0%b" % (len(data), data), usedforsecurity=False).hexdigest()


def _length_letter(count: int) -> str:
    return chr(ord("A") + count - 1) if count <= 26 else chr(ord("a") + count - 27)  # noqa: PLR2004 - so many letters there are


def _other_plane(console: Console, patch: "holdfast.Patch") -> Iterator[str]:
    """Yields the lines of what is no file, indented: `git apply` and `patch` skip them."""
    change = patch.change
    yield console.paint(f"{words.plane_name(change)} {change.change}", "bold")
    head = f"--- a/{change.name}\n+++ b/{change.name}\n"
    for line in patch.text.removeprefix(head).removesuffix("\n").split("\n"):
        yield f"  {_content_line(console, line)}"


def _content_line(console: Console, line: str) -> str:
    if not console.is_terminal:
        return line
    safe = escaped_line(line)
    style = _COLOURS.get(line[:1])
    return console.paint(safe, style) if style else safe


def _painted_words(console: Console, line: Iterable[tuple[str, str]]) -> str:
    """Returns one line of a comparison by words."""
    parts = list[str]()
    for sign, text in line:
        safe = escaped_line(text) if console.is_terminal else text
        shown = {"-": f"[-{safe}-]", "+": f"{{+{safe}+}}"}.get(sign, safe)
        parts.append(console.paint(shown, _COLOURS[sign]) if sign in _COLOURS else shown)
    return "".join(parts)


def _git_mode(entry: object) -> str:
    """Returns a mode as git writes it: what kind of file, and whether it can be executed."""
    if entry is None:
        return ""
    mode = getattr(entry, "mode", None)
    if mode is None:
        return _LINK
    return _PROGRAM if mode & _OWNER_RUNS else _FILE
