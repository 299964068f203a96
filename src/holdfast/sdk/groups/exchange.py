"""What `client.workspace` says to a server: entries and chunks of a directory, back and forth.

These are the routes as they are; what to say in which order is `holdfast.mirror`'s.
"""

from collections.abc import Callable
from typing import Final, TypeVar

from holdfast.model.changes import Committed
from holdfast.progress import no_progress
from holdfast.sdk.calls import Call, F, Group, call
from holdfast.sdk.content import Content
from holdfast.sdk.reading import as_it_is, value_of, whole
from holdfast.wire.exchange import (
    ChangesBetween,
    ChangesRequest,
    CommitRequest,
    ContentRequest,
    MissingAnswer,
    MissingRequest,
    ReceivedAnswer,
    StandingAnswer,
    decode,
    encode,
)

T = TypeVar("T")

_ROOT: Final = "/v1/exchange"


class Exchange(Group[F]):
    """Directories on their way to and from a namespace."""

    @call
    def standing(self) -> Call[StandingAnswer]:
        """Returns where the namespace stands: its snapshot, and the root of its files."""
        return Call(method="GET", path=f"{_ROOT}/head", read=as_it_is(StandingAnswer))

    @call
    def missing(self, names: bytes) -> Call[bytes]:
        """Returns which objects would have to be sent; names stand back to back."""
        body = encode(MissingRequest(ids=names))
        return _post("missing", body, lambda data: decode(data, MissingAnswer).ids)

    @call
    def send(self, pack: bytes) -> Call[ReceivedAnswer]:
        """Stores the objects of a pack."""
        return _post("objects", pack, as_it_is(ReceivedAnswer))

    @call
    def commit(self, told: CommitRequest) -> Call[Committed]:
        """Makes a snapshot of a directory."""
        return _post("commit", encode(told), value_of(Committed))

    @call
    def changes(self, old: str | None, new: str, *, after: bytes = b"") -> Call[ChangesBetween]:
        """Returns what leads from the files of one snapshot, or from none, to another's."""
        body = encode(ChangesRequest(old=old, new=new, after=after))
        return _post("changes", body, lambda data: decode(data, ChangesBetween))

    @call
    def content(self, snapshot: str, wants: dict[bytes, list[bytes]]) -> Call[bytes]:
        """Returns a pack of objects that files of a snapshot need: those asked for, or some."""
        ids = [b"".join(names) for names in wants.values()]
        body = encode(ContentRequest(snapshot=snapshot, paths=list(wants), ids=ids))
        return _post("content", body, whole)


def _post(name: str, body: bytes, read: Callable[[bytes], T]) -> Call[T]:
    # Asking what is missing changes nothing, objects that are sent twice are stored once, and a
    # commit bears a name.
    return Call(
        method="POST",
        path=f"{_ROOT}/{name}",
        read=read,
        content=Content(body, progress=no_progress),
        is_slow=True,
        is_harmless=True,
    )
