"""Names in a git tree: every path of a namespace has one, and leads back from it.

Git refuses some names, reads some, and hosts run what they find under others. Such a part of a
path is written with a prefix of our own and its first byte in hexadecimal, so that nobody takes it
for what it is not; `docs/format.md` has the rules. Which parts are written so may grow: reading
them needs the form alone.
"""

import re
from typing import Final

from holdfast.errors import InvalidPath

PREFIX: Final = b".hf~"
KEEP: Final = PREFIX + b"keep"
"""The name of an empty file that keeps a folder: git holds none without files."""

OWN: Final = b".holdfast"
"""The folder at the top of a tree that has what we say of it."""

_MODULES: Final = ".gitmodules"
_OWN_FOLDER: Final = frozenset({".git", "git~1"})
_READ_BY_GIT: Final = frozenset({".git", _MODULES, ".gitattributes"})
"""What git takes for its own; attributes change what a clone checks out."""

_RUN_BY_HOSTS: Final = frozenset(
    {".github", ".gitea", ".forgejo", ".circleci", ".buildkite", ".woodpecker", ".builds"}
    | {".gitlab-ci.yml", ".travis.yml", ".drone.yml", ".cirrus.yml", ".woodpecker.yml"}
    | {".woodpecker.yaml", ".build.yml", ".appveyor.yml", "appveyor.yml", "azure-pipelines.yml"}
    | {"bitbucket-pipelines.yml", "jenkinsfile", "buildspec.yml", "cloudbuild.yaml"}
)
"""At the top of a tree: what an agent wrote is not to run with a host's secrets."""

_SHORT: Final = re.compile(r"(?:gi|ma)[0-9a-z]{0,6}~[0-9]")
"""What Windows makes of names that begin with a dot, such as `git~1`."""

_UNSEEN: Final = re.compile("[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]")
"""Characters that macOS leaves out when it compares names."""

_CODED: Final = re.compile(rb"%([0-9A-F]{2})")
_TO_CODE: Final = re.compile(rb"[%\\]")


def to_git(key: bytes) -> bytes:
    """Returns the path in a git tree that stands for a path of a namespace."""
    first, *others = key.split(b"/")
    is_apart = _plain(first) in _RUN_BY_HOSTS or _plain(first) == OWN.decode()
    parts = [_coded(first) if is_apart else _written(first), *map(_written, others)]
    return b"/".join(parts)


def is_refused(key: bytes, *, is_link: bool = False) -> bool:
    """Says whether git takes no such path into a tree: one in a `.git`, however that is spelled.

    Of a link it also refuses what it would read as `.gitmodules`.
    """
    # A part also ends where it would on Windows.
    names = [_plain(part) for part in key.replace(b"\\", b"/").split(b"/")]
    return any(
        name in _OWN_FOLDER or (is_link and (name == _MODULES or _SHORT.match(name) is not None))
        for name in names
    )


def from_git(path: bytes) -> bytes:
    """Returns the path that one in a git tree stands for; raises `InvalidPath` for a forged one.

    It may still be no path that a namespace takes.
    """
    return b"/".join(map(_read, path.split(b"/")))


def _written(name: bytes) -> bytes:
    plain = _plain(name)
    is_refused = (
        plain in _READ_BY_GIT
        or b"\\" in name
        or name.startswith(PREFIX)
        or _SHORT.match(plain) is not None
    )
    return _coded(name) if is_refused else name


def _plain(name: bytes) -> str:
    """Returns a name as the file systems see it that see the least of it."""
    text = _UNSEEN.sub("", name.decode("utf-8", "ignore")).casefold()
    return text.partition(":")[0].rstrip(" .")


def _coded(name: bytes) -> bytes:
    rest = _TO_CODE.sub(lambda match: b"%%%02X" % match[0][0], name[1:])
    return PREFIX + b"%%%02X" % name[0] + rest


def _read(name: bytes) -> bytes:
    if not name.startswith(PREFIX) or name == KEEP:
        return name
    read = _CODED.sub(lambda match: bytes([int(match[1], 16)]), name.removeprefix(PREFIX))
    # One form alone: else two names would stand for one path.
    if not read or b"/" in read or _coded(read) != name:
        raise InvalidPath(name, reason="it is written as no name in a backup is")
    return read
