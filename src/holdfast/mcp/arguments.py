"""What each tool takes: structs that name and bound every argument.

An argument that is not here is refused, not ignored: a model that says `namespace` would believe
that it was heard.
"""

from typing import Annotated, Final

import msgspec

from holdfast.model.basics import Metadata
from holdfast.operations.commands import MAX_COMMAND_BYTES
from holdfast.operations.snapshots import MAX_LABEL_CHARS

MOST_BYTES: Final = 32_768
"""Bytes of a file that one answer shows."""

MOST_LISTED: Final = 500
_MOST_PATHS: Final = 100
_LONGEST_PATH: Final = 4096
_LONGEST_ID: Final = 200

_Path = Annotated[str, msgspec.Meta(max_length=_LONGEST_PATH)]
_Id = Annotated[str, msgspec.Meta(max_length=_LONGEST_ID)]
_Snapshot = Annotated[
    _Id,
    msgspec.Meta(
        description="A snapshot: its id or the unique beginning of one, `latest` for the newest, "
        "`@` for the one that the timeline stands on, `@-2` for the second before that."
    ),
]
_Moment = Annotated[
    _Id | None,
    msgspec.Meta(
        description="Which snapshot, by its id or `latest`, `@`, `@-2`. If left out: as things are "
        "now; of the files of a directory, as the snapshot has them that it stands on."
    ),
]
_Paths = Annotated[
    Annotated[list[_Path], msgspec.Meta(min_length=1, max_length=_MOST_PATHS)] | None,
    msgspec.Meta(
        description="Only these files, what lies in these directories, or what matches a pattern "
        "such as `*.csv`. All if left out."
    ),
]

_Names = Annotated[
    Annotated[list[_Path], msgspec.Meta(min_length=1, max_length=_MOST_PATHS)] | None,
    msgspec.Meta(
        description="Only these files and directories, to the letter: `[id].tsx` is that file. "
        "With `paths`, these as well."
    ),
]


class Arguments(msgspec.Struct, forbid_unknown_fields=True):
    """What a tool takes."""


class Nothing(Arguments):
    """No arguments."""


class Take(Arguments):
    """Of `snapshot`."""

    label: Annotated[
        Annotated[str, msgspec.Meta(max_length=MAX_LABEL_CHARS)] | None,
        msgspec.Meta(description="What to call it, such as `before the refactoring`."),
    ] = None
    reason: Annotated[
        Annotated[str, msgspec.Meta(max_length=2000)] | None,
        msgspec.Meta(description="Why it is taken."),
    ] = None
    metadata: Annotated[
        Metadata | None,
        msgspec.Meta(description="Pairs of text that are kept with it, such as a ticket's number."),
    ] = None


class Page(Arguments):
    """Of `timeline`."""

    limit: Annotated[
        int, msgspec.Meta(ge=1, le=100, description="How many snapshots, newest first.")
    ] = 20
    before: Annotated[
        Annotated[int, msgspec.Meta(ge=1, le=2**53)] | None,
        msgspec.Meta(description="Go on below this number: the first one of each line."),
    ] = None


class Compare(Arguments):
    """Of `diff`."""

    old: Annotated[
        _Id | None,
        msgspec.Meta(description="From this snapshot; the one that it stands on if left out."),
    ] = None
    new: Annotated[
        _Id | None,
        msgspec.Meta(description="To this snapshot; to what is there now if left out."),
    ] = None
    paths: _Paths = None
    names_only: Annotated[
        bool, msgspec.Meta(description="Names and sizes alone, without unified diffs.")
    ] = False


class Read(Arguments):
    """Of `read_file`."""

    path: Annotated[_Path, msgspec.Meta(description="A relative path, such as `src/app.py`.")]
    at: _Moment = None
    offset: Annotated[
        int, msgspec.Meta(ge=0, le=2**53, description="Begin at this byte of the file.")
    ] = 0


class List(Arguments):
    """Of `list_files`."""

    path: Annotated[_Path, msgspec.Meta(description="A directory; the top one if left out.")] = ""
    at: _Moment = None
    recursive: Annotated[bool, msgspec.Meta(description="All below it, at any depth.")] = False
    after: Annotated[
        _Path | None, msgspec.Meta(description="Go on after this path, which was listed last.")
    ] = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=MOST_LISTED, description="How many.")] = 200


class Restore(Arguments):
    """Of `restore`."""

    snapshot: _Snapshot
    paths: _Paths = None
    names: _Names = None
    confirm: Annotated[
        bool,
        msgspec.Meta(
            description="False, which it is unless said otherwise: only say what would change. "
            "True: do it; a person is asked first where the client can ask."
        ),
    ] = False


class Undo(Arguments):
    """Of `undo`."""

    operation: Annotated[
        _Id | None,
        msgspec.Meta(description="A snapshot whose changes to take out, keeping what came after."),
    ] = None
    task: Annotated[
        Annotated[str, msgspec.Meta(max_length=_LONGEST_ID)] | None,
        msgspec.Meta(description="The id of a task whose changes to take back."),
    ] = None


class Exec(Arguments):
    """Of `exec`."""

    command: Annotated[
        str,
        msgspec.Meta(
            min_length=1,
            max_length=MAX_COMMAND_BYTES,
            description="What bash runs, where the files are: `make test 2>&1 | tail -20`.",
        ),
    ]
    timeout_s: Annotated[
        Annotated[float, msgspec.Meta(gt=0, le=600)] | None,
        msgspec.Meta(description="Seconds that it may take; 30 if left out."),
    ] = None
    rollback_on_failure: Annotated[
        bool, msgspec.Meta(description="Take back what it did, if it fails.")
    ] = False


class Fork(Arguments):
    """Of `fork`."""

    name: Annotated[
        str,
        msgspec.Meta(
            min_length=1, max_length=128, description="What to call the new one; it must be free."
        ),
    ]
    at: Annotated[
        _Id | None, msgspec.Meta(description="As this snapshot has it; as it is now if left out.")
    ] = None
