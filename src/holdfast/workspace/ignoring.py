"""Which paths a directory's `.holdfastignore` leaves out.

The file lies in the root of the directory and has the syntax of `.gitignore`. It is data like
any other file: captured, restored, and read again whenever it changes. `digest` says whether
the rules are the same as before. What is left out is named in the coverage of every snapshot.
"""

import hashlib
from collections.abc import Callable
from typing import Final

from holdfast.errors import InvalidValue

IGNORE_FILE: Final = b".holdfastignore"
MAX_RULES_BYTES: Final = 1 << 20
"""A larger file is no list of rules: it is refused rather than half read."""


class Rules:
    """What is left out of captures."""

    def __init__(
        self,
        text: bytes = b"",
        *,
        apart: frozenset[tuple[int, int]] = frozenset(),
        including: frozenset[bytes] = frozenset(),
    ) -> None:
        parts = [text, *sorted(including)] if text else []
        self.digest: Final = hashlib.blake2b(b"\0".join(parts), digest_size=16).digest()
        self.apart: Final = apart
        """Folders by (device, inode) that are never captured: the vault's own."""
        self._including = including
        self._matches: Callable[[str], bool] | None = _compile(text) if text.strip() else None

    def excludes(self, path: bytes, *, is_folder: bool) -> bool:
        """Says whether the rules leave a path out."""
        if self._matches is None or self._is_included(path):
            return False
        name = path.decode("utf-8", "surrogateescape")
        return self._matches(name + "/" if is_folder else name)

    def excludes_within(self, path: bytes) -> bool:
        """Says whether the rules leave a path out, or a folder that it lies in."""
        if self._matches is None:
            return False
        at = path.find(b"/")
        while at != -1:
            if self.excludes(path[:at], is_folder=True):
                return True
            at = path.find(b"/", at + 1)
        return self.excludes(path, is_folder=False)

    def _is_included(self, path: bytes) -> bool:
        """Says whether a path is, lies in, or leads to one that is captured all the same."""
        return any(
            path == wanted or path.startswith(wanted + b"/") or wanted.startswith(path + b"/")
            for wanted in self._including
        )


def _compile(text: bytes) -> Callable[[str], bool]:
    # Few directories have the file, and the import takes 30 ms.
    from pathspec import GitIgnoreSpec  # noqa: PLC0415 - see above

    lines = text.decode("utf-8", "surrogateescape").splitlines()
    try:
        return GitIgnoreSpec.from_lines(lines).match_file
    except ValueError as exc:
        message = f".holdfastignore has a pattern that cannot be read: {exc}"
        raise InvalidValue(message) from exc
