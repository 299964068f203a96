"""Re-hashes everything and names what is damaged.

What is found is reported, never repaired and never hidden: damage names the pack and object, and
the snapshots and paths that need it. What is looked at is `examining`'s.
"""

from holdfast.catalog.packs import PackRow
from holdfast.catalog.transaction import Transaction
from holdfast.engine.core.context import Context
from holdfast.engine.core.fencing import fenced
from holdfast.engine.upkeep.examining import examine, find_index_faults, read_pack
from holdfast.engine.upkeep.repacking import lock_name
from holdfast.errors import Damaged
from holdfast.ids import TenantId
from holdfast.model.upkeep import Fault, Verified
from holdfast.packs import parse_index
from holdfast.progress import Progress, no_progress


def verify(context: Context, tenant_id: TenantId, *, progress: Progress = no_progress) -> Verified:
    """Checks all that a tenant has; raises `Busy` while a collection moves things about."""
    with fenced(context, lock_name(tenant_id)) as fence:
        found = examine(context, tenant_id, progress=progress)
        if found.faults:
            fence.catalog.check_current()  # A collection may have begun since, and moved things.
    if found.faults:
        # What was seen of packs a moment ago need not be so: whoever comes next looks anew.
        context.looked.pop(tenant_id, None)
    found.faults.extend(find_index_faults(context))
    if loss := context.catalog.find_loss():
        found.faults.append(Fault("catalog", str(loss)))
    return found


def rebuild_index(context: Context, tenant_id: TenantId) -> int:
    """Writes the object index anew from what the packs say of themselves; returns its rows.

    Raises `Damaged`, after all the others, if packs could not be read.
    """
    faults: list[Fault] = []
    count = 0
    with fenced(context, lock_name(tenant_id)) as fence:
        with fence.catalog.read() as transaction:
            packs = [pack for pack in transaction.iter_packs(tenant_id) if pack.is_stored]
        for pack in packs:
            with fence.catalog.write() as transaction:
                count += _reindex(fence, transaction, tenant_id, pack, faults)
    if faults:
        message = f"{len(faults)} packs could not be read, the first: {faults[0].reason}"
        raise Damaged(message)
    return count


def _reindex(
    context: Context,
    transaction: Transaction,
    tenant_id: TenantId,
    pack: PackRow,
    faults: list[Fault],
) -> int:
    data = read_pack(context, transaction, pack, faults)
    if data is None:
        return 0
    try:
        placements = parse_index(data, pack=pack.name)
    except Damaged as exc:
        faults.append(Fault(pack.name, str(exc)))
        return 0
    epoch = transaction.join_epoch(tenant_id)
    transaction.relocate_objects(tenant_id, pack.id, placements, epoch=epoch)
    return len(placements)
