"""A tenant's chains of traces as a file of JSON lines, which is checked without a vault.

One chain after the other, the tenant's own first: a line that says whose it is and what retention
has let go of it, its traces, and where it ends. The last line says how many chains there were.
`docs/format.md` has the fields, and those of format 1, which had one chain.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final, TypeVar

import msgspec
from msgspec.structs import asdict, astuple

from holdfast.engine.archives.archivefile import FileName, Source, writing_to
from holdfast.engine.audit.chains import Check, iter_pages, read_streams, settled
from holdfast.engine.core.context import Context
from holdfast.engine.journal.withheld import row_for_operators
from holdfast.errors import InvalidValue, VaultTooNew
from holdfast.ids import NamespaceId, TenantId, TraceId
from holdfast.model.basics import Tenant
from holdfast.model.traces import OWN, Section, TraceEnd, TraceKind, TraceRow
from holdfast.model.upkeep import AuditReport
from holdfast.progress import Progress, no_progress

EXPORT_FORMAT: Final = 4

_READ_BYTES: Final = 1 << 20
_MAX_LINE_BYTES: Final = 1 << 26
"""A longer line was not written by us: what was forgotten at once is listed in one trace."""


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
    return settled(lambda: _export(context, tenant, target, for_operators, progress))


def _export(
    context: Context,
    tenant: Tenant,
    target: FileName,
    for_operators: bool,  # noqa: FBT001 - one call, right above
    progress: Progress,
) -> int:
    own, others = read_streams(context, tenant.id)
    streams = [own, *others]
    total = sum(each.end.number for each in streams if each.end)
    count, encode = 0, msgspec.json.Encoder().encode
    with writing_to(target) as file:
        file.write(encode(_Header(EXPORT_FORMAT, tenant.public_id, tenant.id)) + b"\n")
        for stream in streams:
            sections = [_Section.of(section) for section in stream.sections]
            file.write(encode(_Start(stream.id, sections)) + b"\n")
            for page in iter_pages(context, tenant.id, stream):
                for row in page:
                    shown = row_for_operators(row) if for_operators else row
                    file.write(encode(_Line.of(shown)) + b"\n")
                count += len(page)
                progress("audit", count, total)
            end = stream.end
            told = _End() if end is None else _End(end.number, end.hash.hex())
            file.write(encode(told) + b"\n")
        file.write(encode(_Footer(len(streams))) + b"\n")
    return count


def verify_audit_file(path: FileName, *, anchor: str | None = None) -> AuditReport:
    """Checks exported chains, without the vault that they come from."""
    with Source(path) as source:
        lines = _lines(source)
        header = _read_header(next(lines, b""))
        check = Check(header.tenant_id, anchor)
        if header.audit_format == 1:
            check.begin(OWN, None)
            _check_chain(check, lines, _OldLine)
        else:
            _check_chains(check, lines)
        return check.report()


def _check_chains(check: Check, lines: Iterator[bytes]) -> None:
    for count, line in enumerate(lines):
        start = _try_read(line, _Start)
        if start is None:
            if _try_read(line, _Footer) != _Footer(count) or next(lines, None) is not None:
                check.complain(check.next_number, "its line in the file cannot be read")
            return
        # By its number: what it is called, nothing in the file proves.
        name = None if start.stream == OWN else str(start.stream)
        try:
            check.begin(start.stream, name, [section.to_section() for section in start.forgotten])
        except ValueError:
            check.begin(start.stream, name)
        _check_chain(check, lines, _Line)
    check.complain(check.next_number, "the end of the file is missing")


def _check_chain(check: Check, lines: Iterator[bytes], kind: "type[_Line | _OldLine]") -> None:
    """Looks at the traces of one chain, up to the line that says where it ends."""
    for line in lines:
        if (read := _try_read(line, kind)) is not None:
            try:
                check.see(read.to_row())
                continue
            except ValueError:
                pass
        elif (end := _try_read(line, _End)) is not None:
            return check.finish(_to_end(end))
        check.complain(check.next_number, "its line in the file cannot be read")
    return check.finish(None)


def _to_end(line: "_End") -> TraceEnd | None:
    try:
        return None if line.end is None else TraceEnd(line.end, bytes.fromhex(line.hash))
    except ValueError:
        return None


class _Header(msgspec.Struct):
    audit_format: int
    tenant: str
    tenant_id: TenantId


class _Section(msgspec.Struct, forbid_unknown_fields=True):
    """What retention has let go of a chain, with bytes in hexadecimal."""

    first: int
    last: int
    hash: str
    at_us: int
    kept: int
    digest: str

    @classmethod
    def of(cls, gone: Section) -> "_Section":
        """Returns what a file says of a section."""
        return cls(gone.first, gone.last, gone.hash.hex(), gone.at_us, gone.kept, gone.digest.hex())

    def to_section(self) -> Section:
        """Returns the section; raises `ValueError` for hashes that are none."""
        digests = bytes.fromhex(self.hash), bytes.fromhex(self.digest)
        return Section(self.first, self.last, digests[0], self.at_us, self.kept, digests[1])


class _Start(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    stream: int
    forgotten: list[_Section] = []


class _End(msgspec.Struct, forbid_unknown_fields=True):
    """Where a chain ends; nothing for that of a namespace that is gone: an anchor says it."""

    end: int | None = None
    hash: str = ""


class _Footer(msgspec.Struct, forbid_unknown_fields=True):
    streams: int


class _Line(msgspec.Struct, forbid_unknown_fields=True):
    """A trace on a line of its own: the columns of its row, with bytes in hexadecimal."""

    format: int
    previous: str
    tenant_id: TenantId
    stream: int
    number: int
    kind: str
    id: TraceId
    namespace_id: NamespaceId | None
    session_id: str | None
    user_id: str | None
    agent_id: str | None
    action: str
    resource_type: str | None
    resource_id: str | None
    version: int | None
    task_id: str | None
    actor: str | None
    created_at: int
    details: str
    salt: str | None
    hash: str
    version_hash: str | None = None
    turn_hash: str | None = None
    roots: str | None = None

    @classmethod
    def of(cls, row: TraceRow) -> "_Line":
        """Returns the line of a row."""
        known: dict[str, Any] = {
            name: value.hex() if isinstance(value, bytes) else value
            for name, value in zip(cls.__struct_fields__, astuple(row), strict=True)
        }
        return cls(**known)

    def to_row(self) -> TraceRow:
        """Returns the row; raises `ValueError` for hashes that are none."""
        known = asdict(self)
        for name in _IN_HEXADECIMAL:
            if known[name] is not None:
                known[name] = bytes.fromhex(known[name])
        return TraceRow(*known.values())


_IN_HEXADECIMAL: Final = ("previous", "salt", "hash", "version_hash", "turn_hash", "roots")


class _OldLine(msgspec.Struct, forbid_unknown_fields=True):
    """A trace in a file of format 1."""

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

    def to_row(self) -> TraceRow:
        """Returns the row; raises `ValueError` for hashes that are none."""
        return TraceRow(
            0,
            bytes.fromhex(self.previous),
            self.tenant_id,
            OWN,
            self.number,
            TraceKind.DONE.value,
            self.id,
            self.namespace_id,
            self.session_id,
            self.user_id,
            self.agent_id,
            self.action,
            self.resource_type,
            self.resource_id,
            None,
            None,
            self.actor,
            self.created_at,
            self.details,
            None,
            bytes.fromhex(self.hash),
        )


T = TypeVar("T")


def _try_read(line: bytes, kind: type[T]) -> T | None:
    try:
        return msgspec.json.decode(line, type=kind)
    except (msgspec.DecodeError, UnicodeError):
        return None


def _read_header(line: bytes) -> _Header:
    try:
        header = msgspec.json.decode(line, type=_Header)
    except (msgspec.DecodeError, UnicodeError) as exc:
        raise InvalidValue("this is not a file that export_audit has written") from exc
    if not 1 <= header.audit_format <= EXPORT_FORMAT:
        raise VaultTooNew("the audit", found=header.audit_format, known=EXPORT_FORMAT)
    return header


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
