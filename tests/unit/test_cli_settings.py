"""Where the vault is: what was named, the environment, the nearest `.holdfast`, the user's own."""

import os
from pathlib import Path

import pytest

from holdfast.server.config import configure
from holdfast.settings import (
    CATALOG_NAME,
    find_location,
    find_objects,
    holds_vault,
    user_vault,
    wants_colour,
    without_password,
)


def make_vault(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / CATALOG_NAME).touch()
    return folder


def test_what_is_named_comes_first(tmp_path: Path) -> None:
    make_vault(tmp_path / ".holdfast")
    environ = {"HOLDFAST_DATA": "/elsewhere", "HOME": "/h"}
    assert find_location(environ, str(tmp_path), named="/named") == "/named"
    assert find_location(environ, str(tmp_path), named="here") == str(tmp_path / "here")
    assert find_location(environ, str(tmp_path), named="~/x") == "/h/x"


def test_the_environment_comes_before_what_lies_around(tmp_path: Path) -> None:
    make_vault(tmp_path / ".holdfast")
    assert find_location({"HOLDFAST_DATA": "/elsewhere"}, str(tmp_path)) == "/elsewhere"
    assert find_location({"HOLDFAST_DATA": ""}, str(tmp_path)) == str(tmp_path / ".holdfast")


@pytest.mark.parametrize(
    "environ",
    [
        {"HOLDFAST_DATA": "/data", "HOLDFAST_DATABASE_URL": "postgresql://db/x"},
        {"HOLDFAST_DATABASE_URL": "postgresql://db/x"},
        {"HOLDFAST_DATABASE_URL": "postgresql://db/x", "HOLDFAST_OBJECTS_URL": "/packs"},
        {"HOLDFAST_DATA": "~/data", "HOLDFAST_DATABASE_URL": "postgresql://db/x"},
        {"HOLDFAST_DATA": "/data"},
    ],
)
def test_a_command_finds_the_vault_that_a_server_would_serve(environ: dict[str, str]) -> None:
    environ = {"HOME": "/h", **environ}
    served = configure(environ)
    location = find_location(environ, "/work")
    assert (location, find_objects(environ, "/work", location)) == (served.location, served.objects)


def test_a_database_that_is_named_has_its_packs_where_somebody_says() -> None:
    environ = {"HOLDFAST_DATA": "/data", "HOLDFAST_DATABASE_URL": "postgresql://db/x"}
    other = "postgresql://db/y"
    assert find_objects(environ, "/work", other) is None
    assert find_objects(environ, "/work", other, named="packs") == "/work/packs"
    named = {**environ, "HOLDFAST_OBJECTS_URL": "/packs"}
    assert find_objects(named, "/work", other) == "/packs"
    assert find_objects(named, "/work", other, named="../mine") == "/mine"
    assert find_objects(named, "/work", "/data") is None
    assert find_objects({"HOLDFAST_DATA": other}, "/work", other) is None


def test_a_location_is_shown_without_its_password() -> None:
    assert without_password("/a:b@c") == "/a:b@c"
    assert without_password("postgresql://u@h/db") == "postgresql://u@h/db"
    assert without_password("postgresql://u:p%40ss@h:1/db?x=1") == "postgresql://u:…@h:1/db?x=1"
    assert without_password("postgresql://u:p/a@ss@h/db") == "postgresql://u:…@h/db"
    assert without_password("postgresql://h/db?sslpassword=p") == "postgresql://h/db?sslpassword=…"
    assert (
        without_password("postgresql://h/db?password=p&x=1") == "postgresql://h/db?password=…&x=1"
    )


def test_the_nearest_vault_above_is_found(tmp_path: Path) -> None:
    outer = make_vault(tmp_path / ".holdfast")
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    assert find_location({}, str(deep)) == str(outer)
    inner = make_vault(tmp_path / "a" / ".holdfast")
    assert find_location({}, str(deep)) == str(inner)


def test_a_directory_of_that_name_without_a_vault_is_none(tmp_path: Path) -> None:
    (tmp_path / ".holdfast").mkdir()
    environ = {"XDG_DATA_HOME": "/data"}
    assert find_location(environ, str(tmp_path)) == "/data/holdfast"


def test_a_vault_that_a_link_or_somebody_else_put_there_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = make_vault(tmp_path / "theirs")
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / ".holdfast").symlink_to(theirs)
    environ = {"XDG_DATA_HOME": "/data"}
    assert find_location(environ, str(tmp_path / "a")) == "/data/holdfast"
    make_vault(tmp_path / "b" / ".holdfast")
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert find_location(environ, str(tmp_path / "b")) == "/data/holdfast"


def test_everybody_has_a_vault_of_their_own() -> None:
    assert user_vault({"XDG_DATA_HOME": "/data", "HOME": "/h"}) == "/data/holdfast"
    assert user_vault({"HOME": "/h"}, platform="linux") == "/h/.local/share/holdfast"
    mac = user_vault({"HOME": "/h"}, platform="darwin")
    assert mac == "/h/Library/Application Support/holdfast"
    relative = {"XDG_DATA_HOME": "data", "HOME": "/h"}
    assert user_vault(relative, platform="linux") == "/h/.local/share/holdfast"


def test_a_database_is_taken_as_it_is_written(tmp_path: Path) -> None:
    url = "postgresql://host/db"
    assert find_location({"HOLDFAST_DATA": url}, str(tmp_path)) == url
    assert holds_vault(url)
    assert not holds_vault(str(tmp_path))


def test_variables_of_git_mean_nothing(tmp_path: Path) -> None:
    junk = {"GIT_DIR": "/junk", "GIT_WORK_TREE": "\0", "HOME": "/h"}
    assert find_location(junk, str(tmp_path)) == find_location({"HOME": "/h"}, str(tmp_path))


def test_colours_are_for_those_who_want_them() -> None:
    assert wants_colour({})
    assert wants_colour({"NO_COLOR": ""})
    assert not wants_colour({"NO_COLOR": "1"})
    assert not wants_colour({"TERM": "dumb"})
