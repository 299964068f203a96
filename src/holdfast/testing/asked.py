"""The statements of a catalog, by their names: what something costs, whatever the machine does."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Final

from holdfast.catalog.driver import Driver
from holdfast.catalog.transaction import Transaction

_ASKING: Final = frozenset(
    {"one", "all", "all_as_stored", "by_keys", "run", "run_many", "say", "say_many", "insist"}
)


@contextmanager
def asked() -> Generator[list[str]]:
    """Notes the name of every query that transactions ask for meanwhile, in their order."""
    names, begin = list[str](), Transaction.__init__

    def noting(self: Transaction, driver: Driver) -> None:
        begin(self, _Noted(driver, names))  # pyright: ignore[reportArgumentType] - a stand-in

    Transaction.__init__ = noting
    try:
        yield names
    finally:
        Transaction.__init__ = begin


class _Noted:
    """A driver that remembers what it was asked."""

    def __init__(self, driver: Driver, names: list[str]) -> None:
        self._driver, self._names = driver, names

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever a driver has
        there = getattr(self._driver, name)
        if name not in _ASKING:
            return there

        def ask(query: str, /, *given: object, **parameters: object) -> Any:  # noqa: ANN401 - as above
            self._names.append(query)
            return there(query, *given, **parameters)

        return ask
