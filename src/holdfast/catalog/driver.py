"""What runs named queries inside one transaction, and what stands around it."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Protocol, cast

from holdfast.behalf import REST, Rest
from holdfast.catalog.rows import Row
from holdfast.errors import HoldfastError, Unavailable

KeyedRow = tuple[bytes, bytes | None, int]
"""A key, its entry, and the checksum of the row that they are in."""


Moment = tuple[int, int, int] | None
"""Stands for one commit; None where nobody can say without a question which was the last."""


class Asked(Exception):
    """A question was sent, and whoever asked it goes on without its answer."""


class Several:
    """Queries that change a table each, and what the values that they are run with are called."""

    __slots__ = ("columns", "names")

    def __init__(self, names: Sequence[str], columns: Sequence[str]) -> None:
        self.names, self.columns = tuple(names), tuple(columns)


class Driver(Protocol):
    """Runs named queries inside one transaction."""

    is_unheard: bool
    """Whether it is known, without a question, that nobody listens to events."""

    @property
    def era(self) -> int:
        """Another one where what was known of the database before may not be so any more."""
        ...

    @property
    def follows(self) -> Moment:
        """The last commit of all, which this transaction follows on."""
        ...

    @property
    def becomes(self) -> Moment:
        """The commit that it will be, if it changes something."""
        ...

    def asking(self) -> "Driver | None":
        """Returns what sends a question, and raises `Asked`; None where nobody waits for answers.

        When the same is asked here later, the answer is there, as of when it was sent.
        """
        ...

    def one(self, name: str, /, **parameters: object) -> Row | None: ...
    def all(self, name: str, /, **parameters: object) -> Sequence[Row]: ...
    def all_as_stored(self, name: str, /, **parameters: object) -> Sequence[Row]:
        """Returns rows for who looks for damage: text that is none has its bytes as surrogates."""
        ...

    def run(self, name: str, /, **parameters: object) -> int: ...
    def say(self, name: str, /, **parameters: object) -> None:
        """Runs a query whose outcome nobody waits for: should it fail, the next one says so."""
        ...

    def say_all(self, several: Several, values: Sequence[object], /) -> None:
        """Runs several queries as `say` does, in order or all at once, with values by place.

        By name, sixty values take three times as long.
        """
        ...

    def insist(self, name: str, /, *, locked: bool = False, **parameters: object) -> None:
        """Runs a query that has to have a row; `Busy` if it has none, with the next answer.

        It is `locked` where somebody else could change it: as it is then, it has to be asked for.
        """
        ...

    def lock(self, name: str, /, **parameters: object) -> None:
        """Runs a query that is there for its locks alone; not where writers are serial."""
        ...

    def run_many(self, name: str, rows: Iterable[Mapping[str, object]], /) -> int: ...
    def by_keys(
        self, name: str, keys: Sequence[bytes], /, *, near: bool = False, **parameters: object
    ) -> Sequence[Row]:
        """Returns the rows of a query for every `:key`, in any order.

        `near` says that the keys may well lie side by side, and are the first column.
        """
        ...

    def say_many(self, name: str, rows: Iterable[Mapping[str, object]], /) -> None:
        """Runs a query for every row, as `say` does."""
        ...

    def put_rows(self, name: str, rows: Iterable[KeyedRow], /, **parameters: object) -> None:
        """Runs a query for every `:key`, `:entry` and `:checksum`, each key at most once."""
        ...

    def dump(self, path: str, /, *, opened: Callable[[], None]) -> None:
        """Writes all rows, as this transaction sees them, to a file, which is empty.

        `opened` is called before the first of them, when the file needs its name no more.
        """
        ...


def paced(driver: Driver) -> Driver:
    """Returns a driver that rests, where it is one that reads, and this a thread that does."""
    rest = REST.get()
    return driver if rest is None else cast("Driver", _Paced(driver, rest))


class _Paced:
    """Rests before each question, and among the rows of an answer.

    For what only reads: nobody waits for who is in the middle of it.
    """

    def __init__(self, driver: Driver, rest: Rest) -> None:
        self._driver, self._rest = driver, rest

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever a driver has
        return getattr(self._driver, name)

    def one(self, name: str, /, **parameters: object) -> Row | None:
        self._rest()
        return self._driver.one(name, **parameters)

    def all(self, name: str, /, **parameters: object) -> Sequence[Row]:
        self._rest()
        return _Rows(self._driver.all(name, **parameters), self._rest)

    def all_as_stored(self, name: str, /, **parameters: object) -> Sequence[Row]:
        self._rest()
        return _Rows(self._driver.all_as_stored(name, **parameters), self._rest)

    def by_keys(self, name: str, keys: Sequence[bytes], /, **more: Any) -> Sequence[Row]:  # noqa: ANN401 - as above
        self._rest()
        return _Rows(self._driver.by_keys(name, keys, **more), self._rest)


_ROWS: Final = 32
"""After so many rows there may be a rest: what is made of one takes 10 to 50 µs."""


class _Rows(list[Row]):
    """Rows that make whoever goes through them rest."""

    def __init__(self, rows: Sequence[Row], rest: Rest) -> None:
        super().__init__(rows)
        self._rest = rest

    def __iter__(self) -> Iterator[Row]:
        for at, row in enumerate(super().__iter__(), 1):
            yield row
            if at % _ROWS == 0:
                self._rest()


class Guard:
    """Stands around everything a driver does, and lets no error of the database out.

    It remembers the first one: a transaction in which something failed can only be undone,
    also when its user has swallowed the error. Committing goes through here too.
    """

    __slots__ = ("_failure", "_is_over", "_translate")

    def __init__(self, translate: Callable[[BaseException], HoldfastError | None]) -> None:
        self._translate = translate
        self._failure: HoldfastError | None = None
        self._is_over = False

    def __enter__(self) -> None:
        if self._is_over:
            raise self._failure or Unavailable("the transaction has ended")

    def __exit__(
        self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None
    ) -> None:
        if error is None or isinstance(error, Asked):
            return
        translated = self._translate(error)
        self._failure = translated or Unavailable(f"the transaction was interrupted: {error}")
        self._is_over = True
        if translated is not None:
            raise translated from error

    def end(self) -> None:
        """Refuses all that comes after: the connection may be somebody else's by now."""
        self._failure = None
        self._is_over = True
