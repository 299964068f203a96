"""Collecting and verifying, by operators; moving a namespace out and in, by its own keys."""

from functools import partial
from typing import Final

from msgspec.structs import replace

from holdfast.engine.namespace import Namespace
from holdfast.errors import VaultTooNew
from holdfast.model.archives import Imported, ImportedFiles
from holdfast.model.names import legible_name
from holdfast.model.upkeep import Collected, Verified
from holdfast.operations.upkeep import Collect, Verify
from holdfast.server.calling import encoded
from holdfast.server.doors import answers, written
from holdfast.server.problems import ArchiveTooNew
from holdfast.server.requests import Caller, Request
from holdfast.server.responses import Stream
from holdfast.server.routing import Route, get, post
from holdfast.server.threads import Work, in_thread
from holdfast.server.transfer import exported
from holdfast.server.uploads import Upload

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
        replace(fault, what=legible_name(fault.what), reason=legible_name(fault.reason))
        for fault in found.faults[:MOST_FAULTS]
    ]
    return replace(found, faults=faults)


@get(
    "/v1/export",
    media_type=_TAR,
    headers={ENTRIES_HEADER: "How much is in it."},
)
async def export(
    request: Request, agent: Namespace, snapshot: str | None = None, *, files: bool = False
) -> Stream:
    """Returns a snapshot, or what is there now, as a tar file; with `files`, its files alone."""
    chosen = None if snapshot is None else await in_thread(agent.get_snapshot, snapshot)
    size = await in_thread(agent.size) if chosen is None else chosen.size
    write = partial(agent.export_files if files else agent.export, snapshot=chosen)
    pieces, entries = await exported(request, write, size=size.bytes + size.entries * MEMBER_BYTES)
    return Stream(pieces, media_type=_TAR, headers={ENTRIES_HEADER: str(entries)})


@post(
    "/v1/import",
    body=_TAR,
    is_spooled=True,  # The limit of imports counts instead, while they are read.
    answer=Imported | ImportedFiles,
)
async def import_(request: Request, agent: Namespace, *, files: bool = False) -> object:
    """Replaces the content by that of an exported tar file; what is there is kept first.

    With `files`, the files alone become exactly those of a plain tar file, whoever wrote it.
    """
    most, bring = request.services.config.max_import_bytes, agent.import_
    if files:
        bring = agent.import_files
    upload = Upload(request, agent, max_bytes=most, is_file=False, is_plain=files)
    async with upload.written() as source:
        make = partial(encoded, lambda: written(agent, bring(source)))
        try:
            return await in_thread(make, work=Work.LONG)
        except VaultTooNew as exc:
            raise ArchiveTooNew(exc) from exc


ROUTES: Final[list[Route]] = [collect, verify, export, import_]
