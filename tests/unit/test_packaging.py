"""What users get: exactly the promised names, and a wheel with every file they need."""

import re
import shutil
import sys
import sysconfig
import tomllib
import zipfile
from collections.abc import Iterator
from hashlib import sha256
from itertools import chain
from pathlib import Path
from types import ModuleType

import pytest
from hatchling.builders.wheel import WheelBuilder
from trove_classifiers import classifiers

import holdfast
from holdfast.workspace.library import library_name

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
CORE_NAME = f"_core{sysconfig.get_config_var('EXT_SUFFIX')}"
COMPILER = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)


def build_wheel(directory: Path) -> Path:
    (built,) = WheelBuilder(str(ROOT)).build(directory=str(directory), versions=["standard"])
    return Path(built)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[zipfile.ZipFile]:
    with zipfile.ZipFile(build_wheel(tmp_path_factory.mktemp("wheel"))) as archive:
        yield archive


def test_every_promised_name_is_there_once() -> None:
    assert len(holdfast.__all__) == len(set(holdfast.__all__))
    assert [name for name in holdfast.__all__ if not hasattr(holdfast, name)] == []


def test_no_public_name_is_there_without_a_promise() -> None:
    public = {
        name
        for name, value in vars(holdfast).items()
        # Submodules become attributes when somebody imports them: that is not an export.
        if not name.startswith("_") and not isinstance(value, ModuleType)
    }
    assert public - set(holdfast.__all__) == set()


def test_a_star_import_brings_exactly_the_promised_names() -> None:
    space: dict[str, object] = {}
    exec("from holdfast import *", space)
    assert space.keys() - {"__builtins__"} == set(holdfast.__all__)


def test_the_wheel_holds_every_file_of_the_package(wheel: zipfile.ZipFile) -> None:
    source = ROOT / "src"
    wanted = {
        path.relative_to(source).as_posix()
        for path in (source / "holdfast").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".so"
        if not path.name.startswith("_thin-")  # It is installed as the command.
    }
    # Compiled for this machine, if it can be; never what another machine left in the tree.
    if COMPILER:
        parts = ("statcheck", "creating", "resting")
        wanted |= {f"holdfast/workspace/{library_name(part)}" for part in parts}
        wanted.add(f"holdfast/store/{CORE_NAME}")
    shipped = {name for name in wheel.namelist() if name.startswith("holdfast/")}
    assert shipped == wanted
    assert "holdfast/py.typed" in shipped
    assert any(name.startswith("holdfast/catalog/sql/") for name in shipped)


def scripts_of(archive: zipfile.ZipFile) -> dict[str, bytes]:
    """Returns how each script begins that a wheel installs."""
    return {
        name.rpartition("/")[2]: archive.read(name).partition(b"\n")[0][:8]
        for name in archive.namelist()
        if "/scripts/" in name and ".data/" in name
    }


@pytest.mark.skipif(not COMPILER or sys.platform != "linux", reason="no compiler at hand")
def test_the_command_is_the_client_in_c_and_the_script_lies_beside_it(
    wheel: zipfile.ZipFile,
) -> None:
    scripts = scripts_of(wheel)
    assert scripts["holdfast"].startswith(b"\x7fELF")
    assert scripts["holdfast-python"] == b"#!python"


@pytest.mark.skipif(not COMPILER, reason="no compiler at hand")
def test_a_wheel_with_compiled_code_is_for_its_platform_and_its_python(
    wheel: zipfile.ZipFile,
) -> None:
    tags = wheel.read(f"holdfast-{PROJECT['version']}.dist-info/WHEEL").decode()
    assert "Root-Is-Purelib: false" in tags
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    assert f"Tag: {python}-{python}" in tags
    assert "Tag: py3-none-any" not in tags


@pytest.mark.parametrize("compiler", ["no-such-compiler", "false"])
def test_without_a_compiler_the_wheel_is_pure(
    tmp_path: Path,
    compiler: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("CC", compiler)
    built = build_wheel(tmp_path)
    assert built.name.endswith("-py3-none-any.whl")
    with zipfile.ZipFile(built) as archive:
        assert [name for name in archive.namelist() if name.endswith(".so")] == []
        assert scripts_of(archive) == {"holdfast": b"#!python"}
    said = "".join(capsys.readouterr())
    assert "The stat check stays in Python" in said
    assert "Files are created from Python" in said
    assert "Leases are asked for from Python" in said
    assert "The core of the store stays in Python" in said
    assert "The command starts in Python" in said
    assert said.count("\n") == 5


def test_the_wheel_carries_its_licence_and_version(wheel: zipfile.ZipFile) -> None:
    info = f"holdfast-{PROJECT['version']}.dist-info"
    names = wheel.namelist()
    assert f"{info}/licenses/LICENSE" in names
    metadata = wheel.read(f"{info}/METADATA").decode()
    assert "License-Expression: Apache-2.0" in metadata


def test_a_version_is_told_by_the_package_and_by_the_changelog() -> None:
    assert holdfast.__version__ == PROJECT["version"]
    released = re.findall(
        r"^## \[(\d.*?)\]", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE
    )
    assert released[0] == PROJECT["version"]


def test_every_classifier_is_one() -> None:
    assert set(PROJECT["classifiers"]) <= classifiers
    stated = {each.rpartition(" ")[2] for each in PROJECT["classifiers"] if ":: 3." in each}
    assert f"{sys.version_info.major}.{sys.version_info.minor}" in stated


def test_the_compiled_core_is_of_this_source() -> None:
    core = pytest.importorskip("holdfast.store._core", reason="nothing was compiled")
    folder = ROOT / "src/holdfast/store"
    sources = [folder / "_core.c", *sorted((folder / "headers").iterdir())]
    digest = sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()
    assert digest == core.DIGEST, "the source has changed since: run `make check` to compile it"


def test_every_dependency_has_its_row_and_no_row_is_left_over() -> None:
    wanted = chain(PROJECT["dependencies"], *PROJECT["optional-dependencies"].values())
    names = {re.match(r"[\w-]+", requirement)[0] for requirement in wanted} - {"holdfast"}
    rows = re.findall(
        r"^\| `([\w-]+)` \| .+ \| .+ \| .+ \|",
        (ROOT / "docs/dependencies.md").read_text("utf-8"),
        re.MULTILINE,
    )
    assert sorted(rows) == sorted(names)
