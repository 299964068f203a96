"""Every error has an exit code, and every hint belongs to an error that there is."""

import inspect

import pytest

from holdfast import errors
from holdfast.cli.exits import EXIT_CODES, HINTS, exit_code_of, usage
from holdfast.errors import HoldfastError

ERRORS = [
    kind
    for _, kind in inspect.getmembers(errors, inspect.isclass)
    if issubclass(kind, HoldfastError)
]

FAMILIES = {
    "Invalid": 2,
    "NotFound": 3,
    "Conflict": 4,
    "Denied": 1,
    "LimitExceeded": 1,
    "Damaged": 5,
    "Unavailable": 1,
    "Incompatible": 1,
}


def test_the_families_have_the_codes_that_are_documented() -> None:
    assert {kind.__name__: code for kind, code in EXIT_CODES.items()} == {
        "HoldfastError": 1,
        **FAMILIES,
    }


def test_every_family_that_there_is_has_a_row_of_its_own() -> None:
    assert {kind for kind in ERRORS if HoldfastError in kind.__bases__} <= set(EXIT_CODES)


@pytest.mark.parametrize("kind", ERRORS, ids=lambda kind: kind.__name__)
def test_every_error_has_the_code_of_its_family(kind: type[HoldfastError]) -> None:
    error = Exception.__new__(kind)  # Its arguments do not matter.
    family = next((each for each in kind.__mro__ if each.__name__ in FAMILIES), None)
    assert exit_code_of(error) == (FAMILIES[family.__name__] if family else 1)


def test_every_hint_is_for_an_error_that_there_is() -> None:
    assert set(HINTS) <= {kind.code for kind in ERRORS}


def test_what_nobody_foresaw_is_a_failure() -> None:
    assert exit_code_of(ZeroDivisionError()) == 1
    assert exit_code_of(usage("no", hint="")) == 2
