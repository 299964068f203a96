"""The part of a transaction that is about what a session knows of things, and about totals.

An entity is there for as long as its session is: of one that was deleted, or whose time is over,
no row is found; it is found again when a restore brings the session back, and goes for good when
the session's row does.
"""

from collections.abc import Mapping
from datetime import datetime
from operator import attrgetter
from typing import Final

from holdfast.catalog.absence import AbsenceQueries
from holdfast.catalog.counting import MOST_COUNTED, all_of, text_bytes
from holdfast.catalog.driver import Driver
from holdfast.catalog.rows import ENTITY, NO_LIMIT, SESSION, Row, get_row
from holdfast.errors import Damaged
from holdfast.ids import LAST_ID, NamespaceId, TenantId
from holdfast.instants import from_us, to_us
from holdfast.model.entities import EntityRow

_ALL: Final = 0
"""No namespace has this number."""

_HOUR_US: Final = 3_600_000_000


class EntityQueries(AbsenceQueries):
    """Rows of entities; totals are of one namespace, or with None of all that a tenant has."""

    __slots__ = ()

    _db: Driver

    def add_entity(self, entity: EntityRow) -> bool:
        """Adds an entity; False if its session knows one of this type and id already."""
        row = ENTITY.write(entity)
        if self._db.run("add_entity", **row) == 0:
            return False
        self.count_in(entity.namespace_id, entities=1, row_bytes=text_bytes("entity", row))
        return True

    def find_entity(
        self, namespace_id: NamespaceId, row_id: str, *, now: datetime
    ) -> EntityRow | None:
        asked = {"namespace_id": namespace_id, "id": row_id, "now": to_us(now)}
        row = self._db.one("find_entity", **asked) or self.look_again(ENTITY, "find_entity", asked)
        if row is None:
            self._check_ended(asked)
        return None if row is None else _to_entity(row)

    def find_entity_as_seen(self, namespace_id: NamespaceId, row_id: str) -> EntityRow | None:
        """Returns an entity, be it deleted, or its session, since somebody has seen it."""
        row = self._db.one("find_entity_as_seen", namespace_id=namespace_id, id=row_id)
        return None if row is None else ENTITY.read(row)

    def list_entities(
        self,
        namespace_id: NamespaceId,
        *,
        now: datetime,
        session_id: str | None,
        entity_type: str | None,
        before: tuple[datetime, str] | None,
        most: int,
    ) -> list[EntityRow]:
        """Returns entities, newest first, below `before`; raises `Damaged` if one is missing."""
        compare = self.comparing(namespace_id, "entities")
        instant, row_id = (NO_LIMIT, LAST_ID) if before is None else (to_us(before[0]), before[1])
        where: dict[str, object] = {"namespace_id": namespace_id, "now": to_us(now), "most": most}
        where |= {"entity_type": entity_type or "", "before_at": instant, "before_id": row_id}
        if session_id is None:
            rows = self._db.all("list_entities", **where)
        else:
            rows = self._db.all("list_entities_of_session", session_id=session_id, **where)
        wanted = compare()
        if len(rows) < most and len(rows) < wanted <= MOST_COUNTED:
            ended = self._check_ended({**where, "id": ""})
            if session_id is entity_type is before is None:
                compare(len(rows) + ended)
        found = (_to_entity(row) for row in rows)
        return all_of(namespace_id, found, attrgetter("created_at", "id"))

    def _check_ended(self, asked: Mapping[str, object]) -> int:
        """Returns how many entities are not shown since their sessions have ended.

        Raises `Damaged` if the row of such a session is damaged.
        """
        return len([*map(SESSION.read, self._db.all("ended_sessions_of_entities", **asked))])

    def count_entities(self, namespace_id: NamespaceId, session_id: str) -> int:
        row = self._db.one("count_entities", namespace_id=namespace_id, session_id=session_id)
        return get_row(row, "count")[0]

    def set_entity(self, entity: EntityRow, *, old: EntityRow) -> None:
        """Replaces what can change in an entity's row."""
        row = ENTITY.write(entity)
        self._db.say("set_entity", **row)
        more = text_bytes("entity", row) - text_bytes("entity", ENTITY.write(old))
        self.count_in(entity.namespace_id, row_bytes=more)

    def delete_entity(self, namespace_id: NamespaceId, row_id: str, *, now: datetime) -> None:
        """Takes an entity away; its row stays until `purge_deleted_entities`."""
        self._db.say("delete_entity", namespace_id=namespace_id, id=row_id, now=to_us(now))
        self.count_in(namespace_id, entities=-1)

    def recover_entity(self, namespace_id: NamespaceId, row_id: str) -> bool:
        """Brings a deleted entity back; False if there is none, or its place is taken."""
        if self._db.run("recover_entity", namespace_id=namespace_id, id=row_id) == 0:
            return False
        self.count_in(namespace_id, entities=1)
        return True

    def purge_deleted_entities(self, tenant_id: TenantId, *, before: datetime) -> int:
        """Removes for good what was deleted by then; returns how many entities that were."""
        queries = ("purge_deleted_entities", "purge_deleted_former_entities")
        where = {"tenant_id": tenant_id, "before": to_us(before)}
        return sum(self._db.run(query, **where) for query in queries)

    def total_sessions(
        self, tenant_id: TenantId, namespace_id: NamespaceId | None, *, now: datetime
    ) -> tuple[int, int]:
        """Returns how many sessions there are, and how many turns their conversations have."""
        row = self._db.one(
            "total_sessions",
            tenant_id=tenant_id,
            namespace_id=_ALL if namespace_id is None else namespace_id,
            now=to_us(now),
        )
        sessions, turns = get_row(row, "count")
        return int(sessions), int(turns)

    def total_memories(self, tenant_id: TenantId, namespace_id: NamespaceId | None) -> int:
        row = self._db.one(
            "total_memories",
            tenant_id=tenant_id,
            namespace_id=_ALL if namespace_id is None else namespace_id,
        )
        return get_row(row, "count")[0]

    def total_entities(
        self, tenant_id: TenantId, namespace_id: NamespaceId | None, *, now: datetime
    ) -> int:
        row = self._db.one(
            "total_entities",
            tenant_id=tenant_id,
            namespace_id=_ALL if namespace_id is None else namespace_id,
            now=to_us(now),
        )
        return get_row(row, "count")[0]

    def count_by_hour(
        self, tenant_id: TenantId, namespace_id: NamespaceId | None, *, since: datetime
    ) -> list[tuple[datetime, int]]:
        """Returns how many traces each hour has, oldest first; hours without any are left out."""
        rows = self._db.all(
            "count_by_hour",
            tenant_id=tenant_id,
            namespace_id=_ALL if namespace_id is None else namespace_id,
            since=to_us(since),
        )
        return [(from_us(hour * _HOUR_US), count) for hour, count in rows]


def _to_entity(row: Row) -> EntityRow:
    """Returns the entity of a row that has its session's id last; raises `Damaged` for none."""
    entity = ENTITY.read(row[:-1])
    if row[-1] is None:
        message = f"the catalog has lost the row of the session {entity.session_id}"
        raise Damaged(message)
    return entity
