"""The part of a transaction that looks after sessions: what may go, and what has to be there.

A branch is needed by the sessions and versions that name it, by those that go on from it, and by
the planes of snapshots and heads, of which the rows here know nothing.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Protocol

from holdfast.ids import NamespaceId, TenantId
from holdfast.model_sessions import BranchRow, SessionRow, VersionRow


class UpkeepRows(Protocol):
    """What collection and verification ask about sessions."""

    def ended_sessions(
        self, tenant_id: TenantId, *, before: datetime
    ) -> list[tuple[NamespaceId, str]]:
        """Returns the sessions of live namespaces that were deleted or past their time by then."""
        ...

    def lapsed_sessions(self, namespace_id: NamespaceId, *, now: datetime) -> list[str]:
        """Returns the ids of sessions that are there, and whose time is over."""
        ...

    def sessions_to_end(
        self, tenant_id: TenantId | None, *, now: datetime, most: int
    ) -> list[tuple[TenantId, str, str]]:
        """Returns sessions that are present though their time is over, of one tenant or of all.

        Each with its tenant and its namespace's name; those that were over first come first.
        """
        ...

    def purge_session(self, namespace_id: NamespaceId, session_id: str) -> None:
        """Removes a session with its history."""
        ...

    def spare_branches(self, tenant_id: TenantId) -> list[BranchRow]:
        """Returns the branches that no row needs."""
        ...

    def delete_branches(self, tenant_id: TenantId, branch_ids: Iterable[str]) -> None:
        """Removes branches with their turns."""
        ...

    def turn_bytes(self, tenant_id: TenantId) -> int:
        """Returns how many bytes the turns of a tenant take."""
        ...

    def iter_branches(self, tenant_id: TenantId) -> list[BranchRow]: ...
    def named_branches(self, tenant_id: TenantId) -> dict[str, int]:
        """Returns the branches that sessions and versions name, with the most turns they need."""
        ...

    def iter_present(self, namespace_id: NamespaceId) -> Iterator[tuple[SessionRow, VersionRow]]:
        """Yields the sessions that the plane has to hold, by id, with their newest versions."""
        ...

    def broken_histories(self, namespace_id: NamespaceId) -> list[str]:
        """Returns the sessions whose versions are not 0, 1, 2… up to the newest."""
        ...

    def find_version_at(
        self, namespace_id: NamespaceId, session_id: str, *, state: bytes, at: datetime
    ) -> VersionRow | None:
        """Returns the version with this state that was the newest then, or became so later."""
        ...
