"""What a session knows of things: an order, a customer, a file, each with attributes of its own.

An entity is a row beside its session: it is in no snapshot, and no version of a
state holds it. It is seen for as long as its session is. Every change of one leaves a trace in
its own transaction, and what was deleted keeps its row through the grace period.
"""

from datetime import datetime
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from holdfast.catalog.counting import ROW_BYTES
from holdfast.catalog.transaction import Transaction
from holdfast.display import Part
from holdfast.engine.core.context import Context
from holdfast.engine.core.limits import check_limit
from holdfast.engine.journal.chain import append
from holdfast.engine.planes.handle import Handle, check_text
from holdfast.engine.sessions import lifecycle
from holdfast.engine.sessions.finding import get_row
from holdfast.errors import EntityExists, EntityNotFound, InvalidName, LimitExceeded
from holdfast.ids import TenantId
from holdfast.jsontext import object_text
from holdfast.model.basics import Head
from holdfast.model.entities import Entity, EntityRow
from holdfast.model.sessions import SessionRow
from holdfast.model.traces import Trace
from holdfast.operations.checks import checked
from holdfast.operations.memories import (
    CreateEntity,
    DeleteEntity,
    GetEntity,
    ListEntities,
    UpdateEntity,
)
from holdfast.operations.operation import does

EntityList = list[Entity]
"""`list` is the name of a method below."""

MAX_NAME_CHARS: Final = 256
MAX_ATTRIBUTES_BYTES: Final = 64 << 10
"""An entity says what is known of a thing; the thing itself is kept elsewhere."""

MOST_OF_SESSION: Final = 10_000


@checked
class Entities(Part):
    """The entities of a namespace's sessions."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    @does(CreateEntity)
    def create(self, wanted: CreateEntity) -> Entity:
        context, now = self._handle.context, self._handle.context.clock()
        session_id = wanted.session_id
        made = EntityRow(
            id=context.ids.entity(),
            namespace_id=self._handle.empty_head().namespace_id,
            session_id=session_id,
            entity_type=_name("entity type", wanted.entity_type),
            entity_id=_name("entity id", wanted.entity_id),
            attributes=_checked(wanted.attributes),
            version=1,
            created_at=now,
            updated_at=now,
        )
        # Outside: a fork whose sessions have no rows yet writes them in its own transaction.
        lifecycle.get(self._handle, session_id)
        with context.work() as transaction:
            head = self._handle.lock(transaction)
            session, _ = get_row(transaction, self._handle, session_id, now=now)
            made = replace(made, namespace_id=head.namespace_id)
            if transaction.count_entities(head.namespace_id, session_id) >= MOST_OF_SESSION:
                message = f"a session knows {MOST_OF_SESSION} entities at the most"
                raise LimitExceeded(message)
            self._check_room(transaction, ROW_BYTES + len(made.attributes.encode()))
            if not transaction.add_entity(made):
                raise EntityExists(made.entity_type, made.entity_id)
            self._trace(transaction, head, session, "entity.created", made)
        return _to_entity(made)

    @does(GetEntity)
    def get(self, wanted: GetEntity) -> Entity:
        with self._handle.context.catalog.read() as transaction:
            return _to_entity(self._find(transaction, wanted.row_id)[1])

    @does(ListEntities)
    def list(self, wanted: ListEntities) -> EntityList:
        most = check_limit(wanted.limit)
        check_text("session id", wanted.session_id, max_chars=MAX_NAME_CHARS)
        check_text("entity type", wanted.entity_type, max_chars=MAX_NAME_CHARS)
        with self._handle.context.catalog.read() as transaction:
            before = None
            if wanted.starting_after is not None:
                before = self._seen(transaction, wanted.starting_after)
            head = self._handle.find_head(transaction)
            if head is None:
                return []
            rows = transaction.list_entities(
                head.namespace_id,
                now=self._handle.context.clock(),
                session_id=wanted.session_id,
                entity_type=wanted.entity_type,
                before=before,
                most=most,
            )
        return [_to_entity(row) for row in rows]

    @does(UpdateEntity)
    def update(self, wanted: UpdateEntity) -> Entity:
        # Nothing keeps what was known before.
        self._handle.context.check_takes_away("change an entity")
        text, now = _checked(wanted.attributes), self._handle.context.clock()
        with self._handle.context.work() as transaction:
            head, old, session = self._lock(transaction, wanted.row_id)
            new = replace(old, attributes=text, version=old.version + 1, updated_at=now)
            self._check_room(transaction, len(text.encode()) - len(old.attributes.encode()))
            transaction.set_entity(new, old=old)
            self._trace(transaction, head, session, "entity.updated", new)
        return _to_entity(new)

    @does(DeleteEntity)
    def delete(self, wanted: DeleteEntity) -> None:
        self._handle.context.check_takes_away("forget an entity")
        with self._handle.context.work() as transaction:
            head, old, session = self._lock(transaction, wanted.row_id)
            now = self._handle.context.clock()
            transaction.delete_entity(head.namespace_id, old.id, now=now)
            self._trace(transaction, head, session, "entity.deleted", old)

    def recover(self, row_id: str) -> Entity:
        """Brings a forgotten thing back during the grace period, unless it was noted anew."""
        with self._handle.context.work() as transaction:
            locked = self._handle.find_and_lock(transaction)
            if locked is None or not transaction.recover_entity(locked.namespace_id, row_id):
                raise EntityNotFound(row_id)
            head, found, session = self._lock(transaction, row_id)
            self._trace(transaction, head, session, "entity.recovered", found)
        return _to_entity(found)

    def _seen(self, transaction: Transaction, row_id: str) -> tuple[datetime, str]:
        """Returns where a list goes on; the entity may be gone since it was seen."""
        check_text("entity id", row_id, max_chars=MAX_NAME_CHARS)
        head = self._handle.find_head(transaction)
        last = head and transaction.find_entity_as_seen(head.namespace_id, row_id)
        if last is None:
            last = self._find(transaction, row_id)[1]
        return last.created_at, last.id

    def _find(self, transaction: Transaction, row_id: str) -> tuple[Head, EntityRow]:
        check_text("entity id", row_id, max_chars=MAX_NAME_CHARS)
        head, now = self._handle.find_head(transaction), self._handle.context.clock()
        found = head and transaction.find_entity(head.namespace_id, row_id, now=now)
        if head is None or found is None:
            raise EntityNotFound(row_id)
        return head, found

    def _lock(self, transaction: Transaction, row_id: str) -> tuple[Head, EntityRow, SessionRow]:
        if self._handle.find_and_lock(transaction) is None:
            raise EntityNotFound(row_id)
        head, found = self._find(transaction, row_id)
        now = self._handle.context.clock()
        session, _ = get_row(transaction, self._handle, found.session_id, now=now)
        return head, found, session

    def _check_room(self, transaction: Transaction, needed_bytes: int) -> None:
        if needed_bytes > 0:  # What becomes less is let through: it is how room is made.
            self._handle.context.check_room(transaction, self._handle.tenant_id, needed_bytes)

    def _trace(
        self,
        transaction: Transaction,
        head: Head,
        session: SessionRow,
        action: str,
        entity: EntityRow,
    ) -> None:
        """Says in the transaction of the change what was done, and not what is known."""
        trace = Trace(
            action=action,
            session_id=session.id,
            user_id=session.user_id,
            agent_id=session.agent_id,
            resource_type="entity",
            resource_id=entity.id,
            details={
                "entity_type": entity.entity_type,
                "entity_id": entity.entity_id,
                "version": entity.version,
            },
        )
        append(transaction, self._handle.context, head, trace, door=self._handle.door)


def purge_entities(context: Context, tenant_id: TenantId, *, before: datetime) -> int:
    """Lets go for good of what was deleted by then; returns how many entities that were."""
    with context.catalog.write() as transaction:
        count = transaction.purge_deleted_entities(tenant_id, before=before)
        if count:
            told = Trace(action="entity.purged", resource_type="entity", details={"count": count})
            append(transaction, context, tenant_id, told)
    return count


def _name(kind: str, name: str) -> str:
    check_text(kind, name, max_chars=MAX_NAME_CHARS)
    if not name:
        raise InvalidName(kind, name, reason="it is empty")
    return name


def _checked(attributes: dict[str, Any] | None) -> str:
    return object_text("attributes", attributes, max_bytes=MAX_ATTRIBUTES_BYTES)


def _to_entity(row: EntityRow) -> Entity:
    return Entity(
        id=row.id,
        session_id=row.session_id,
        entity_type=row.entity_type,
        entity_id=row.entity_id,
        attributes=msgspec.json.decode(row.attributes),
        version=row.version,
        created_at=row.created_at,
        updated_at=row.updated_at,
    )
