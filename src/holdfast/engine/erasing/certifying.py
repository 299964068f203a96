"""What a certificate says: what went, what stays, and what is out of reach.

Before the catalog is scrubbed no row names a user any more who is forgotten, and who asks again
after a crash names one. A mark says whether it is the same: random bytes, and a slow hash of both.
It goes with the certificate, after which nothing is scrubbed: SQLite overwrites it where it lay,
and PostgreSQL when it next vacuums that table.
"""

import hashlib
import hmac
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from typing import Final, TypeVar

import msgspec

from holdfast.catalog.transaction import Transaction
from holdfast.engine.core.context import Context
from holdfast.engine.erasing.parts import Counts
from holdfast.engine.journal.actions import trace_of_namespace
from holdfast.engine.journal.chain import append
from holdfast.errors import Damaged, HoldfastError, StorageFull
from holdfast.model.basics import Tenant
from holdfast.model.erasures import Certificate, Erased, ErasureRow
from holdfast.model.traces import OWN, Trace

T = TypeVar("T")

_ROWS: Final = (
    "the rows of the journal: what kind of thing was done, and when; in those that came from a "
    "catalog of format 15, ids"
)
_ITSELF: Final = "what this certificate says, in the list of erasures"
_NOT_WHO: Final = "what this certificate says, without the id of the user, in the list of erasures"
_ELSEWHERE: Final = "what files, values of the store and others' sessions say of it: nobody knows"

STAYS: Final = {
    Erased.NAMESPACE: (
        _ROWS,
        "the name of the namespace, in the row that says that it went, and in keys and webhooks",
        _ITSELF,
    ),
    Erased.SESSION: (
        _ROWS,
        "the id of the session, in what was forked from it, and in turns of others that name it",
        _ELSEWHERE,
        _ITSELF,
    ),
    Erased.USER: (_ROWS, _ELSEWHERE, _NOT_WHO),
}
OUT_OF_REACH: Final = (
    "backups: `holdfast reinstate --erased CERTIFICATE` erases it from what is made of one",
    "exports, archives, copies of the vault, and what clients, webhooks and mirrors were sent",
    "attached directories themselves, and Git remotes",
    "logs that were kept as evidence of damage, beside the catalog",
    "blocks that the disk, the file system or its snapshots have not overwritten",
)
_OF_POSTGRES: Final = "the write-ahead log of PostgreSQL, its replicas and its own backups"


class Unfinished(msgspec.Struct, frozen=True):
    """What is known of an erasure before it is finished."""

    counts: Counts = Counts()
    copies: list[str] = []
    created_at: datetime | None = None
    """When the namespace was made."""
    mark: str | None = None
    """By what a user is known again who is forgotten: see `mark_of`."""
    times_asked: int = 1
    """How often somebody has asked for it: of a user, there may be more since."""

    def adding(self, counts: Counts) -> "Unfinished":
        """Returns the same, and what went besides."""
        return msgspec.structs.replace(self, counts=self.counts + counts)


def encode(told: Unfinished | Certificate) -> str:
    """Returns what a row keeps of it."""
    return msgspec.json.encode(told).decode()


def read(row: ErasureRow) -> Certificate:
    """Returns the certificate of an erasure that is finished; raises `Damaged`."""
    return _decode(row, Certificate)


def read_unfinished(row: ErasureRow) -> Unfinished:
    """Returns what is known of one that is not; raises `Damaged`."""
    return _decode(row, Unfinished)


def is_readable(row: ErasureRow) -> bool:
    """Says whether what is known of one that is not finished can be read."""
    with suppress(Damaged):
        read_unfinished(row)
        return True
    return False


def certify_all(
    transaction: Transaction, context: Context, tenant: Tenant, erasures: Sequence[ErasureRow]
) -> list[Certificate]:
    """Certifies erasures together, but for those of users that were asked for again just now.

    First the marks of users go: a row of the same length is written over the one before, and a
    longer one moves those beside it, and leaves what it takes the place of.
    """
    ids = [row.id for row in erasures]
    for row in transaction.list_erasures(tenant.id):
        if row.id in ids and row.finished_at is None and row.subject is None:
            told = read_unfinished(row)
            told = msgspec.structs.replace(told, mark=told.mark and blank(told.mark))
            transaction.set_erasure(msgspec.structs.replace(row, told=encode(told)))
    done = [certify(transaction, context, tenant, each) for each in ids]
    return [each for each in done if each is not None]


def certify(
    transaction: Transaction, context: Context, tenant: Tenant, erasure_id: str
) -> Certificate | None:
    """Says in the tenant's chain that something was erased, and keeps the certificate.

    If another has just done so, that one's certificate is the one. Returns None for a user whom
    another has just asked to erase again: there may be something of theirs.
    """
    transaction.lock_end(tenant.id, OWN)
    row = next(each for each in transaction.list_erasures(tenant.id) if each.id == erasure_id)
    if row.finished_at is not None:
        return read(row)
    if row.what is Erased.USER and row.subject is not None:
        return None
    told, now = read_unfinished(row), context.clock()
    append(transaction, context, tenant.id, _trace(row))
    end = transaction.lock_end(tenant.id, OWN)
    certificate = Certificate(
        erasure_id=row.id,
        tenant_id=tenant.public_id,
        what=row.what,
        namespace_id=row.namespace_id,
        namespace=row.namespace,
        namespace_created_at=told.created_at,
        session_id=row.subject if row.what is Erased.SESSION else None,
        begun_at=row.begun_at,
        finished_at=now,
        removed=told.counts.removed,
        rewritten_snapshots=told.counts.rewritten_snapshots,
        redacted_rows=told.counts.redacted_rows,
        copies=told.copies,
        stays=[*STAYS[row.what]],
        out_of_reach=[
            *OUT_OF_REACH,
            *([_OF_POSTGRES] if context.catalog.kind == "postgres" else []),
        ],
        number=end.number,
        hash=end.hash.hex(),
    )
    transaction.set_erasure(msgspec.structs.replace(row, told=encode(certificate), finished_at=now))
    return certificate


def _trace(row: ErasureRow) -> Trace:
    """Returns the trace of an erasure; that of a user does not name them once more."""
    if row.what is Erased.NAMESPACE:
        return trace_of_namespace("namespace.erased", row.namespace or "", erasure_id=row.id)
    return Trace(action=f"{row.what}.erased", resource_type="erasure", resource_id=row.id)


def _decode(row: ErasureRow, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(row.told, type=kind)
    except msgspec.DecodeError as exc:
        message = f"the row of erasure {row.id} cannot be read: {exc}"
        raise Damaged(message) from exc


SALT_BYTES: Final = 16
_ROUNDS: Final = 200_000
"""About 0.1 s: who gets hold of a mark that somebody's disk has kept guesses slowly."""


def mark_of(user_id: str, salt: bytes) -> str:
    """Returns what an erasure has of a user who is forgotten."""
    return (salt + hashlib.pbkdf2_hmac("sha256", user_id.encode(), salt, _ROUNDS)).hex()


def is_of(mark: str, user_id: str) -> bool:
    """Says whether a mark is of this user."""
    salt = bytes.fromhex(mark)[:SALT_BYTES]
    return hmac.compare_digest(mark, mark_of(user_id, salt))


def blank(mark: str) -> str:
    """Returns what takes the place of a mark, byte by byte."""
    return "0" * len(mark)


def say_it_has_begun(error: HoldfastError) -> None:
    """Has an error that kept an erasure from its end say so, where that is a lack of room."""
    if isinstance(error, StorageFull):
        error.hint = (
            "The erasure has begun, and has no way back: what was named is gone, but not all of "
            "its bytes. Make room, then erase it again or run `collect`: both finish it."
        )
