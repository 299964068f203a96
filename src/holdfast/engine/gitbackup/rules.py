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

from holdfast.engine.gitbackup.tokens import SHAPES, has_token
from holdfast.errors import InvalidValue
from holdfast.model.basics import Plane
from holdfast.operations.gitbackups import USUAL_FILE_BYTES

MOST_PATTERNS: Final = 100
MAX_PATTERN_CHARS: Final = 200

USUAL_PATTERNS: Final = (
    ".env",
    ".env.*",
    "*.pem",
    "*.key",
    "*.p12",
    "*.pfx",
    "*.jks",
    "*.keystore",
    "*.kdbx",
    "id_rsa",
    "id_dsa",
    "id_ecdsa",
    "id_ed25519",
    ".netrc",
    ".pgpass",
    ".npmrc",
    ".pypirc",
    ".git-credentials",
    ".htpasswd",
    ".aws/credentials",
    ".docker/config.json",
    ".kube/config",
)
"""Files that hold secrets by what they are called."""


def check_patterns(patterns: Sequence[str]) -> tuple[str, ...]:
    """Returns patterns for names; raises `InvalidValue` for what is none, or too many."""
    if len(patterns) > MOST_PATTERNS:
        message = f"{MOST_PATTERNS} patterns are the most"
        raise InvalidValue(message)
    for pattern in patterns:
        if not pattern or len(pattern) > MAX_PATTERN_CHARS or not pattern.isprintable():
            message = f"a pattern has 1 to {MAX_PATTERN_CHARS} printable characters"
            raise InvalidValue(message)
        if pattern.count("*") > 4:  # noqa: PLR2004 - each one doubles what a hostile name costs
            raise InvalidValue("a pattern has four stars at the most")
    return tuple(patterns)


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
