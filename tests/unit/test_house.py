"""The house has the rooms that its page and the linter name, and no others."""

import ast
import importlib.util
import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
ENGINE = ROOT / "src" / "holdfast" / "engine"

there = {path.stem for path in ENGINE.iterdir() if not path.name.startswith("__")}


def test_the_page_names_every_room_and_where_to_begin() -> None:
    page = (ROOT / "docs" / "house.md").read_text()
    rows = re.findall(
        r"^\| `(\w+)` \|.*\| (`.*`) \|$", page.partition("## The rooms")[2], re.MULTILINE
    )
    assert {room for room, _ in rows} == there
    for room, files in rows:
        for name in re.findall(r"`([\w.]+)`", files):
            assert (ENGINE / room / name).is_file() or (ENGINE / name).is_file(), f"{room}: {name}"


def test_the_page_names_every_folder() -> None:
    page = (ROOT / "docs" / "house.md").read_text()
    folders = {path.parent.name for path in (ROOT / "src" / "holdfast").glob("*/__init__.py")}
    assert len(folders) > 20
    assert {name for name in folders if f"`{name}`" not in page} == set()


def test_the_page_has_the_order_that_the_linter_holds() -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        contracts = tomllib.load(file)["tool"]["importlinter"]["contracts"]
    (rooms,) = (c["layers"] for c in contracts if c.get("containers") == ["holdfast.engine"])
    page = (ROOT / "docs" / "house.md").read_text().partition("## The rooms")[2]
    listed = re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)
    place = {room: number for number, line in enumerate(rooms) for room in line.split(" | ")}
    assert [place[room] for room in listed] == sorted(place[room] for room in listed)


def test_every_room_says_what_it_is() -> None:
    for room in ENGINE.glob("*/__init__.py"):
        assert ast.get_docstring(ast.parse(room.read_text())), room


def test_what_benchmarks_and_soaks_import_is_there() -> None:
    """No test run starts most of them: a name that moved would be missed when they are needed."""
    for path in sorted((ROOT / "bench").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            module = node.module if isinstance(node, ast.ImportFrom) else None
            if module is None or module.partition(".")[0] != "holdfast":
                continue
            if module.startswith("holdfast.integrations."):
                continue  # Of frameworks that need not be installed.
            room = importlib.import_module(module)
            for name in (alias.name for alias in node.names):
                is_there = hasattr(room, name) or importlib.util.find_spec(f"{module}.{name}")
                assert is_there, f"{path.name}: {module}.{name}"
