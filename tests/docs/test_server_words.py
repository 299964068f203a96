"""Keeps the pages about the server true: every variable and every code that it knows is on one."""

import importlib
import pkgutil
import re
from pathlib import Path

import pytest

from holdfast import server, settings
from holdfast.catalog.postgres import PostgresCatalog
from holdfast.catalog.sqlite import SqliteCatalog
from holdfast.errors import HoldfastError
from holdfast.server import failures, problems
from holdfast.server.config import Config, to_environ
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


def test_every_variable_of_a_server_is_explained_with_what_is_usual() -> None:
    found = re.findall(r"^\| `(HOLDFAST_\w+)` \| (?:`(.*?)`)? ?\| \S.* \|$", SERVING, re.MULTILINE)
    home = {"HOME": "~"}
    cache = settings.cache_settings(home, platform="linux")
    assert cache is not None
    usual = {
        **to_environ(Config(data=Path())),
        CONFIG: "",
        settings.DATA: settings.user_vault(home, platform="linux"),
        settings.CACHE: cache.folder,
        settings.CACHE_BYTES: str(cache.max_bytes),
    }
    assert len(found) == len(usual)
    assert dict(found) == usual


def test_how_long_bytes_stay_is_said_of_both_databases() -> None:
    kinds = (PostgresCatalog, SqliteCatalog)
    of_each = [f"{kind.keep_deleted.total_seconds():.0f}" for kind in kinds]
    assert "; {} with PostgreSQL, {} without.".format(*of_each) in SERVING


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
