"""Tenants, by name."""

from holdfast.engine.context import Context
from holdfast.errors import CatalogLost, RowDamaged
from holdfast.model import Tenant


def get_or_add(context: Context, name: str) -> Tenant:
    """Returns a tenant; adds it on first use. Raises `CatalogLost` if there are packs of none."""
    with context.catalog.read() as transaction:
        try:
            found = transaction.find_tenant(name)
        except RowDamaged:
            # Others have to be reached through it, and so has a repair. Who asks for what the row
            # says is told that it is damaged.
            found = transaction.guess_tenant(name)
    if found is not None:
        return found
    # Looked for before the tenants are: whoever puts a pack has added a tenant first.
    has_packs = next(iter(context.blobs.iter_names()), None) is not None
    with context.catalog.write() as transaction:
        if has_packs and not transaction.sort_tenants():
            # To go on would be to collect them: a lost catalog is not a new vault.
            raise CatalogLost("these packs", has_packs=True)
        return transaction.add_tenant(name, public_id=context.ids.tenant(), now=context.clock())
