"""The part of a transaction that is about memories.

A memory is found by its words. An index knows which memories hold a word; it changes in the
transaction in which the memory does, and a namespace shares no word with another: what one of
them holds can be told neither from what another finds nor from how it ranks.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from holdfast.ids import NamespaceId, TenantId
from holdfast.model_memories import MemoryFilter, MemoryRow


class MemoryRows(Protocol):
    """Rows of memories and the index of their words."""

    def add_memory(self, memory: MemoryRow) -> None: ...
    def find_memory(self, namespace_id: NamespaceId, memory_id: str) -> MemoryRow | None:
        """Returns a memory that is not deleted; its embedding too."""
        ...

    def set_memory(self, memory: MemoryRow) -> None:
        """Replaces what can change in a memory that is there."""
        ...

    def delete_memory(self, namespace_id: NamespaceId, number: int, *, now: datetime) -> None: ...
    def recover_memory(self, namespace_id: NamespaceId, memory_id: str) -> bool:
        """Takes a deletion back; False if there is no such memory, or it is not deleted."""
        ...

    def delete_memories_of(
        self, namespace_id: NamespaceId, session_id: str, *, now: datetime
    ) -> int:
        """Deletes what belongs to a session; returns how many memories that were."""
        ...

    def purge_memories(self, tenant_id: TenantId, *, before: datetime) -> int:
        """Removes what was deleted by then for good; returns how many memories that were."""
        ...

    def list_memories(
        self, namespace_id: NamespaceId, chosen: MemoryFilter, *, before: int | None, most: int
    ) -> list[MemoryRow]:
        """Returns memories numbered below `before`, newest first, without their embeddings."""
        ...

    def get_memories(self, namespace_id: NamespaceId, numbers: Sequence[int]) -> list[MemoryRow]:
        """Returns memories that are there, in any order, without their embeddings."""
        ...

    def count_memories(self, namespace_id: NamespaceId, session_id: str) -> int: ...
    def memory_bytes(self, tenant_id: TenantId) -> int:
        """Returns what a tenant's memories take, deleted ones too."""
        ...

    def count_searchable(self, namespace_id: NamespaceId) -> int: ...
    def count_holders(self, namespace_id: NamespaceId, words: Sequence[str]) -> dict[str, int]:
        """Returns how many memories hold a word, for each that at least one holds."""
        ...

    def match_memories(
        self, namespace_id: NamespaceId, words: Sequence[str], chosen: MemoryFilter
    ) -> list[tuple[int, str]]:
        """Returns number and terms of memories that hold one of these words.

        A word that ends with `*` stands for all that begin so.
        """
        ...

    def page_embeddings(
        self, namespace_id: NamespaceId, chosen: MemoryFilter, *, after: int, most: int
    ) -> list[tuple[int, bytes]]:
        """Returns number and embedding of memories numbered above `after`, oldest first."""
        ...
