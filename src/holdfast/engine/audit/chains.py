"""Finds out whether a tenant's chains of traces are as they were written.

Any row that was edited, removed, inserted or moved is found, and so is an end that was cut off:
each trace has to follow from the one before it, and the last has to be the one that the row of its
namespace, or of the tenant, names. The tenant's own chain is followed first, for its anchors say
where those of the namespaces have been. Whoever can write all of the catalog can make all of them
anew; therefore the answer has an `anchor`, to be kept elsewhere. A chain that once had it has it
for ever.

What retention has let go of a chain is proven by the chain (`journal/forgetting.py`): the rows that
stayed of it are those that stayed then, and the next row follows on the last that went.

Traces are read a page at a time, however many there are. `export.py` does the same for a file.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Final, TypeVar

import msgspec

from holdfast.catalog.hashing import hash_of
from holdfast.catalog.transaction import Transaction
from holdfast.engine.audit.notes import fault_of, key_of, keys_in
from holdfast.engine.core.context import Context
from holdfast.engine.journal.actions import PURGED
from holdfast.engine.journal.anchors import anchor as set_anchor
from holdfast.engine.journal.anchors import ends_in
from holdfast.engine.journal.chain import REDACTED, is_whole
from holdfast.engine.journal.forgetting import Stays, claim_in, claim_of
from holdfast.errors import (
    Busy,
    InvalidValue,
    StorageFull,
    StorageReadOnly,
    Unavailable,
    shorten,
)
from holdfast.ids import TenantId
from holdfast.model.traces import NO_HASH, OWN, Section, StreamEnd, TraceEnd, TraceKind, TraceRow
from holdfast.model.upkeep import AuditProblem, AuditReport
from holdfast.progress import Progress, no_progress

MAX_PROBLEMS: Final = 1000
"""Problems that an answer names: beyond that, nobody asks which."""

_PAGE: Final = 1000
_SHOWN: Final = 16
"""Digits of a hash that a problem names."""

_BEFORE_ALL: Final = -(2**63)

_TRIES: Final = 4
"""Looks at all chains: retention lets go of what is old in one once a day at the most."""


T = TypeVar("T")


class SectionsMoved(Exception):
    """Rows that were to be looked at were let go meanwhile."""


class Stream(msgspec.Struct, frozen=True):
    """A chain that there is, or that there was."""

    id: int
    namespace: str | None = None
    end: TraceEnd | None = None
    """None if nothing says where it ends."""
    newest: int = 0
    """The greatest number that one of its rows has."""
    sections: Sequence[Section] = ()
    """What retention has let go of it."""


def verify_audit(
    context: Context,
    tenant_id: TenantId,
    *,
    anchor: str | None = None,
    progress: Progress = no_progress,
) -> AuditReport:
    """Checks all traces of a tenant; `anchor` is that of an earlier report."""
    return settled(lambda: _verify(context, tenant_id, anchor, progress))


def settled(look: Callable[[], T]) -> T:
    """Looks at all chains, and again if something was let go meanwhile; raises `Busy`."""
    for _ in range(_TRIES):
        with suppress(SectionsMoved):
            return look()
    raise Busy("traces are being let go of all the time")


def _verify(
    context: Context, tenant_id: TenantId, anchor: str | None, progress: Progress
) -> AuditReport:
    check = Check(tenant_id, anchor)
    own, others = read_streams(context, tenant_id)
    done, total = 0, sum(each.end.number for each in (own, *others) if each.end)
    for stream in (own, *others):
        check.begin(stream.id, stream.namespace, stream.sections)
        for page in iter_pages(context, tenant_id, stream):
            for row in page:
                check.see(row)
            progress("audit", done + page[-1].number, total)
        check.finish(stream.end, newest=stream.newest)
        done += stream.end.number if stream.end else 0
    return check.report()


class Check:
    """Follows chains from their beginnings, the tenant's own before the others."""

    def __init__(self, tenant_id: TenantId, anchor: str | None) -> None:
        self._tenant_id = tenant_id
        self._anchors = dict[int, dict[int, bytes]]()
        """Of each stream what its rows had for hashes."""
        if anchor is not None:
            known = _to_end(anchor)
            self._anchors[OWN] = {known.number: known.hash}
        self._purged = dict[int, str | None]()
        """Namespaces that are gone, and what they were called."""
        self._own = TraceEnd()
        self._checked = 0
        self._problems: list[AuditProblem] = []
        self._seen = set[int]()
        self._known = set[str]()
        """What is noted to be damaged, and to stay so."""
        self._stream, self._last = OWN, TraceEnd()
        self._namespace: str | None = None
        self._gone = dict[int, bytes]()
        """What the tenant's chain has for a hash of what was let go of those that are gone."""
        self._claim: bytes | None = None
        """What this chain has for one of what was let go of it."""
        self._sections, self._forgotten = list[Section](), 0
        self._ahead = list[Section]()
        """Of these the ones that are still to be passed, the first last."""
        self._stays, self._passed = Stays(), 0
        """What stayed of the first of these, and up to where all of them were passed."""

    def begin(self, stream: int, namespace: str | None, sections: Sequence[Section] = ()) -> None:
        """Goes to the beginning of a chain; `sections` is what was let go of it."""
        self._sections, self._ahead = [*sections], [*reversed(sections)]
        self._stays, self._claim, self._passed = Stays(), None, 0
        self._namespace = self._purged.get(stream, namespace)
        self._stream, self._last = stream, TraceEnd()
        if stream in self._seen or (stream == OWN) is bool(self._seen):
            self.complain(0, "the chain stands in the wrong place")
        self._seen.add(stream)
        self._compare(self._last)

    def complain(self, number: int, reason: str, *, hash_now: str = "") -> None:
        """Notes what is wrong."""
        if len(self._problems) < MAX_PROBLEMS:
            self._problems.append(AuditProblem(number, reason, self._namespace, hash_now))

    @property
    def next_number(self) -> int:
        """The number of the trace that is looked at next."""
        return self._last.number + 1

    def see(self, row: TraceRow) -> None:
        """Looks at the next trace."""
        while self._ahead and row.number > self._ahead[-1].last:
            self._pass_section()
        if self._ahead:
            return self._see_stayed(row)
        wanted = self._last.number + 1
        if row.number > wanted:
            self.complain(wanted, _missing(wanted, row.number - 1))
        elif row.number < wanted:
            self.complain(row.number, "it stands in the wrong place")
        elif row.previous != self._last.hash:
            self.complain(row.number, "it does not follow from the one before it")
        whose = (self._tenant_id, self._stream)
        if (row.tenant_id, row.stream) != whose or not is_whole(row):
            self.complain(row.number, "it was changed", hash_now=_hash_now(row))
        else:
            self._note(row)
        self._last = TraceEnd(row.number, row.hash)
        self._compare(self._last)
        self._checked += 1
        return None

    def _see_stayed(self, row: TraceRow) -> None:
        """Looks at a trace that stayed where others were let go: their hash is looked at later."""
        if row.number <= self._last.number:
            self.complain(row.number, "it stands in the wrong place")
        if (row.tenant_id, row.stream) != (self._tenant_id, self._stream) or not is_whole(row):
            self.complain(row.number, "it was changed", hash_now=_hash_now(row))
        else:
            self._stays.add(row)
        self._last = TraceEnd(row.number, row.hash)
        self._compare(self._last)
        self._checked += 1

    def _pass_section(self) -> None:
        """Looks at what stayed of what was let go, and goes on from its end."""
        gone, stays = self._ahead.pop(), self._stays
        is_next = gone.first == self._passed + 1 and gone.last >= gone.first
        if not is_next or (stays.count, stays.digest()) != (gone.kept, gone.digest):
            self.complain(gone.first, f"of all up to {gone.last} another part stayed")
        self._stays, self._last, self._passed = Stays(), TraceEnd(gone.last, gone.hash), gone.last
        self._forgotten += gone.count
        self._compare(self._last)

    def finish(self, end: TraceEnd | None, *, newest: int = 0) -> None:
        """Looks at the end of a chain; `newest` is the greatest number that a row of it has.

        A namespace that is gone for good has no row that says it: then it is the last anchor.
        """
        while self._ahead:
            self._pass_section()
        claim = None if self._stream == OWN else self._gone.get(self._stream, self._claim)
        if claim != claim_of(self._sections):
            self.complain(self._last.number, "what was let go of it is not what the chain says")
        last, end = self._last, end or self._last_anchored()
        if end is not None and newest > end.number:
            self.complain(newest, "it stands behind the end of the chain")
        if end is None:
            self.complain(last.number + 1, "the end of the chain is missing")
        elif end.number > last.number:
            self.complain(last.number + 1, _missing(last.number + 1, end.number))
        elif end != last:
            self.complain(last.number, "it is not what the chain ended with")
        known = max(self._anchors.get(self._stream, {0: NO_HASH}))
        if known > max(last.number, 0 if end is None else end.number):
            self.complain(known, "the chain once went as far as this")
        if self._stream == OWN:
            self._own = last

    def report(self) -> AuditReport:
        """Says what was found."""
        for stream in {OWN, *self._anchors} - self._seen:
            self._namespace = self._purged.get(stream)
            known = max(self._anchors.get(stream, {1: NO_HASH}))
            self.complain(known, "the chain once went as far as this")
        problems = [
            msgspec.structs.replace(each, is_noted=key_of(fault_of(each)) in self._known)
            for each in self._problems
        ]
        anchor = f"{self._own.number}:{self._own.hash.hex()}"
        return AuditReport(self._checked, anchor, problems, self._forgotten)

    def _note(self, row: TraceRow) -> None:
        """Remembers what a row says of its chain, and one of the tenant's own of others."""
        if (claim := claim_in(row)) is not None:
            # Of a namespace that is gone the tenant's chain says it: later, and seen before.
            if row.stream == OWN:
                self._gone[row.namespace_id or OWN] = claim
            self._claim = claim
        if row.stream != OWN:
            return
        if row.kind == TraceKind.DONE.value and row.action == PURGED:
            self._purged[row.namespace_id or OWN] = row.resource_id
        if row.details.startswith(REDACTED):
            return
        self._known.update(keys_in(row))
        try:
            for namespace_id, end in ends_in(row):
                self._anchors.setdefault(namespace_id, {})[end.number] = end.hash
        except ValueError:
            self.complain(row.number, "it is no anchor")

    def _last_anchored(self) -> TraceEnd | None:
        known = self._anchors.get(self._stream)
        if known is None or self._stream not in self._purged:
            return None
        return TraceEnd(max(known), known[max(known)])

    def _compare(self, found: TraceEnd) -> None:
        known = self._anchors.get(self._stream)
        if known is not None and known.get(found.number, found.hash) != found.hash:
            self.complain(found.number, "it is not what it was when the anchor was noted")


def read_streams(context: Context, tenant_id: TenantId) -> tuple[Stream, list[Stream]]:
    """Returns the tenant's own chain and those of namespaces, with anchors up to their ends.

    On what cannot be written to, anchors are those that there are.
    """
    with suppress(StorageReadOnly, StorageFull, Unavailable, Busy):
        set_anchor(context, tenant_id)
    with context.catalog.read() as transaction:
        return streams_in(transaction, tenant_id)


def streams_in(transaction: Transaction, tenant_id: TenantId) -> tuple[Stream, list[Stream]]:
    """Returns the same, as a transaction sees them."""
    own = transaction.find_own_end(tenant_id)
    ends: dict[int, StreamEnd] = {
        each.namespace_id: each for each in transaction.list_ends(tenant_id)
    }
    newest = dict(transaction.list_streams(tenant_id))
    sections = transaction.all_sections(tenant_id)
    streams = [
        Stream(stream, end.namespace, end.end, newest.get(stream, 0), sections.get(stream, ()))
        if (end := ends.get(stream)) is not None
        else Stream(stream, newest=newest.get(stream, 0), sections=sections.get(stream, ()))
        for stream in sorted({*ends, *newest, *sections} - {OWN})
    ]
    others = [each for each in streams if each.newest or each.sections or each.end != TraceEnd()]
    return Stream(OWN, None, own, newest.get(OWN, 0), sections.get(OWN, ())), others


def iter_pages(context: Context, tenant_id: TenantId, stream: Stream) -> Iterator[list[TraceRow]]:
    """Yields a chain up to its end; what is appended meanwhile is not looked at.

    Raises `SectionsMoved` if what is to be read next was let go since the stream was read.
    """
    after, end = _BEFORE_ALL, stream.newest if stream.end is None else stream.end.number
    while after < end:
        # A transaction for each page: one over all of them would keep others from tidying up.
        with context.catalog.read() as transaction:
            rows = transaction.page_traces(tenant_id, stream=stream.id, after=after, most=_PAGE)
            sections = transaction.list_sections(tenant_id, stream.id)
        if sections != [*stream.sections] and sections and sections[-1].last > after:
            raise SectionsMoved
        page = [row for row in rows if row.number <= end]
        if not page:
            return
        yield page
        after = page[-1].number


def iter_rows(transaction: Transaction, tenant_id: TenantId, stream: int) -> Iterator[TraceRow]:
    """Yields all rows of a chain that there are, whatever they say."""
    after = _BEFORE_ALL
    while page := transaction.walk_traces(tenant_id, stream=stream, after=after, most=_PAGE):
        yield from page
        if page[-1].number <= after:
            return  # Out of their order: the next page would be this one.
        after = page[-1].number


def _hash_now(row: TraceRow) -> str:
    try:
        return hash_of(row).hex()[:_SHOWN]
    except (ValueError, TypeError, OverflowError, msgspec.MsgspecError):
        return ""


def _missing(first: int, last: int) -> str:
    return "it is missing" if first == last else f"all up to {last} are missing"


def _to_end(anchor: str) -> TraceEnd:
    number, _, digest = anchor.partition(":")
    try:
        end = TraceEnd(int(number), bytes.fromhex(digest))
    except ValueError:
        end = TraceEnd(-1)
    if end.number < 0 or len(end.hash) != len(NO_HASH):
        message = f"{shorten(anchor)} is not an anchor: give that of an earlier report"
        raise InvalidValue(message)
    return end
