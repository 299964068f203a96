"""Calls as data: what to send and how to read the answer, described once for both clients.

    class Snapshots(Group[F]):
        @call
        def get(self, snapshot_id: str) -> Call[SnapshotInfo]: ...

    client.snapshots.get("snap-…")             # SnapshotInfo
    await async_client.snapshots.get("snap-…") # the same, awaited

What is decorated only describes. Which kind of client a group belongs to is in its type
(`Group[Sync]`, `Group[Async]`), so that type checkers know what a method returns, and at run
time in its sender. Nothing here knows HTTP; `attempts.py` does.
"""

import functools
import inspect
from collections.abc import (
    AsyncIterator,
    Callable,
    Coroutine,
    Generator,
    Iterator,
    Mapping,
)
from dataclasses import replace
from types import MappingProxyType, MethodType
from typing import (
    Any,
    Concatenate,
    Generic,
    ParamSpec,
    Protocol,
    Self,
    TypeVar,
    cast,
    get_args,
    overload,
)

import msgspec

from holdfast.errors import Incompatible, InvalidValue, TooLarge
from holdfast.operations.checks import checking
from holdfast.operations.forms import form_of
from holdfast.operations.operation import Operation, rename, signature_of
from holdfast.progress import Progress, no_progress
from holdfast.sdk.content import Content, Target
from holdfast.sdk.lines import Line

P = ParamSpec("P")
T = TypeVar("T")

Query = Mapping[str, str | int | float | bool | list[str] | None]
Steps = Generator["Call[Any]", Any, T]
"""Several calls, one after the other: yields each and is sent its answer; returns the result."""


class Call(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """One request, and how its answer is read."""

    method: str
    path: str
    """With names in braces, which `place` has the values of."""
    read: Callable[[bytes], T]
    read_all: Callable[[bytes], T] | None = None
    """Reads an answer with all of that of which a part was asked for: nobody has to send parts."""
    place: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])
    query: Query = msgspec.field(default_factory=dict[str, Any])
    body: object = None
    """What is sent as JSON."""
    content: Content | None = None
    """What is sent as it is, instead."""
    headers: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])
    within: tuple[str, ...] = ()
    """What is said of tasks, beside those that it is made in."""
    is_slow: bool = False
    """Whether an answer may take longer than people wait: no timeout cuts it off."""
    patience_s: float | None = None
    """How long a slow answer may be silent, where the server says something all the while."""
    is_reading: bool = False
    """Whether it changes nothing, though it is a POST: what is asked for fits into no query."""
    is_harmless: bool = False
    """Whether doing it twice is as doing it once, though it changes something."""
    is_conditional: bool = False
    """Whether it is done only while something is as expected: once it is done, that is otherwise,
    and without a name it is not sent twice."""
    is_single: bool = False
    """Whether it is never sent twice: what it does may have begun."""
    is_resumable: bool = False
    """Whether the rest of an answer can be asked for, once its beginning is there."""


class Sync:
    """The form of a client whose methods wait."""


class Async:
    """The form of a client whose methods are coroutines."""


F = TypeVar("F", Sync, Async)


class Page(msgspec.Struct, Generic[T], frozen=True):
    """Part of a list, and where it goes on; None if nowhere."""

    items: list[T]
    cursor: Any


def page_of(items: list[T], *, has_more: bool, cursor: Callable[[T], Any]) -> Page[T]:
    """Returns part of a list; the last item says where it goes on, if it does."""
    return Page(items, cursor(items[-1]) if has_more and items else None)


class Pages(msgspec.Struct, Generic[T], frozen=True):
    """A list that comes in parts: how many in one, and the call for what follows a cursor."""

    most: int
    call: Callable[[str | None, int], Call[Page[T]]]
    limit: int | None = None
    """How many are wanted in all; None for as many as there are."""

    def __post_init__(self) -> None:
        if self.limit is not None and self.limit < 0:
            raise InvalidValue("limit is a number from 0 on")

    def collect(self) -> Steps[list[T]]:
        """Asks for one part after the other; returns all that is wanted."""
        found: list[T] = []
        cursor, most = None, self.most
        while self.limit is None or len(found) < self.limit:
            most = min(most, self.size(len(found)))
            try:
                page: Page[T] = yield self.call(cursor, most)
            except TooLarge:
                if most == 1:
                    raise
                # So many are too much for one answer: all of them need not be.
                most //= 2
                continue
            found += page.items
            cursor = self.next_cursor(page, cursor)
            if cursor is None:
                break
        return found if self.limit is None else found[: self.limit]

    @staticmethod
    def next_cursor(page: Page[T], cursor: str | None) -> str | None:
        """Returns where a list goes on; raises `Incompatible` for one that goes in circles."""
        if page.cursor is not None and page.cursor == cursor:
            raise Incompatible("the server's list has no end: it goes on where it began")
        return page.cursor

    def size(self, seen: int) -> int:
        """Returns how many to ask for next."""
        return self.most if self.limit is None else min(self.most, max(1, self.limit - seen))


class Download(msgspec.Struct, Generic[T], frozen=True):
    """An answer that becomes a file, and what is said of it then."""

    call: Call[bytes]
    target: Target
    result: Callable[[int], T]
    """Told how many bytes there were."""
    progress: Progress = no_progress
    begins_again: bool = False
    """Whether all of it is asked for again where it breaks off: there is no asking for the rest."""


class Feed(msgspec.Struct, Generic[T], frozen=True):
    """Events that come for as long as somebody listens."""

    call: Callable[[str | None], Call[bytes]]
    """The call that goes on after an event that was seen."""
    read: Callable[[bytes], T | None]
    """None for what is nobody's business."""
    seen: str | None = None


class Sender(Protocol):
    """What sends calls: waits for answers, or returns what can be awaited.

    `send`, `run` and `save` return an answer or its coroutine, the others an iterator or an
    asynchronous one.
    """

    line: Line

    def speaking(self, line: Line) -> Any:  # noqa: ANN401 - one of the same kind
        """Returns one that speaks otherwise, over the same connections."""
        ...

    def close(self) -> Any:  # noqa: ANN401 - None, or what can be awaited
        """Lets go of the connections."""
        ...

    def send(self, call: Call[Any]) -> Any:  # noqa: ANN401 - an answer, or what can be awaited for it
        """Sends one call."""
        ...

    def run(self, steps: Steps[Any]) -> Any:  # noqa: ANN401 - an answer, or what can be awaited for it
        """Sends one call after the other."""
        ...

    def pages(self, pages: Pages[Any]) -> Any:  # noqa: ANN401 - an answer, or what can be awaited for it
        """Sends calls for as long as somebody wants more."""
        ...

    def stream(self, call: Call[bytes]) -> Any:  # noqa: ANN401 - an answer, or what can be awaited for it
        """Sends one call; the answer comes in pieces."""
        ...

    def save(self, download: Download[Any]) -> Any:  # noqa: ANN401 - an answer, or what can be awaited for it
        """Sends one call; the answer becomes a file."""
        ...

    def listen(self, feed: Feed[Any]) -> Any:  # noqa: ANN401 - an answer, or what can be awaited for it
        """Sends one call, and again when the connection breaks; what is told comes in pieces."""
        ...


class Group(Generic[F]):
    """Methods that belong together, of one client."""

    _is_awaited = False
    """Whether methods of this class, and not of an instance alone, are known to be coroutines."""
    above: Mapping[str, str] = MappingProxyType({})
    """What all its operations say: the workspace that they are for, the snapshot they look at."""

    def __init__(self, sender: Sender) -> None:
        self.sender = sender

    def __repr__(self) -> str:
        line = self.sender.line
        whose = "" if line.namespace is None else f" of {line.namespace!r}"
        return f"<{type(self).__name__}{whose} at {line.url}>"


class _Described(Generic[P, T]):
    """A method that describes, as one that does: `verb` says what its group's sender does."""

    verb = "send"
    says_answer = False
    """Whether the signature of what describes says the answer itself, and not its description."""

    def __init__(self, describe: Callable[Concatenate[Any, P], Any]) -> None:
        # Before anything is described: of steps, that would be when the first is taken.
        describe = checking(describe)
        self.__doc__, self.__wrapped__ = describe.__doc__, describe
        self.describe = describe
        """The description itself, for who makes steps of several."""
        verb = self.verb

        @functools.wraps(describe)
        def method(group: Group[Any], *args: P.args, **kwargs: P.kwargs) -> Any:  # noqa: ANN401 - as above
            return getattr(group.sender, verb)(describe(group, *args, **kwargs))

        described: Any = method
        described.describe = describe
        if not self.says_answer:
            described.__signature__ = _returning(
                describe, is_iterating=isinstance(self, _Iterating)
            )
        self._method = described

    def _bind(self, group: object) -> Any:  # noqa: ANN401 - as above
        """Returns the method of a group; of the class itself, a function with the description."""
        return self._method if group is None else MethodType(self._method, group)


def _returning(describe: Callable[..., Any], *, is_iterating: bool) -> inspect.Signature:
    """Returns the signature of a method: what it returns, and not what its description does."""
    signature = inspect.signature(describe)
    *_, answer = get_args(signature.return_annotation) or (signature.return_annotation,)
    return signature.replace(return_annotation=Iterator[answer] if is_iterating else answer)


class _Answering(_Described[P, T]):
    """A method that returns an answer, or a coroutine that does."""

    @overload
    def __get__(self, group: None, owner: object) -> Self: ...
    @overload
    def __get__(self, group: Group[Sync], owner: object) -> Callable[P, T]: ...
    @overload
    def __get__(
        self, group: Group[Async], owner: object
    ) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(self, group: object, owner: object) -> Any:
        if group is None and getattr(owner, "_is_awaited", False):
            return self._awaited
        return self._bind(group)

    @functools.cached_property
    def _awaited(self) -> Callable[..., Coroutine[Any, Any, T]]:
        """The method of a class whose methods are coroutines, so that `help` says to await it."""
        method: Any = self._method

        @functools.wraps(method)
        async def awaited(*args: Any, **kwargs: Any) -> T:  # noqa: ANN401 - as the method takes
            return await method(*args, **kwargs)

        return awaited


class asked(_Described[[], T]):  # noqa: N801 - a decorator
    """Makes an attribute of a generator that yields calls: its value, or what can be awaited."""

    verb = "run"

    def __init__(self, describe: Callable[[Any], Steps[T]]) -> None:
        super().__init__(describe)

    @overload
    def __get__(self, group: None, _: object) -> Self: ...
    @overload
    def __get__(self, group: Group[Sync], _: object) -> T: ...
    @overload
    def __get__(self, group: Group[Async], _: object) -> Coroutine[Any, Any, T]: ...
    def __get__(self, group: object, _: object) -> Any:
        return self if group is None else self._bind(group)()


class _Iterating(_Described[P, T]):
    """A method that returns an iterator, plain or asynchronous."""

    @overload
    def __get__(self, group: None, _: object) -> Self: ...
    @overload
    def __get__(self, group: Group[Sync], _: object) -> Callable[P, Iterator[T]]: ...
    @overload
    def __get__(self, group: Group[Async], _: object) -> Callable[P, AsyncIterator[T]]: ...
    def __get__(self, group: object, _: object) -> Any:
        return self._bind(group)


class method(_Answering[P, T]):  # noqa: N801 - as a decorator is
    """A method of a client that asks a server for an operation."""

    says_answer = True
    steps: Callable[[Operation[Any], Mapping[str, str]], Steps[Any]] | None = None
    """How it is asked for, if not by one call, or one for each part of a list."""

    def __init__(self, operation: Callable[P, Operation[T]]) -> None:
        is_paged = cast("type[Operation[T]]", operation).http.paged is not None
        ask = self.steps or (collecting if is_paged else asking)
        self.verb = "send" if ask is asking else "run"

        def describe(group: Group[Any], *args: P.args, **kwargs: P.kwargs) -> Any:  # noqa: ANN401 - as the verb wants it
            try:
                asked = operation(*args, **kwargs)
            except TypeError as exc:
                rename(exc, operation, self._method.__qualname__)
                raise
            return ask(asked, group.above)

        described: Any = describe
        described.__doc__, described.__signature__ = operation.__doc__, signature_of(operation)
        super().__init__(described)

    def __set_name__(self, owner: type, name: str) -> None:
        self._method.__name__, self._method.__qualname__ = name, f"{owner.__qualname__}.{name}"
        self._method.__module__ = owner.__module__


def asking(asked: Operation[T], above: Mapping[str, str] | None = None) -> Call[T]:
    """Returns the call that asks for an operation; `above` is what it says beside its fields."""
    return _call(asked, above, form_of(type(asked)).read_answer)


def paging(asked: Operation[Any], above: Mapping[str, str] | None = None) -> Pages[Any]:
    """Returns the calls that ask for a list, part by part."""
    form, paged, limit = form_of(type(asked)), asked.http.paged, cast("Any", asked).limit
    if paged is None:
        raise TypeError(type(asked).__name__)
    goes_on = paged.cursor is not None

    def cursor_of(last: Any) -> Any:  # noqa: ANN401 - one of the list, and what it is called there
        return last if paged.last is None else getattr(last, paged.last)

    def read(body: bytes) -> Page[Any]:
        items, has_more = form.read_page(body)
        return page_of(items, has_more=has_more and goes_on, cursor=cursor_of)

    def ask(cursor: Any, most: int) -> Call[Page[Any]]:  # noqa: ANN401 - as the last one has it
        more = {} if cursor is None else {str(paged.cursor): cursor}
        return _call(replace(cast("Any", asked), limit=most, **more), above, read)

    return Pages(paged.most, ask, limit)


def all_of(asked: Operation[Any], above: Mapping[str, str] | None = None) -> Pages[Any]:
    """Returns the calls that ask for the whole of a list, whatever its `limit`."""
    return msgspec.structs.replace(paging(asked, above), limit=None)


def collecting(asked: Operation[Any], above: Mapping[str, str] | None = None) -> Steps[Any]:
    """Asks for a list, part by part; returns all that is wanted of it."""
    found = yield from paging(asked, above).collect()
    kind = asked.returns
    return kind(found) if isinstance(kind, type) else found


def _call(
    asked: Operation[Any], above: Mapping[str, str] | None, read: Callable[[bytes], T]
) -> Call[T]:
    form = form_of(type(asked))
    sent, http = form.send(asked), form.http
    place, query = sent.place, sent.query
    for name, value in (above or {}).items():
        if f"{{{name}}}" in http.path:
            place[name] = value
        elif http.of_moments:
            query[name] = value
    return Call(
        method=http.method,
        path=http.path,
        place=place,
        query=query,
        body=sent.body,
        headers=sent.headers,
        read=read,
        is_slow=http.is_slow,
        is_reading=http.is_reading,
        is_harmless=http.is_harmless,
    )


# Decorators; each says in its type what it makes a method of.


class call(_Answering[P, T]):  # noqa: N801 - a decorator
    """Makes a method of what describes one call."""

    def __init__(self, describe: Callable[Concatenate[Any, P], Call[T]]) -> None:
        super().__init__(describe)


class flow(_Answering[P, T]):  # noqa: N801 - a decorator
    """Makes a method of a generator that yields calls and returns what came of them."""

    verb = "run"

    def __init__(self, describe: Callable[Concatenate[Any, P], Steps[T]]) -> None:
        super().__init__(describe)


class download(_Answering[P, T]):  # noqa: N801 - a decorator
    """Makes a method that writes an answer to a file."""

    verb = "save"

    def __init__(self, describe: Callable[Concatenate[Any, P], Download[T]]) -> None:
        super().__init__(describe)


class pages(_Iterating[P, T]):  # noqa: N801 - a decorator
    """Makes an iterator of a list that comes in parts."""

    verb = "pages"

    def __init__(self, describe: Callable[Concatenate[Any, P], Pages[T]]) -> None:
        super().__init__(describe)


class stream(_Iterating[P, bytes]):  # noqa: N801 - a decorator
    """Makes an iterator over the bytes of an answer."""

    verb = "stream"

    def __init__(self, describe: Callable[Concatenate[Any, P], Call[bytes]]) -> None:
        super().__init__(describe)


class listen(_Iterating[P, T]):  # noqa: N801 - a decorator
    """Makes an iterator over what a server tells as it happens."""

    verb = "listen"

    def __init__(self, describe: Callable[Concatenate[Any, P], Feed[T]]) -> None:
        super().__init__(describe)
