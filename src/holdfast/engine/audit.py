"""Finds out whether a tenant's chain of traces is as it was written.

Any row that was edited, removed, inserted or moved is found, and so is an end that was cut off:
each trace has to follow from the one before it, and the last has to be the one that the end
names. Whoever can write all of the catalog can make a whole new chain; therefore the answer has
an `anchor`, to be kept elsewhere. A chain that once had it has it for ever.

An export is the same chain as a file of JSON lines, and is checked without a vault. Traces are
read a page at a time, however many there are.
"""

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from holdfast.catalog.transaction import Transaction
from holdfast.engine.archives.archivefile import FileName, Source, writing_to
from holdfast.engine.chain import hash_of
from holdfast.engine.collect import Progress, no_progress
from holdfast.engine.context import Context
from holdfast.engine.withholding import row_for_operators
from holdfast.errors import InvalidValue, VaultTooNew, shorten
from holdfast.ids import NamespaceId, TenantId, TraceId
from holdfast.model import Tenant
from holdfast.model_traces import NO_HASH, TraceEnd, TraceRow
from holdfast.model_upkeep import AuditProblem, AuditReport

EXPORT_FORMAT: Final = 1
MAX_PROBLEMS: Final = 1000
"""Problems that an answer names: beyond that, nobody asks which."""

_PAGE: Final = 1000
_BEFORE_ALL: Final = -(2**63)
_READ_BYTES: Final = 1 << 20
_MAX_LINE_BYTES: Final = 1 << 26
"""A longer line was not written by us: what was forgotten at once is listed in one trace."""


def verify_audit(
    context: Context,
    tenant_id: TenantId,
    *,
    anchor: str | None = None,
    progress: Progress = no_progress,
) -> AuditReport:
    """Checks all traces of a tenant; `anchor` is that of an earlier report."""
    check = _Check(tenant_id, anchor)
    with context.catalog.read() as transaction:
        end = transaction.find_trace_end(tenant_id) or TraceEnd()
        beyond = transaction.page_traces(tenant_id, after=end.number, most=1)
    for row in _stored(context, tenant_id, end, progress):
        check.see(row)
    if beyond:
        check.complain(beyond[0].number, "it stands behind the end of the chain")
    return check.finish(end)


def export_audit(
    context: Context,
    tenant: Tenant,
    target: FileName,
    *,
    for_operators: bool = False,
    progress: Progress = no_progress,
) -> int:
    """Writes all traces of a tenant to a file of JSON lines; returns how many.

    `for_operators`, the details that repeat what agents wrote are redacted in it.
    """
    with context.catalog.read() as transaction:
        end = transaction.find_trace_end(tenant.id) or TraceEnd()
    count, encode = 0, msgspec.json.Encoder().encode
    with writing_to(target) as file:
        header = _Header(EXPORT_FORMAT, tenant.public_id, tenant.id)
        file.write(encode(header) + b"\n")
        for row in _stored(context, tenant.id, end, progress):
            told = row_for_operators(row) if for_operators else row
            file.write(encode(_Line.of(told)) + b"\n")
            count += 1
        file.write(encode(_Footer(end.number, end.hash.hex())) + b"\n")
    return count


def verify_audit_file(path: FileName, *, anchor: str | None = None) -> AuditReport:
    """Checks an exported chain, without the vault that it comes from."""
    with Source(path) as source:
        lines = _lines(source)
        check = _Check(_read_header(next(lines, b"")), anchor)
        # One is held back: the last of them is the end.
        last = next(lines, None)
        for line in lines:
            check.read(last or b"")
            last = line
        return check.finish(_read_footer(last))


class _Check:
    """Follows a chain from its beginning."""

    def __init__(self, tenant_id: TenantId, anchor: str | None) -> None:
        self._tenant_id = tenant_id
        self._known = None if anchor is None else _to_end(anchor)
        self._last = TraceEnd()
        self._checked = 0
        self._problems: list[AuditProblem] = []

    def complain(self, number: int, reason: str) -> None:
        """Notes what is wrong."""
        if len(self._problems) < MAX_PROBLEMS:
            self._problems.append(AuditProblem(number, reason))

    def read(self, line: bytes) -> None:
        """Looks at the next trace of a file."""
        try:
            row = msgspec.json.decode(line, type=_Line).to_row()
        except (msgspec.DecodeError, ValueError, UnicodeError):
            self.complain(self._last.number + 1, "its line in the file cannot be read")
            return
        self.see(row)

    def see(self, row: TraceRow) -> None:
        """Looks at the next trace."""
        wanted = self._last.number + 1
        if row.number > wanted:
            self.complain(wanted, _missing(wanted, row.number - 1))
        elif row.number < wanted:
            self.complain(row.number, "it stands in the wrong place")
        elif row.previous != self._last.hash:
            self.complain(row.number, "it does not follow from the one before it")
        if row.tenant_id != self._tenant_id or not _is_whole(row):
            self.complain(row.number, "it was changed")
        if self._known is not None and self._known.number == row.number:
            self._compare(row.hash)
        self._last = TraceEnd(row.number, row.hash)
        self._checked += 1

    def finish(self, end: TraceEnd | None) -> AuditReport:
        """Looks at the end, and says what was found."""
        last = self._last
        if end is None:
            self.complain(last.number + 1, "the end of the chain is missing")
        elif end.number > last.number:
            self.complain(last.number + 1, _missing(last.number + 1, end.number))
        elif end != last:
            self.complain(last.number, "it is not what the chain ended with")
        if self._known is not None and self._known.number > last.number:
            self.complain(self._known.number, "the chain once went as far as this")
        if self._known is not None and not self._known.number:
            self._compare(NO_HASH)
        return AuditReport(self._checked, f"{last.number}:{last.hash.hex()}", self._problems)

    def _compare(self, found: bytes) -> None:
        if self._known is not None and self._known.hash != found:
            self.complain(self._known.number, "it is not what it was when the anchor was noted")


def _stored(
    context: Context, tenant_id: TenantId, end: TraceEnd, progress: Progress
) -> Iterator[TraceRow]:
    """Yields a chain up to its end; what is appended meanwhile is not looked at."""
    after = _BEFORE_ALL
    while after < end.number:
        # A transaction for each page: one over all of them would keep others from tidying up.
        with context.catalog.read() as transaction:
            page = _page(transaction, tenant_id, after, end)
        if not page:
            return
        yield from page
        after = page[-1].number
        progress("audit", after, end.number)


def _page(
    transaction: Transaction, tenant_id: TenantId, after: int, end: TraceEnd
) -> list[TraceRow]:
    rows = transaction.page_traces(tenant_id, after=after, most=_PAGE)
    return [row for row in rows if row.number <= end.number]


def _is_whole(row: TraceRow) -> bool:
    try:
        return hash_of(row) == row.hash
    except ValueError:
        # Of details that are said to be redacted, and are not.
        return False


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


# The file


class _Header(msgspec.Struct):
    audit_format: int
    tenant: str
    tenant_id: TenantId


class _Footer(msgspec.Struct, forbid_unknown_fields=True):
    end: int
    hash: str


class _Line(msgspec.Struct, forbid_unknown_fields=True):
    """A trace on a line of its own: the columns of its row, with bytes in hexadecimal."""

    previous: str
    tenant_id: TenantId
    number: int
    id: TraceId
    namespace_id: NamespaceId | None
    session_id: str | None
    user_id: str | None
    agent_id: str | None
    action: str
    resource_type: str | None
    resource_id: str | None
    actor: str | None
    created_at: int
    details: str
    hash: str

    @classmethod
    def of(cls, row: TraceRow) -> "_Line":
        """Returns the line of a row."""
        fields = [*msgspec.structs.astuple(row)]
        fields[0], fields[-1] = row.previous.hex(), row.hash.hex()
        return cls(*fields)

    def to_row(self) -> TraceRow:
        """Returns the row; raises `ValueError` for hashes that are none."""
        fields = [*msgspec.structs.astuple(self)]
        fields[0], fields[-1] = bytes.fromhex(self.previous), bytes.fromhex(self.hash)
        return TraceRow(*fields)


def _read_header(line: bytes) -> TenantId:
    try:
        header = msgspec.json.decode(line, type=_Header)
    except (msgspec.DecodeError, UnicodeError) as exc:
        raise InvalidValue("this is not a file that export_audit has written") from exc
    if header.audit_format != EXPORT_FORMAT:
        raise VaultTooNew("the audit", found=header.audit_format, known=EXPORT_FORMAT)
    return header.tenant_id


def _read_footer(line: bytes | None) -> TraceEnd | None:
    try:
        footer = msgspec.json.decode(line or b"", type=_Footer)
        return TraceEnd(footer.end, bytes.fromhex(footer.hash))
    except (msgspec.DecodeError, ValueError, UnicodeError):
        return None


def _lines(source: Source) -> Iterator[bytes]:
    """Yields the lines of a file; raises `InvalidValue` for one that no trace can have."""
    rest = b""
    for piece in _pieces(source):
        *whole, rest = (rest + piece).split(b"\n")
        yield from whole
        if len(rest) > _MAX_LINE_BYTES:
            raise InvalidValue("this is not a file that export_audit has written")
    if rest:
        yield rest


def _pieces(source: Source) -> Iterable[bytes]:
    for at in range(0, source.size, _READ_BYTES):
        yield source.read(at, min(_READ_BYTES, source.size - at))
