"""The first member of an archive: what the rest is, and the root that proves it.

Like everything in an archive it is not trusted. Its names are told to the user and used for
nothing else; its numbers and its root have to be those of the content that follows. `format`
stands first, so that an archive of a later holdfast is recognised before the rest is read.
"""

import re
from collections.abc import Sequence
from typing import Annotated, Final

import msgspec

from holdfast.engine.core.coverage import Lacking, from_names, to_names
from holdfast.engine.planes.handle import MAX_NAME_CHARS, check_text
from holdfast.errors import InvalidName, UnsafeArchive, VaultTooNew
from holdfast.model import archives
from holdfast.model.files import MAX_PATH_BYTES
from holdfast.operations.snapshots import MAX_LABEL_CHARS

ARCHIVE_FORMAT: Final = 2
WITHOUT_MEMORIES: Final = 1
"""The format of an archive of what was captured before memories were a plane."""

MANIFEST_NAME: Final = b"holdfast.json"
MAX_MANIFEST_BYTES: Final = 4 << 20
"""Two names and a few numbers take little; the rest is for the names of what is lacking."""

_MOST_NAMES: Final = 10_000
_MOST_NAME_BYTES: Final = 1 << 20
"""Of each kind. What lacks more of them, or longer ones, says how many they are."""

_FORMAT: Final = re.compile(rb'\s*\{\s*"format"\s*:\s*([0-9]{1,9})\s*,')

_Count = Annotated[int, msgspec.Meta(ge=0, le=2**62)]


_Text = Annotated[str, msgspec.Meta(max_length=4 * MAX_PATH_BYTES)]
_Name = Annotated[list[_Text], msgspec.Meta(min_length=1, max_length=2)]
_Names = Annotated[list[_Name], msgspec.Meta(max_length=_MOST_NAMES)]


class Manifest(
    archives.Manifest, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """What an archive says of itself, within bounds, and which paths it does not vouch for."""

    namespace: Annotated[str, msgspec.Meta(max_length=MAX_NAME_CHARS)]
    snapshot: Annotated[str, msgspec.Meta(max_length=MAX_NAME_CHARS)] | None
    label: Annotated[str, msgspec.Meta(max_length=MAX_LABEL_CHARS)] | None
    root: Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}$")]
    entries: _Count
    content_bytes: _Count
    uncaptured: _Count = 0
    in_motion: _Count = 0
    uncaptured_paths: _Names = []  # noqa: RUF012 - a struct: each has a list of its own
    in_motion_paths: _Names = []  # noqa: RUF012 - as above
    """Which these are; left out if they are too many. One that is not UTF-8 has its bytes beside
    it, in hexadecimal."""

    @property
    def lacking(self) -> Lacking:
        """What the archive does not vouch for."""
        return Lacking(
            from_names(self.uncaptured_paths),
            from_names(self.in_motion_paths),
            self.uncaptured > len(self.uncaptured_paths),
        )

    def encode(self) -> bytes:
        """Returns the manifest as JSON for people to read: the same bytes for the same values."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2) + b"\n"


def decode_manifest(data: bytes) -> Manifest:
    """Returns the manifest; raises `VaultTooNew` for a later format, else `UnsafeArchive`."""
    found = _FORMAT.match(data)
    if found and int(found[1]) > ARCHIVE_FORMAT:
        raise VaultTooNew("the archive", found=int(found[1]), known=ARCHIVE_FORMAT)
    try:
        manifest = msgspec.json.decode(data, type=Manifest)
        _ = manifest.lacking
        for text in (manifest.namespace, manifest.snapshot, manifest.label):
            check_text("name", text, max_chars=MAX_NAME_CHARS)
    except (ValueError, InvalidName) as exc:
        raise UnsafeArchive(f"its manifest cannot be read: {exc}") from exc
    if not found or manifest.format not in (WITHOUT_MEMORIES, ARCHIVE_FORMAT):
        raise UnsafeArchive("its manifest does not begin with a format that is known here")
    return manifest


def named(paths: Sequence[str]) -> list[list[str]]:
    """Returns the names of what is lacking, as a manifest holds them; none if it cannot."""
    names = to_names(paths[: _MOST_NAMES + 1])
    fits = len(names) <= _MOST_NAMES and len(msgspec.json.encode(names)) <= _MOST_NAME_BYTES
    return names if fits else []
