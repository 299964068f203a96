"""Commands on a vault in a database, typed where its server runs, and elsewhere."""

import random
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import holdfast
from holdfast.testing.shells import environment

from .test_cli import Session

pytestmark = pytest.mark.postgres


@pytest.fixture
def operator(tmp_path: Path, postgres_url: str, warm: tuple[str, ...]) -> Session:
    """Somebody with the environment of a server, whose vault holds something."""
    user = Session(tmp_path, warm)
    data = tmp_path / "data"
    with holdfast.open(postgres_url, objects=data / "packs") as vault:
        served = vault.namespace("served")
        served.files.write("large.bin", random.Random(1).randbytes(2_000_000))
        served.snapshot("by the server")
    user.environ |= {"HOLDFAST_DATA": str(data), "HOLDFAST_DATABASE_URL": postgres_url}
    return user


def test_whoever_has_the_environment_of_a_server_looks_at_its_vault(operator: Session) -> None:
    assert "All is well" in operator.ok("verify").out
    checks = operator.ok("doctor", "--json").document["checks"]
    assert {each["name"] for each in checks if each["state"] == "ok"} >= {"vault", "catalog"}
    (pack,) = Path(operator.environ["HOLDFAST_DATA"]).rglob("*.pack")
    pack.rename(operator.home / pack.name)
    assert operator("verify").code == operator("repair").code == 5
    assert operator("repair", "--from", str(operator.home)).code == 0
    assert "All is well" in operator.ok("verify").out
    operator.ok("gc")
    assert operator.ok("keys", "list", "--json").document["keys"] == []
    assert operator.ok("backup", str(operator.home / "backup"), "--json").document["snapshots"] == 1


def test_a_directory_is_attached_to_a_vault_in_a_database(
    operator: Session, postgres_url: str
) -> None:
    wanted = operator.files()
    operator.ok("init")
    operator.write("readme.md", "changed\n")
    (operator.project / "src/app.py").unlink()
    # Who names the vault needs no environment.
    elsewhere = environment(Path(operator.environ["HOME"]))
    packs = f"{operator.environ['HOLDFAST_DATA']}/packs"
    assert operator("status", "--data", postgres_url, env=elsewhere).code == 2
    argv = ["--objects", packs, "--data", postgres_url, "undo"]
    assert operator(*argv, env=elsewhere).code == 0
    assert operator.files() == wanted
    for command in (["gc"], ["verify"], ["doctor"], ["du"], ["keys", "list"]):
        assert operator(*argv[:-1], *command, env=elsewhere).code == 0, command
    assert not [*operator.project.glob("postgresql*")]
    assert operator.ok("du", "--json").document["catalog_bytes"] is None
    lost = operator("log", env={**elsewhere, "HOLDFAST_DATA": operator.environ["HOLDFAST_DATA"]})
    assert lost.code == 5
    assert "HOLDFAST_DATABASE_URL" in lost.err


def test_the_packs_of_a_database_are_not_attached(operator: Session) -> None:
    packs = f"{operator.environ['HOLDFAST_DATA']}/packs"
    for more in ([], ["--force"]):
        done = operator("init", packs, *more)
        assert done.code == 4, done
    assert operator.ok("workspaces", "--json").document["workspaces"] == []


def test_the_password_of_a_database_is_not_shown(operator: Session) -> None:
    place = urlsplit(operator.environ["HOLDFAST_DATABASE_URL"])
    secret = f"postgresql://{place.username}:hunter2@{place.hostname}:{place.port}{place.path}"
    operator.environ["HOLDFAST_DATABASE_URL"] = f"{secret}?application_name=x"
    for argv in (["status"], ["init"], ["status"], ["workspaces"], ["du"], ["doctor"]):
        for more in ([], ["--json"]):
            done = operator(*argv, *more)
            assert "hunter2" not in done.out + done.err, done
