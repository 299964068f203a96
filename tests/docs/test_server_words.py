"""Keeps the pages about the server true: every variable and every code that it knows is on one."""

import importlib
import pkgutil
import re
from pathlib import Path

import pytest

from holdfast import server
from holdfast.errors import HoldfastError
from holdfast.server import failures, problems
from holdfast.server.variables import DATA, VARIABLES
from holdfast.settings import EXEC
from holdfast.settingsfile import CONFIG, SECRETS

PAGES = Path(__file__).parents[2] / "docs" / "reference"
SERVING = (PAGES / "serving.md").read_text()


def codes_of_the_server() -> dict[str, int]:
    """Returns the codes of errors that only a server raises, with their statuses."""
    for module in pkgutil.walk_packages(server.__path__, "holdfast.server."):
        importlib.import_module(module.name)
    kinds, found = [HoldfastError], dict[str, int]()
    while kinds:
        kind = kinds.pop()
        kinds += kind.__subclasses__()
        if kind.__module__.startswith("holdfast.server.") and "code" in vars(kind):
            found[kind.code] = problems.status_of(kind.__new__(kind))
    # What fails on the way to a webhook is told by its delivery, and answered to nobody.
    found = {code: status for code, status in found.items() if status != problems.FAULT}
    return found | {failures.INTERNAL: problems.FAULT}


@pytest.mark.parametrize("name", [DATA, CONFIG, *(v.name for v in VARIABLES), *EXEC.values()])
def test_every_variable_of_a_server_is_explained(name: str) -> None:
    assert re.search(rf"^\| .*`{name}`.* \|", SERVING, re.MULTILINE)


def test_every_secret_that_may_be_in_a_file_is_named() -> None:
    assert [name for name in SECRETS if f"`{name}`" not in SERVING] == []


@pytest.mark.parametrize(("code", "status"), sorted(codes_of_the_server().items()))
def test_every_code_of_a_server_is_explained_with_its_status(code: str, status: int) -> None:
    assert re.search(rf"^\| {status} \| `{code}` \| ", SERVING, re.MULTILINE)


def test_there_are_codes_to_explain() -> None:
    assert {"authentication_failed": 401, "range_not_satisfiable": 416}.items() <= (
        codes_of_the_server().items()
    )


def test_every_way_out_of_the_sandbox_is_tried_by_a_test() -> None:
    root = Path(__file__).parents[2]
    named = set(re.findall(r"`(test_\w+)`", (root / "SECURITY.md").read_text()))
    there = {
        name
        for path in (root / "tests" / "acceptance").glob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", path.read_text(), re.MULTILINE)
    }
    assert named
    assert named - there == set()
