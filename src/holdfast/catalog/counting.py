"""The part of a transaction that counts what is listed.

A row whose own key was damaged is not damaged for who reads a list: it is not there. So whoever
adds or removes a row counts it, and a list compares that number with how many rows there are. Where
they differ the list is `Damaged`; where a row of the list is another's, or is there twice, it
stands in the place of one that is missing, and the list is damaged, too. So is one that is not in
its order: an index whose key was damaged has rows in a place that is not theirs.

What rows count against a quota follows from these numbers, and from how long their texts are: those
are added up where rows come, and counted anew by a collection, after rows have gone.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from itertools import pairwise
from typing import Any, Final, Protocol, TypeVar

from holdfast.catalog.driver import Asked, Driver
from holdfast.catalog.rows import NO_LIMIT, get_row
from holdfast.errors import Damaged
from holdfast.ids import NamespaceId, TenantId

MOST_COUNTED: Final = 20_000
"""Rows that a list counts: of as many, it takes about a millisecond."""

OF_NAMESPACE: Final = ("snapshots", "tasks", "schedules", "memories", "entities")
OF_TENANT: Final = ("namespaces", "keys", "webhooks")

ROW_BYTES: Final = 512
"""What a row counts against a quota beside its texts: ids, hashes, instants, and its indexes."""

WEBHOOK_BYTES: Final = 4096
"""What a webhook counts, with its address and all that is said of it."""

_TEXTS: Final = {
    "snapshot": ("label", "reason", "task_id", "trace_id", "detail", "metadata"),
    "task": ("name", "reason", "within", "metadata"),
    "entity": ("entity_type", "entity_id", "attributes"),
}
"""Columns as long as somebody chose; `miscounted_row_bytes` has the same."""

_NONE: Final = dict.fromkeys(("purged", *OF_NAMESPACE[1:], "row_bytes"), 0)
_NONE_OF_TENANT: Final = dict.fromkeys(OF_TENANT, 0)


class Listed(Protocol):
    """What stands in a list."""

    @property
    def id(self) -> Any: ...  # noqa: ANN401 - of any kind
    @property
    def namespace_id(self) -> NamespaceId: ...


L = TypeVar("L", bound=Listed)
T = TypeVar("T")


class Compare(Protocol):
    """Raises `Damaged` unless all rows are there, and as many as a list has; says how many."""

    def __call__(self, listed: int | None = None, /) -> int: ...


class CountQueries:
    """How many rows there are, and how many there have to be."""

    __slots__ = ()

    _db: Driver

    def count_in(self, namespace_id: NamespaceId, **more: int) -> None:
        """Counts rows of a namespace that are added or removed in this transaction."""
        self._db.say("count_in_namespace", namespace_id=namespace_id, **{**_NONE, **more})

    def count_in_tenant(self, tenant_id: TenantId, **more: int) -> None:
        """Counts rows of a tenant that are added or removed in this transaction."""
        self._db.say("count_in_tenant", tenant_id=tenant_id, **{**_NONE_OF_TENANT, **more})

    def row_bytes(self, tenant_id: TenantId) -> int:
        """Returns what a tenant's rows count: all but pending ones, turns, memories and traces."""
        each = {"each": ROW_BYTES, "each_webhook": WEBHOOK_BYTES}
        row = self._db.one("row_bytes", tenant_id=tenant_id, **each)
        return int(get_row(row, "sum")[0])

    def miscounted_row_bytes(self, tenant_id: TenantId) -> list[NamespaceId]:
        """Returns the namespaces whose texts take something else than is counted."""
        found = self._db.all("miscounted_row_bytes", tenant_id=tenant_id, namespace_id=0)
        return [NamespaceId(row[0]) for row in found]

    def mend_row_bytes(self, tenant_id: TenantId, namespace_id: NamespaceId) -> None:
        """Counts anew what the texts of a namespace take, whose head is locked."""
        of = {"tenant_id": tenant_id, "namespace_id": namespace_id}
        for _, found in self._db.all("miscounted_row_bytes", **of):
            self._db.say("set_row_bytes", namespace_id=namespace_id, bytes=int(found))

    def comparing(self, of: NamespaceId, what: str) -> Compare:
        """Returns what raises `Damaged` unless all rows are there, and says how many that are.

        Called after the next query, it does not wait. A list that goes to its end says how many
        rows it has found: an index that counts them may still not lead to them.
        """
        return self._comparing(what, namespace_id=of)

    def comparing_tenants(self, of: TenantId, what: str) -> Compare:
        """Returns the same for what belongs to a tenant."""
        return self._comparing(what, tenant_id=of)

    def _comparing(self, what: str, **of: object) -> Compare:
        known = {**of, "most": MOST_COUNTED}
        asking = self._db.asking()
        if asking is not None:
            with suppress(Asked):
                asking.one(f"compare_{what}", **known)

        def compare(listed: int | None = None) -> int:
            wanted = _compare(self._db.one(f"compare_{what}", **known), what)
            if listed is None or not wanted or listed == wanted:
                return wanted
            # Another may have added or removed one meanwhile.
            if _compare(self._db.one(f"compare_{what}", **known), what) == wanted:
                raise _lacking(what, wanted=wanted, found=listed)
            return wanted

        return compare

    def find_miscounted(self, namespace_id: NamespaceId) -> list[str]:
        """Returns what is wrong with the numbers of a namespace's rows, however many there are."""
        return self._find_miscounted(OF_NAMESPACE, namespace_id=namespace_id)

    def find_miscounted_of(self, tenant_id: TenantId) -> list[str]:
        """Returns what is wrong with the numbers of a tenant's rows."""
        return self._find_miscounted(OF_TENANT, tenant_id=tenant_id)

    def _find_miscounted(self, kinds: Iterable[str], **of: object) -> list[str]:
        found = list[str]()
        for what in kinds:
            row = self._db.one(f"compare_{what}", **of, most=NO_LIMIT)
            try:
                _compare(row, what)
            except Damaged as exc:
                found.append(str(exc))
        return found

    def mend_counts(self, namespace_id: NamespaceId) -> None:
        """Counts the rows of a namespace anew."""
        self._db.say("mend_counts", namespace_id=namespace_id)

    def mend_tenant_counts(self, tenant_id: TenantId) -> int:
        """Counts the rows of a tenant anew; returns 1 if they were counted wrongly."""
        # Before it: who waits for it sees then what others have added.
        self._db.one("lock_counted", tenant_id=tenant_id)
        self.count_in_tenant(tenant_id)  # Its row may be lost.
        is_wrong = bool(self.find_miscounted_of(tenant_id))
        self._db.say("mend_tenant_counts", tenant_id=tenant_id)
        return int(is_wrong)


def text_bytes(kind: str, row: Mapping[str, Any]) -> int:
    """Returns what the texts of a row take, as it is written."""
    texts = (row[name] for name in _TEXTS[kind])
    # What no row can hold is refused by the database's driver.
    return sum(len(text.encode(errors="surrogatepass")) for text in texts if text is not None)


def all_of(
    namespace_id: NamespaceId, found: Iterable[L], by: Callable[[L], Any], *, rising: bool = False
) -> list[L]:
    """Returns rows of a list; raises `Damaged` if one is another's, or is not in its place.

    `by` is what they are ordered by, of which there are no two alike.
    """
    rows = in_order(found, by, rising=rising)
    if any(row.namespace_id != namespace_id for row in rows):
        raise Damaged("a list holds a row that is not its own")
    return rows


def in_order(found: Iterable[T], by: Callable[[T], Any], *, rising: bool = False) -> list[T]:
    """Returns rows of a list; raises `Damaged` if an index led to them in another order."""
    rows = [*found]
    places = [*map(by, rows)]
    pairs = pairwise(places if rising else reversed(places))
    if any(one >= other for one, other in pairs):
        raise Damaged("a list has a row that is not in its place, or one of them twice")
    return rows


def _compare(row: Any, what: str) -> int:  # noqa: ANN401 - as a driver returns it
    if row is None:
        return 0
    wanted, found = row
    if found is not None and found != wanted:
        raise _lacking(what, wanted=wanted, found=found)
    return wanted


def _lacking(what: str, *, wanted: int, found: int) -> Damaged:
    return Damaged(f"there have to be {wanted} {what}, and {found} are found")
