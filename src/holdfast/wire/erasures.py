"""Requests and answers about what is erased for good."""

import msgspec

from holdfast.wire.basics import Instant


class EraseRequest(msgspec.Struct, kw_only=True):
    """What is to be erased: a namespace, a session of one, or all of a user; said once more."""

    confirm: str
    """The id of the user or session, else the name of the namespace: there is no way back."""
    namespace: str | None = None
    number: int | None = None
    """Of several namespaces with this name, that one; else the live one, or the last deleted."""
    session_id: str | None = None
    user_id: str | None = None


class CertificateAnswer(msgspec.Struct, kw_only=True):
    """What an erasure removed, and what it could not reach; to be kept elsewhere."""

    erasure_id: str
    tenant_id: str
    what: str
    """`namespace`, `session` or `user`."""
    namespace_id: int | None
    namespace: str | None
    namespace_created_at: Instant | None
    session_id: str | None
    user_id: str | None
    begun_at: Instant
    finished_at: Instant
    removed: dict[str, int]
    """How much there was of each kind."""
    rewritten_snapshots: int
    """Snapshots that held a part of it: they hold the rest, and have another root."""
    redacted_rows: int
    """Rows of the journal that keep their place and have lost what they said."""
    copies: list[str]
    """What was forked from it and may hold the same: that is not erased with it."""
    stays: list[str]
    """What the vault still holds of it, in words."""
    out_of_reach: list[str]
    """Where else it may be, in words."""
    number: int
    """The row of the workspace's own chain that says that it was erased."""
    hash: str
    """That row's hash."""


class ErasureList(msgspec.Struct, kw_only=True):
    """Certificates, newest first."""

    erasures: list[CertificateAnswer]
