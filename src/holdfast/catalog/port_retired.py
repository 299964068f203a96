"""The part of a transaction that is about packs whose rows are gone and whose bytes are not.

A pack's row goes in the transaction that retires it. Its bytes stay for a while: a catalog that
was set back, by a backup or a failover, still names it, and works at once.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Protocol

import msgspec

from holdfast.ids import PackName, TenantId


class RetiredPack(msgspec.Struct, frozen=True):
    """A pack in the blob store that nothing here needs any more."""

    name: PackName
    tenant_id: TenantId | None
    """Whose it was; None where it was found under no name, and nobody can say."""
    size_bytes: int
    retired_at: datetime


class RetiredRows(Protocol):
    """Rows of packs that are retired, of all tenants."""

    def retire(self, packs: Iterable[RetiredPack]) -> None:
        """Says that these are retired; one that was before, is so anew."""
        ...

    def iter_retired(self) -> list[RetiredPack]:
        """Returns all of them, the oldest first."""
        ...

    def forget_retired(self, names: Iterable[str]) -> None:
        """Removes their rows: their bytes are gone, or a row of a pack names them again."""
        ...
