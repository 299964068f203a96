"""Tenants, by name."""

from typing import Final

from holdfast.engine.core.context import Context
from holdfast.errors import CatalogLost, RowDamaged
from holdfast.model.basics import Tenant

DEFAULT_TENANT: Final = "default"
"""The one that a vault is by itself."""


def get_or_add(context: Context, name: str, *, is_first: bool = False) -> Tenant:
    """Returns a tenant; adds it on first use. Raises `CatalogLost` if there are packs of none.

    `is_first` says that no tenant was there before it: one that is damaged may be this one, and a
    vault is not begun anew beside it.
    """
    with context.catalog.read() as transaction:
        try:
            found = transaction.find_tenant(name)
        except RowDamaged:
            found = None
        # Others have to be reached beside one that is damaged, and so has a repair. Who asks for
        # what its row says is told.
        found = found or transaction.guess_tenant(name)
        damaged = [] if found is not None else transaction.sort_tenants().damaged
    if found is not None:
        return found
    if is_first and damaged:
        raise damaged[0]
    # Looked for before the tenants are: whoever puts a pack has added a tenant first.
    has_packs = next(iter(context.blobs.iter_names()), None) is not None
    with context.catalog.write() as transaction:
        if has_packs and not transaction.sort_tenants():
            # To go on would be to collect them: a lost catalog is not a new vault.
            raise CatalogLost("these packs", has_packs=True)
        return transaction.add_tenant(name, public_id=context.ids.tenant(), now=context.clock())
