"""The part of a transaction that is about sessions, their versions and their turns.

A session's row says what is true of it now, its versions and turns what has been. Turns lie on
branches, since a conversation may go back and on from there; a branch belongs to a tenant and not
to a namespace, for a fork of either goes on where the other is.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import Protocol

from holdfast.ids import NamespaceId, TenantId
from holdfast.model import Size
from holdfast.model_sessions import BranchRow, OpenedSession, SessionRow, TurnRow, VersionRow
from holdfast.model_traces import TraceRow


class SessionRows(Protocol):
    """Rows of sessions; a method is one named query."""

    def add_session(self, session: SessionRow) -> bool:
        """Adds a session; False if there is one with its id."""
        ...

    def set_session(self, session: SessionRow) -> None:
        """Replaces what can change in a session's row."""
        ...

    def move_session(self, session: SessionRow) -> None:
        """Replaces what a new version or a turn changes in a session's row: it is present."""
        ...

    def put_version(
        self,
        session: SessionRow,
        version: VersionRow,
        *,
        entry: bytes,
        sequence: int,
        more: Size,
        writer: str = "",
        trace: TraceRow | None = None,
    ) -> None:
        """Adds the next version of a session, and all that goes with it.

        `move_session`, or for version 0 `add_session`, with an id that nobody else has;
        `add_version`, `set_sequence` and `put_pending` in one. With `trace`, `add_trace` as well:
        it follows on the end that `open_session` returned. If another writer has moved that, the
        transaction fails with `Busy`.
        """
        ...

    def open_session(
        self, tenant_id: TenantId, name: str, session_id: str, *, wanted: int | None = None
    ) -> OpenedSession | None:
        """Locks a live head, and returns it with what is known of one of its sessions.

        `wanted` is the number of a version that is asked for, too; below 0 it counts from the
        newest. None if there is no such head.
        """
        ...

    def set_sequence(
        self, namespace_id: NamespaceId, sequence: int, *, more: Size, writer: str = ""
    ) -> None:
        """Sets the sequence of a head that this transaction has locked, and adds to its size."""
        ...

    def find_session(
        self, tenant_id: TenantId, name: str, session_id: str
    ) -> tuple[SessionRow, VersionRow] | None:
        """Returns a session of a live namespace with its newest version."""
        ...

    def list_sessions(
        self,
        namespace_id: NamespaceId,
        *,
        now: datetime,
        most: int,
        before: tuple[datetime, str] | None = None,
        after: datetime | None = None,
        agent_id: str | None = None,
        user_id: str | None = None,
    ) -> list[tuple[SessionRow, VersionRow]]:
        """Returns what is present and not past its time, newest first, below `before`."""
        ...

    def forks_of(self, namespace_id: NamespaceId, session_id: str) -> list[str]: ...
    def add_version(
        self, namespace_id: NamespaceId, session_id: str, version: VersionRow
    ) -> None: ...
    def find_version(
        self, namespace_id: NamespaceId, session_id: str, number: int
    ) -> VersionRow | None: ...
    def list_versions(
        self,
        namespace_id: NamespaceId,
        session_id: str,
        *,
        after: int,
        most: int,
        before: int | None = None,
    ) -> list[VersionRow]:
        """Returns the versions above `after` and below `before`, oldest first."""
        ...

    def iter_version_states(self, tenant_id: TenantId) -> Iterator[bytes]:
        """Yields the entry of every version's state: what collection has to keep."""
        ...

    def add_branch(self, tenant_id: TenantId, branch: BranchRow) -> None: ...
    def find_branch(self, tenant_id: TenantId, branch_id: str) -> BranchRow | None: ...
    def extend_branch(self, tenant_id: TenantId, branch_id: str, *, turns: int, more: int) -> bool:
        """Counts one more turn, of `more` bytes, on a branch that has so many.

        False if it has another number.
        """
        ...

    def add_turn(self, turn: TurnRow) -> None: ...
    def find_turn(self, turn_id: str) -> TurnRow | None: ...
    def list_turns(
        self, branch_id: str, *, after: int, before: int, most: int, descending: bool
    ) -> list[TurnRow]: ...

    def add_lagging(self, namespace_id: NamespaceId) -> None:
        """Notes that a namespace has sessions without rows."""
        ...

    def is_lagging(self, namespace_id: NamespaceId) -> bool: ...
    def drop_lagging(self, namespace_id: NamespaceId) -> None: ...
