"""Which files stay here by what they are called."""

from collections.abc import Sequence
from typing import Final

from holdfast.errors import InvalidValue

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
