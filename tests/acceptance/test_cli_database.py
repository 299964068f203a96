"""Commands on a vault in a database, typed where its server runs, and elsewhere."""

import random
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

import holdfast
from holdfast.testing.postgres import PostgresServer
from holdfast.testing.shells import environment

from .test_cli import Session

pytestmark = [pytest.mark.in_memory, pytest.mark.postgres]


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


def test_what_stands_in_files_is_as_good_as_the_environment(operator: Session) -> None:
    for name in ("HOLDFAST_DATABASE_URL", "HOLDFAST_DATA"):
        (operator.home / name).write_text(operator.environ.pop(name) + "\n")
    url = operator.home / "HOLDFAST_DATABASE_URL"
    data = (operator.home / "HOLDFAST_DATA").read_text().strip()
    filed = {"HOLDFAST_DATABASE_URL_FILE": str(url), "HOLDFAST_DATA": data}
    settings = operator.home / "holdfast.toml"
    settings.write_text(f'data = "{data}"\ndatabase_url_file = "{url}"\n')
    for environ in (filed, {"HOLDFAST_CONFIG": str(settings)}):
        told = {**operator.environ, **environ}
        assert "served" in operator("namespaces", env=told).out
        assert "All is well" in operator("verify", env=told).out
        assert operator("keys", env=told).code == 0
    assert operator("keys", "--config", str(settings)).code == 0
    assert operator("migrate", "--config", str(settings), "--check").code == 0
    url.unlink()
    wrong = {**operator.environ, "HOLDFAST_CONFIG": str(settings)}
    for command in ("status", "verify", "keys", "serve"):
        done = operator(command, env=wrong)
        assert (done.code, "HOLDFAST_DATABASE_URL_FILE" in done.err) == (2, True)
    assert operator("version", env=wrong).code == 0


def test_tables_are_brought_up_to_date_before_a_server_needs_them(
    operator: Session, postgres: PostgresServer
) -> None:
    url = postgres.dsn(postgres.create_database())
    data = str(operator.home / "data")
    operator.environ |= {"HOLDFAST_DATABASE_URL": url, "HOLDFAST_DATA": data}
    for command, code, applied in (
        (["migrate", "--check"], 1, 0),
        (["migrate"], 0, 1),
        (["migrate", "--check"], 0, 0),
        (["migrate"], 0, 0),
    ):
        done = operator(*command, "--json")
        assert (done.code, bool(done.document["applied"])) == (code, bool(applied)), command
    newest = done.document["newest"]
    with psycopg.connect(url, autocommit=True) as connection:
        add = "INSERT INTO holdfast.migrations VALUES (%s, %s, 0)"
        connection.execute(add, (newest + 1, f"{newest + 1:04}_more_beside_{newest:04}"))
        beside = operator.ok("migrate", "--check", "--json").document
        assert (beside["format"], beside["missing"]) == (newest + 1, [])
        assert "All is well" in operator.ok("verify").out
        connection.execute(add, (newest + 2, f"{newest + 2:04}_other"))
    assert operator("migrate", "--check").code == 1
    assert "knows up to" in operator("migrate").err
