"""`import holdfast` costs nothing, and still has every name: the table and the stub agree."""

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import holdfast

PACKAGE = Path(holdfast.__file__).parent
STUB = ast.parse((PACKAGE / "__init__.pyi").read_text("utf-8"))


def stub_imports() -> dict[str, tuple[str, str]]:
    """Returns each name that the stub imports, with its module and its name there."""
    return {
        alias.asname or alias.name: (str(node.module), alias.name)
        for node in STUB.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def test_the_stub_and_the_table_name_the_same_things_in_the_same_places() -> None:
    in_stub = stub_imports()
    assert in_stub.pop("errors") == ("holdfast", "errors")
    in_table = {
        name: (home, holdfast._NAMED_ELSEWHERE.get(name, name))
        for name, home in holdfast._HOMES.items()
    }
    assert in_stub == in_table


def test_the_stub_and_the_package_promise_the_same_names() -> None:
    (promised,) = (
        ast.literal_eval(node.value)
        for node in STUB.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
    )
    assert promised == sorted(promised)
    assert sorted(holdfast.__all__) == promised


@pytest.mark.parametrize("name", holdfast.__all__)
def test_a_name_is_the_thing_that_lives_at_its_home(name: str) -> None:
    home = import_module(holdfast._HOMES[name])
    assert getattr(holdfast, name) is getattr(home, holdfast._NAMED_ELSEWHERE.get(name, name))


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        holdfast.nothing  # noqa: B018 - looking it up is the point


def test_the_names_are_listed_before_they_are_loaded() -> None:
    assert set(dir(holdfast)) >= {*holdfast.__all__, "errors"}


def loaded_by(code: str) -> set[str]:
    """Returns the modules that a new interpreter has loaded after some code."""
    program = f"{code}\nimport sys\nprint('\\n'.join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


def test_importing_the_package_loads_nothing_else() -> None:
    ours = {name for name in loaded_by("import holdfast") if name.startswith("holdfast")}
    assert ours == {"holdfast"}


def test_errors_can_be_reached_without_an_import_of_their_own() -> None:
    assert "holdfast.errors" in loaded_by("import holdfast\nholdfast.errors.NotFound")


def test_the_start_of_the_command_line_loads_no_engine() -> None:
    loaded = loaded_by("import holdfast.cli.main")
    assert {name for name in loaded if name.startswith("holdfast")} == {
        "holdfast",
        "holdfast.cli",
        "holdfast.cli.main",
    }
    assert not loaded & {"argparse", "typing", "msgspec", "json", "dataclasses", "pathlib"}


@pytest.mark.parametrize("arguments", [["--help"], ["snapshot", "--help"], ["nonsense"]])
def test_help_needs_no_engine(arguments: list[str]) -> None:
    loaded = loaded_by(f"from holdfast.cli.main import main\nmain({arguments!r})")
    assert not {name for name in loaded if name.startswith("holdfast.engine")}
    assert "msgspec" not in loaded
