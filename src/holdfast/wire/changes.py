"""What differs between two moments, as it stands on the wire."""

import msgspec

Counts = dict[str, dict[str, int]]
"""How many entries were `added`, `removed` and `changed`, by plane."""


class ChangeAnswer(msgspec.Struct, kw_only=True):
    """One entry that differs between two moments."""

    plane: str
    name: str
    change: str
    """`added`, `removed` or `changed`."""
    old_bytes: int | None
    new_bytes: int | None
    is_executable_config: bool
    """Whether programs run what this file says, without being asked to."""
    namespace: str | None
    """In the store, the namespace: a name with several slashes does not say where it ends."""
    key: str | None
    """In the store, the key."""
    name_b64: str | None = None
    """The bytes of a path that is not UTF-8, in base64; what is no text in `name` is replaced."""
