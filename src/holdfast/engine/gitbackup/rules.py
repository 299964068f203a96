"""What of a namespace goes into its copy, and what stays here, with the reason.

A name, of a file or of what is in another plane, is looked at in all its parts.
"""

import fnmatch
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from itertools import pairwise
from typing import Final

import msgspec

from holdfast.engine.gitbackup.patterns import USUAL_PATTERNS
from holdfast.engine.gitbackup.tokens import SHAPES, has_token
from holdfast.model.basics import Plane
from holdfast.operations.gitbackups import USUAL_FILE_BYTES

FORMAT: Final = 1
"""Of trees and messages: `docs/format.md`."""

BY_NAME, BY_SIZE, BY_CONTENT = "pattern", "size", "secret"
"""Why a file stays here."""


@dataclass(frozen=True)
class Rules:
    """What stays here: by name, by size, and by what looks like a secret in it."""

    patterns: Sequence[str] = USUAL_PATTERNS
    file_bytes: int = USUAL_FILE_BYTES
    finds_tokens: bool = True
    planes: Sequence[Plane] = ()
    """What goes with the files."""

    @cached_property
    def digest(self) -> str:
        """Returns what all of it comes down to: under other rules a tree is made anew."""
        said = (FORMAT, tuple(self.patterns), self.file_bytes, self.finds_tokens)
        # Copies from before there was a choice stay what they are.
        said += (tuple(self.planes),) if self.planes else ()
        tokens = SHAPES if self.finds_tokens else b""
        return blake2b(msgspec.msgpack.encode(said) + tokens, digest_size=8).hexdigest()

    @cached_property
    def _matches(self) -> re.Pattern[str] | None:
        texts = [fnmatch.translate(pattern) for pattern in self.patterns]
        return re.compile("|".join(texts)) if texts else None

    def by_name(self, key: bytes) -> str | None:
        """Returns why a path stays here whatever it holds; None if it does not."""
        if self._matches is not None and any(map(self._matches.match, _names(key))):
            return BY_NAME
        if self.finds_tokens and has_token([key]):
            return BY_CONTENT
        return None

    def by_content(self, parts: Iterable[bytes]) -> str | None:
        """Returns why what a file holds stays here; None if it does not."""
        return BY_CONTENT if self.finds_tokens and has_token(parts) else None


def _names(key: bytes) -> Iterator[str]:
    """Yields what a pattern may match: a name in a path, two that follow each other, all of it."""
    path = key.decode("utf-8", "surrogateescape")
    parts = path.split("/")
    yield from parts
    yield from map("/".join, pairwise(parts))
    yield path
