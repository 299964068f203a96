"""Erases something for good: the named exception to "deleting is not destroying".

1. In one transaction the rows go, of a user in one for each namespace, with what was told of them
   elsewhere; rows of the journal keep their place and lose what they said, and snapshots that held
   a part of it get roots without it. A row of `erasures` says that it is under way.
2. Packs that hold anything that nobody needs are copied without it, and those that were retired
   go: at once, whatever their period (`collect` without waste). Conversations go, as far as nothing
   else shows them.
3. The catalog is scrubbed: free pages, the index of words, the log.
4. The tenant's chain says that it is done, and the certificate is kept.

Killed between any two, or if one fails, the row says that it is not finished: whoever erases
next, and upkeep, go on. Nothing that was done has to be undone for that, and all may be done twice.

Says who else holds a session that is erased: forks of it, and forks of its namespace.

Finishes erasures: what is under way, and what was interrupted. All of it may be done twice.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from holdfast.catalog.transaction import Transaction
from holdfast.display import Part
from holdfast.engine.core.context import Context
from holdfast.engine.erasing import certifying, whole
from holdfast.engine.erasing.certifying import (
    Unfinished,
    certify,
    certify_all,
    encode,
    is_readable,
    read_unfinished,
)
from holdfast.engine.erasing.parts import Counts, Wanted, take_out
from holdfast.engine.erasing.rewriting import Timeline
from holdfast.engine.erasing.telling import erase_events, redact_user
from holdfast.engine.erasing.whole import let_go, let_go_of_copies
from holdfast.engine.journal.occurrences import shortened
from holdfast.engine.objects.reader import Objects
from holdfast.engine.objects.stage import Stage, StagedObjects
from holdfast.engine.planes.handle import check_text
from holdfast.engine.planes.view import View
from holdfast.engine.sessions.purging import trim
from holdfast.engine.upkeep.collect import collect
from holdfast.errors import (
    Busy,
    Damaged,
    HoldfastError,
    InvalidName,
    InvalidValue,
    NamespaceNotFound,
    SessionNotFound,
    Unavailable,
)
from holdfast.ids import NamespaceId
from holdfast.model.basics import Head, Plane, Tenant
from holdfast.model.erasures import Certificate, Erased, ErasureRow
from holdfast.model.events import EventRow
from holdfast.operations.checks import checked
from holdfast.operations.operation import does
from holdfast.operations.upkeep import ListErasures
from holdfast.progress import Progress, no_progress
from holdfast.tree import get

_MAX_ID_CHARS: Final = 4096
"""As long as the id of a user may be."""

Lock = Callable[[Transaction], Head | None]
"""Finds a namespace, and locks its head."""


@checked
class Erasures(Part):
    """What was erased of a tenant, and how more is."""

    def __init__(self, context: Context, tenant: Tenant) -> None:
        self._context, self._tenant = context, tenant

    def namespace(
        self, name: str, *, number: int | None = None, progress: Progress = no_progress
    ) -> Certificate:
        """Erases a namespace for good, with all bytes that nothing else needs; no way back.

        Of several with this name the live one, else the last deleted, or that with the `number`
        that `deleted_namespaces` tells. Namespaces that were forked from it keep what they hold.
        One whose erasure was interrupted is finished.
        """
        return self._namespace(name, number, progress)

    def _namespace(
        self, name: str, number: int | None, progress: Progress, *, known_as: str | None = None
    ) -> Certificate:
        context = self._context
        chosen = None if number is None else NamespaceId(number)
        self._prepare("erase a namespace")
        with context.catalog.write() as transaction:
            head = whole.find_namespace(transaction, self._tenant, name, chosen)
            if head is not None:
                told = Unfinished(
                    copies=whole.forks_of(transaction, head), created_at=head.created_at
                )
                told = told.adding(whole.take_away(transaction, context, head))
                begun = self._begin(
                    transaction, Erased.NAMESPACE, told, head=head, known_as=known_as
                )
            else:
                rows = transaction.list_erasures(self._tenant.id)
                mine = [row for row in _begun(rows, Erased.NAMESPACE) if row.namespace == name]
                begun = next((row.id for row in mine if number in (None, row.namespace_id)), None)
        done = self._finish(begun, progress)
        if done is None:
            raise NamespaceNotFound(name)
        return done

    def session(
        self, namespace: str, session_id: str, *, progress: Progress = no_progress
    ) -> Certificate:
        """Erases a session for good: state, conversation, history, memories and entities.

        Snapshots that held it get a root without it. Forks of the session and of the namespace
        keep what they hold. One whose erasure was interrupted is finished.
        """
        tenant_id = self._tenant.id
        done = self._session(
            lambda transaction: transaction.lock_live_head(tenant_id, namespace),
            session_id,
            progress,
        )
        if done is not None:
            return done
        with self._context.catalog.read() as transaction:
            is_there = transaction.find_head(tenant_id, namespace) is not None
        raise SessionNotFound(session_id) if is_there else NamespaceNotFound(namespace)

    def user(self, user_id: str, *, progress: Progress = no_progress) -> Certificate:
        """Erases all that is known to be a user's, in all namespaces, deleted ones too.

        That is their sessions, with all that `session` takes, their memories, and what traces say
        of them. What files and values of the store say of them nobody knows. The certificate may
        say that there was nothing. It has the user's id; the vault keeps it without that.
        One whose erasure was interrupted is finished.
        """
        return self._user(user_id, progress)

    def _user(
        self, user_id: str, progress: Progress, *, known_as: str | None = None
    ) -> Certificate:
        self._prepare("erase a user")
        _check("user", user_id)
        begun = self._begin_user(user_id, known_as=known_as)
        # None while others ask for the same user: somebody looks once more, and that may be us.
        while (done := self._finish(begun, progress)) is None:
            self._check_listed(begun)
        return msgspec.structs.replace(done, user_id=user_id)

    def again(self, certificate: Certificate) -> Certificate | None:
        """Erases what a certificate names, after an older catalog was brought back.

        Returns None if there is nothing of it here, or if it was erased here already; one that was
        only begun here is finished. Raises `InvalidValue` for that of a user which does not say
        who: the vault's own list does not.

        It has the same `erasure_id` here: of whoever comes back after it, nothing is erased when
        the same certificate is used again on what is made of a later backup.
        """
        tenant = self._tenant
        if certificate.tenant_id != tenant.public_id:
            return None
        with self._context.catalog.read() as transaction:
            rows = {row.id: row for row in transaction.list_erasures(tenant.id)}
        row = rows.get(certificate.erasure_id)
        if row is not None and row.finished_at is not None:
            return None
        if row is not None:
            self._prepare("finish an erasure")
            done = self._finish(row.id, no_progress)
            return done and msgspec.structs.replace(done, user_id=certificate.user_id)
        if certificate.what is Erased.USER:
            if certificate.user_id is None:
                error = InvalidValue("this certificate of a user does not say who was erased")
                error.hint = (
                    "Pass the one that `erase` has returned: the vault's list names nobody."
                )
                raise error
            return self._user(certificate.user_id, no_progress, known_as=certificate.erasure_id)
        return self._again_in_namespace(certificate)

    def _again_in_namespace(self, certificate: Certificate) -> Certificate | None:
        tenant = self._tenant
        number = NamespaceId(certificate.namespace_id or 0)
        with self._context.catalog.read() as transaction:
            head = transaction.find_head_by_id(number)
        created_at = certificate.namespace_created_at
        if head is None or (head.tenant_id, head.created_at) != (tenant.id, created_at):
            return None
        if certificate.session_id is None:
            return self._namespace(head.name, number, no_progress, known_as=certificate.erasure_id)
        lock: Lock = lambda transaction: transaction.lock_head(number)  # noqa: E731 - one line
        return self._session(
            lock, certificate.session_id, no_progress, known_as=certificate.erasure_id
        )

    @does(ListErasures)
    def list(self, _: ListErasures) -> list[Certificate]:
        with self._context.catalog.read() as transaction:
            rows = transaction.list_erasures(self._tenant.id)
        return [certifying.read(row) for row in rows if row.finished_at is not None]

    def finish(self) -> None:
        """Finishes what was interrupted."""
        finish_all(self._context, self._tenant)

    def _session(
        self, lock: Lock, session_id: str, progress: Progress, *, known_as: str | None = None
    ) -> Certificate | None:
        """Erases a session of the namespace that `lock` finds; None if there is none."""
        context, begun = self._context, None
        self._prepare("erase a session")
        _check("session", session_id)
        stage = Stage(context, self._tenant.id, counts=False)
        with stage, context.catalog.write() as transaction:
            head = lock(transaction)
            if head is not None:
                copies = copies_of(transaction, context, head, session_id)
                wanted = Wanted(session_id=session_id)
                counts = take_out(transaction, context, stage, head, wanted)
                if counts.is_nothing and known_as is None:
                    rows = transaction.list_erasures(self._tenant.id)
                    it = (head.namespace_id, session_id)
                    mine = _begun(rows, Erased.SESSION)
                    found = (row.id for row in mine if (row.namespace_id, row.subject) == it)
                    begun = next(found, None)
                else:
                    told = Unfinished(counts, copies, head.created_at)
                    begun = self._begin(
                        transaction,
                        Erased.SESSION,
                        told,
                        head=head,
                        subject=session_id,
                        known_as=known_as,
                    )
                    if counts.is_nothing:
                        # Noted all the same: whoever has this id from now on came after it.
                        certify(transaction, context, self._tenant, begun)
                        begun = None
        return self._finish(begun, progress)

    def _finish(self, begun: str | None, progress: Progress) -> Certificate | None:
        """Finishes what is under way; returns the certificate of that with this id.

        Whoever else erases may have finished it before us: then nothing is wrong that kept us.
        """
        try:
            finish_all(self._context, self._tenant, progress=progress)
        except HoldfastError as exc:
            done = self._find(begun)
            if done is None:
                if begun is not None:
                    certifying.say_it_has_begun(exc)
                raise
            return done
        return self._find(begun)

    def _find(self, erasure_id: str | None) -> Certificate | None:
        with self._context.catalog.read() as transaction:
            rows = transaction.list_erasures(self._tenant.id)
        done = (row for row in rows if row.id == erasure_id and row.finished_at is not None)
        return next((certifying.read(row) for row in done), None)

    def _check_listed(self, erasure_id: str) -> None:
        """Raises if an erasure is no longer listed: a repair lets go of a row that is damaged."""
        with self._context.catalog.read() as transaction:
            rows = transaction.list_erasures(self._tenant.id)
        if all(row.id != erasure_id for row in rows):
            raise Damaged(f"the erasure {erasure_id} is not listed any more; ask for it again")

    def _prepare(self, what: str) -> None:
        self._context.check_takes_away(what)
        self._context.catalog.make_room()

    def _begin_user(self, user_id: str, *, known_as: str | None) -> str:
        """Says that a user's erasure is under way, or goes on with the one that is."""
        catalog, tenant_id = self._context.catalog, self._tenant.id
        if known_as is not None:
            with catalog.write() as transaction:
                return self._begin(
                    transaction, Erased.USER, Unfinished(), subject=user_id, known_as=known_as
                )
        with catalog.read() as transaction:
            rows = [*_begun(transaction.list_erasures(tenant_id), Erased.USER)]
        mine = {row.id for row in rows if _is_of(row, user_id)}
        with catalog.write() as transaction:
            for row in _begun(transaction.list_erasures(tenant_id), Erased.USER):
                if row.id in mine or row.subject == user_id:
                    told = read_unfinished(row)
                    told = msgspec.structs.replace(told, times_asked=told.times_asked + 1)
                    # Once more: there may be something of theirs that was not there before.
                    transaction.set_erasure(
                        msgspec.structs.replace(row, subject=user_id, told=encode(told))
                    )
                    return row.id
            return self._begin(transaction, Erased.USER, Unfinished(), subject=user_id)

    def _begin(
        self,
        transaction: Transaction,
        what: Erased,
        told: Unfinished,
        *,
        head: Head | None = None,
        subject: str | None = None,
        known_as: str | None = None,
    ) -> str:
        """Says that an erasure is under way, in the transaction that begins it; returns its id.

        One that is done again keeps the id that it is known by; raises `Busy` if another is at it.
        """
        rows = () if known_as is None else transaction.list_erasures(self._tenant.id)
        if any(row.id == known_as for row in rows):
            raise Busy(f"the erasure {known_as} is under way already")
        row = ErasureRow(
            id=self._context.ids.erasure() if known_as is None else known_as,
            tenant_id=self._tenant.id,
            what=what,
            namespace_id=None if head is None else head.namespace_id,
            namespace=None if head is None else head.name,
            subject=subject,
            begun_at=self._context.clock(),
            told=certifying.encode(told),
        )
        transaction.add_erasure(row)
        return row.id


def _begun(rows: Iterable[ErasureRow], what: Erased) -> Iterator[ErasureRow]:
    """Returns the erasures of a kind that were interrupted, or are under way."""
    return (row for row in rows if row.what is what and row.finished_at is None)


def _is_of(row: ErasureRow, user_id: str) -> bool:
    """Says whether an erasure is of this user, whom it may have forgotten."""
    mark = read_unfinished(row).mark if is_readable(row) else None
    return row.subject == user_id or (mark is not None and certifying.is_of(mark, user_id))


def _check(kind: str, given: str) -> None:
    """Raises `InvalidName` for what is nobody's id."""
    if not given:
        raise InvalidName(kind, given, reason="it is empty")
    check_text(kind, given, max_chars=_MAX_ID_CHARS)


def copies_of(transaction: Transaction, context: Context, head: Head, session_id: str) -> list[str]:
    """Returns the sessions that may hold the same, each behind its namespace and a slash."""
    objects, key = Objects(context, head.tenant_id, transaction), session_id.encode()
    family = _family(transaction.iter_heads(head.tenant_id), head)
    forks = transaction.forks_of(head.namespace_id, session_id)
    copies = [f"{head.name}/{each}" for each in forks]
    copies += [
        f"{each.name}/{session_id}" for each in family if _holds(transaction, objects, each, key)
    ]
    return sorted(copies)


def _family(heads: list[Head], head: Head) -> list[Head]:
    """Returns the other namespaces that one was forked from, or that were forked from it."""
    known, size = {head.namespace_id}, 0
    while len(known) > size:
        size = len(known)
        for each in heads:
            if each.fork_of is not None and not known.isdisjoint({each.namespace_id, each.fork_of}):
                known |= {each.namespace_id, each.fork_of}
    return [each for each in heads if each.namespace_id in known - {head.namespace_id}]


def _holds(transaction: Transaction, objects: Objects, head: Head, key: bytes) -> bool:
    """Says whether a namespace has a session of this id, now or in a snapshot."""
    if View.of_head(objects, transaction, head, Plane.SESSIONS).get(key) is not None:
        return True
    maps = Timeline(transaction, head).maps(StagedObjects(objects), Plane.SESSIONS)
    return any(get(objects, at, key) is not None for at in maps)


def finish_all(
    context: Context, tenant: Tenant, *, progress: Progress = no_progress
) -> list[Certificate]:
    """Finishes a tenant's erasures that are under way or were interrupted, newest first.

    Raises `Busy` while others collect, or make a backup, or read for long; `Damaged` if something
    cannot be read. Then nothing is finished, and whoever comes next goes on.
    """
    with context.catalog.read() as transaction:
        rows = [row for row in transaction.list_erasures(tenant.id) if row.finished_at is None]
    if not rows:
        return []
    for row in rows:
        if row.what is Erased.USER and row.subject is not None:
            _take_user(context, tenant, row, row.subject)
        elif row.what is Erased.NAMESPACE:
            let_go(context, tenant, row.namespace or "")
    let_go_of_copies(context)
    with context.catalog.write() as transaction:
        transaction.erase_replies(tenant.id)
    collected = collect(context, tenant.id, now=True, waste=0, progress=progress)
    if collected.damaged:
        raise Damaged(f"what is damaged could not be rewritten: {', '.join(collected.damaged[:3])}")
    if collected.bytes_retired:
        raise Unavailable("bytes that nothing needs could not be given back: see `holdfast doctor`")
    trim(context, tenant.id)
    context.forget_caches()
    context.catalog.scrub()
    with context.catalog.write() as transaction:
        done = certify_all(transaction, context, tenant, [row for row in rows if is_readable(row)])
    for row in rows:
        read_unfinished(row)  # One that cannot be read keeps no other waiting.
    return done


def _take_user(context: Context, tenant: Tenant, row: ErasureRow, user_id: str) -> None:
    """Takes a user out of every namespace, and out of what was told of those that are gone.

    With the last of it the row forgets who it was, and has a mark; unless somebody has asked for
    the same user meanwhile: then it is not the last.
    """
    mark = certifying.mark_of(user_id, context.ids.salt())
    told = dict[NamespaceId, list[str]]()
    with context.catalog.read() as transaction:
        for namespace_id, session_id in transaction.sessions_in_events(tenant.id, user_id):
            told.setdefault(namespace_id, []).append(session_id)
    seen = set[NamespaceId]()
    # Until there are no more: one may be forked from another that still had to be looked at.
    while left := _namespaces(context, tenant, seen):
        for namespace_id in left:
            _take_user_from(context, tenant, row, namespace_id, told)
        seen.update(left)
    with context.catalog.write() as transaction:
        redacted = redact_user(transaction, tenant.id, user_id)
        known = shortened(user_id)
        # Of an id that another has, what was told of the user says so.
        gone = {
            (namespace_id, each)
            for namespace_id, ids in told.items()
            for each in ids
            if transaction.find_holder(namespace_id, each) is None
        }

        def is_theirs(event: EventRow, data: dict[str, Any]) -> bool:
            # What was told of a namespace that is gone has its id all the same.
            place = event.namespace_id, data.get("session_id")
            return data.get("user_id") == known or place in gone

        erase_events(transaction, context, tenant.id, is_theirs)
        _note(transaction, tenant, row, Counts(redacted_rows=redacted), mark=mark)


def _namespaces(context: Context, tenant: Tenant, seen: set[NamespaceId]) -> list[NamespaceId]:
    with context.catalog.read() as transaction:
        heads = transaction.iter_heads(tenant.id)
    return [head.namespace_id for head in heads if head.namespace_id not in seen]


def _take_user_from(
    context: Context,
    tenant: Tenant,
    row: ErasureRow,
    namespace_id: NamespaceId,
    told: Mapping[NamespaceId, Sequence[str]],
) -> None:
    wanted = Wanted(user_id=row.subject, sessions=tuple(told.get(namespace_id, ())))
    stage = Stage(context, tenant.id, counts=False)
    with stage, context.catalog.write() as transaction:
        head = transaction.lock_head(namespace_id)
        if head is not None:
            counts = take_out(transaction, context, stage, head, wanted)
            _note(transaction, tenant, row, counts)


def _note(
    transaction: Transaction,
    tenant: Tenant,
    row: ErasureRow,
    counts: Counts,
    *,
    mark: str | None = None,
) -> None:
    """Adds to what is known of a user's erasure, in the transaction that did it.

    With a mark the row, as it was before, is done with, and forgets who it was.
    """
    now = next(each for each in transaction.list_erasures(tenant.id) if each.id == row.id)
    if now.finished_at is not None:
        return
    told, subject = read_unfinished(now).adding(counts), now.subject
    if mark is not None and told.times_asked == read_unfinished(row).times_asked:
        told, subject = msgspec.structs.replace(told, mark=mark), None
    transaction.set_erasure(msgspec.structs.replace(now, subject=subject, told=encode(told)))
