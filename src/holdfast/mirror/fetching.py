"""Fetches a snapshot of the server's to be looked at, compared, or put somewhere else."""

from msgspec.structs import replace

from holdfast.engine.exchange.adopting import adopt
from holdfast.engine.exchange.coverage import lacking_of
from holdfast.engine.namespace import Namespace
from holdfast.mirror.following import Pair
from holdfast.mirror.pulling import Pull
from holdfast.model.basics import SnapshotInfo
from holdfast.operations.snapshots import Note
from holdfast.progress import Progress


def fetch(pair: Pair, snapshot: SnapshotInfo, progress: Progress) -> SnapshotInfo:
    """Returns a snapshot of the cache that holds the files of one of the server's.

    It is beside the directory's own timeline, which stays as it is.
    """
    aside = pair.local.aside
    pulled = Pull(pair.server, aside, progress).pull(pair.memo.now, snapshot.id)
    note, lacking = Note(reason=f"fetched {snapshot.id}"), lacking_of(snapshot)
    adopt(aside, pulled.edits, base=pulled.base, root=pulled.root, note=note, lacking=lacking)
    return replace(Namespace(aside).snapshot(reason=note.reason), detail=snapshot.detail)
