"""Collecting and verifying, by operators; moving a namespace out and in, by its own keys."""

from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from holdfast.engine.namespace import Namespace
from holdfast.model.archives import Manifest
from holdfast.model.paths import shown_name
from holdfast.model.upkeep import Collected, Verified
from holdfast.operations.upkeep import Collect, Verify
from holdfast.server.calling import encoded
from holdfast.server.doors import answers
from holdfast.server.requests import Caller, Request
from holdfast.server.responses import Stream
from holdfast.server.routes.snapshots import to_answer
from holdfast.server.routing import Route, get, post
from holdfast.server.threads import Work, in_thread
from holdfast.server.times import shown_or_none
from holdfast.server.transfer import exported
from holdfast.server.uploads import Upload
from holdfast.wire.upkeep import ImportedAnswer, ManifestAnswer

MOST_FAULTS: Final = 1000
ENTRIES_HEADER: Final = "X-Entries"
_TAR: Final = "application/x-tar"

MEMBER_BYTES: Final = 2048
"""What an entry of a tar file takes beside its content, at about."""


@answers(Collect)
def collect(caller: Caller, wanted: Collect) -> Collected:
    """Gives back what nothing needs any more."""
    return caller.vault.collect(now=wanted.now)


@answers(Verify)
def verify(caller: Caller, _: Verify) -> Verified:
    """Hashes everything again; of very much that is damaged, tells the first."""
    found = caller.vault.verify()
    faults = [
        replace(fault, what=shown_name(fault.what), reason=shown_name(fault.reason))
        for fault in found.faults[:MOST_FAULTS]
    ]
    return replace(found, faults=faults)


@get(
    "/v1/export",
    media_type=_TAR,
    headers={ENTRIES_HEADER: "How much is in it."},
)
async def export(request: Request, agent: Namespace, snapshot: str | None = None) -> Stream:
    """Returns a snapshot, or what is there now, as a tar file."""
    chosen = None if snapshot is None else await in_thread(agent.get_snapshot, snapshot)
    size = await in_thread(agent.size) if chosen is None else chosen.size
    write = partial(agent.export, snapshot=chosen)
    pieces, entries = await exported(request, write, size=size.bytes + size.entries * MEMBER_BYTES)
    return Stream(pieces, media_type=_TAR, headers={ENTRIES_HEADER: str(entries)})


@post(
    "/v1/import",
    body=_TAR,
    is_spooled=True,  # The limit of imports counts instead, while they are read.
)
async def import_(request: Request, agent: Namespace) -> ImportedAnswer:
    """Replaces the content by that of an exported tar file; what is there is kept first."""
    most = request.services.config.max_import_bytes
    async with Upload(request, agent, max_bytes=most, is_file=False).written() as source:
        return await in_thread(partial(encoded, lambda: _imported(agent, source)), work=Work.LONG)


def _imported(agent: Namespace, source: Path) -> ImportedAnswer:
    done = agent.import_(source)
    return ImportedAnswer(
        snapshot=to_answer(agent, done.snapshot),
        safety_snapshot_id=done.safety_id,
        verified=done.verified,
        manifest=_manifest(done.manifest),
    )


def _manifest(manifest: Manifest) -> ManifestAnswer:
    return ManifestAnswer(
        format=manifest.format,
        namespace=manifest.namespace,
        snapshot=manifest.snapshot,
        label=manifest.label,
        created_at=_instant(manifest.created_at),
        root=manifest.root,
        entries=manifest.entries,
        content_bytes=manifest.content_bytes,
        uncaptured=manifest.uncaptured,
        in_motion=manifest.in_motion,
    )


def _instant(told: datetime | None) -> str | None:
    """Returns an instant that an archive names, which may be one that no calendar has in UTC."""
    try:
        return shown_or_none(told)
    except OverflowError:
        return None


ROUTES: Final[list[Route]] = [collect, verify, export, import_]
