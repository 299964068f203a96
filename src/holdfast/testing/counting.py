"""What something costs: functions and statements, which no noise of the machine can move."""

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final

from holdfast.catalog.driver import Driver
from holdfast.catalog.transaction import Transaction


def functions_called(call: Callable[[], object]) -> int:
    """Returns how many functions written in Python a call enters, in this thread."""
    entered = 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal entered
        entered += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        call()
    finally:
        sys.setprofile(before)
    return entered


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
