"""Vaults whose packs are in a bucket: what users do, on a real one."""

import json
import os
import re
import shutil
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

import httpx
import psycopg
import pytest

import holdfast
from holdfast.errors import InvalidValue, PackMissing, StoreMismatch
from holdfast.testing.buckets import Fault, SeaweedServer, Wire
from holdfast.testing.servers import Begin, running_server

pytestmark = pytest.mark.in_memory

FILES = {f"large-{number}.bin": Random(number).randbytes(150_000) for number in range(6)}


@pytest.fixture
def objects(seaweed: SeaweedServer) -> str:
    return seaweed.url(os.urandom(8).hex())


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOLDFAST_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def _is_read(method: str, path: str) -> bool:
    return method == "GET" and ".pack" in path


@pytest.mark.postgres
def test_a_vault_in_a_database_and_a_bucket(
    postgres_url: str,
    objects: str,
    wire: Wire,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    del wire
    with holdfast.open(postgres_url, objects=objects) as vault:
        agent = vault.namespace("alice")
        agent.files.write_many(FILES.items())
        first = agent.snapshot("first")
        for path in [*FILES][:3]:
            agent.files.delete(path)
        agent.files.write("notes.md", "small")
        agent.snapshot("second")
        agent.restore(first)
        assert {path: agent.files.read(path) for path in FILES} == FILES
        agent.undo()
        assert agent.files.read("notes.md") == b"small"
        fork = agent.fork("bob")
        assert fork.files.read("large-5.bin") == FILES["large-5.bin"]
    # Another machine, with a cache of its own.
    monkeypatch.setenv("HOLDFAST_CACHE", str(tmp_path / "elsewhere"))
    with holdfast.open(postgres_url, objects=objects) as vault:
        agent = vault.namespace("alice")
        assert agent.at(first).files.read("large-0.bin") == FILES["large-0.bin"]
        assert vault.collect(now=True).damaged == ()
        assert vault.verify().ok
        vault.backup(tmp_path / "backup")
    again = f"{objects}-again"
    assert [*(tmp_path / "backup" / "packs").rglob("pack-*")]
    with pytest.raises(StoreMismatch):
        holdfast.open(postgres_url, objects=again)


@pytest.mark.postgres
def test_a_backup_is_reinstated_into_a_bucket(
    postgres_url: str, bucket_url: str, tmp_path: Path
) -> None:
    with holdfast.open(postgres_url, objects=bucket_url) as vault:
        agent = vault.namespace("alice")
        agent.files.write_many(FILES.items())
        agent.snapshot("first")
        vault.backup(tmp_path / "backup")
    with psycopg.connect(postgres_url) as connection:
        connection.execute("DROP SCHEMA holdfast CASCADE")
    with pytest.raises(holdfast.errors.PathExists):
        holdfast.reinstate(tmp_path / "backup", postgres_url, objects=bucket_url)
    holdfast.reinstate(tmp_path / "backup", postgres_url, objects=f"{bucket_url}-new")
    with holdfast.open(postgres_url, objects=f"{bucket_url}-new") as vault:
        agent = vault.namespace("alice")
        assert {path: agent.files.read(path) for path in FILES} == FILES


def test_a_snapshot_of_ten_files_asks_the_bucket_nothing(
    objects: str, wire: Wire, tmp_path: Path
) -> None:
    with holdfast.open(tmp_path / "vault", objects=objects) as vault:
        agent = vault.namespace("alice")
        agent.files.write_many(
            {f"f{number:03}": FILES["large-0.bin"][number:] for number in range(9)}.items()
        )
        first = agent.snapshot("with packs in the bucket")
        assert wire.counts["PUT"] > 1
        for turn in range(3):
            before = wire.counts.copy()
            agent.files.write_many(
                {f"f{number:03}": f"{turn} {number}" for number in range(10)}.items()
            )
            agent.snapshot()
            agent.restore(first, dry_run=True)
            assert wire.counts == before
        agent.restore(first)
        agent.undo()
        assert wire.counts == before, "what was put a moment ago is there"


def fill_and_cool(place: Path, objects: str, cache: Path) -> None:
    """Makes a vault with files in a bucket, of which nothing is left in the cache."""
    with holdfast.open(place, objects=objects) as vault:
        agent = vault.namespace("alice")
        agent.files.write_many(FILES.items())
        agent.snapshot()
    shutil.rmtree(cache)


def test_a_cold_read_fetches_pages_and_a_warm_one_nothing(
    objects: str, wire: Wire, tmp_path: Path, cache: Path
) -> None:
    fill_and_cool(tmp_path / "vault", objects, cache)
    with holdfast.open(tmp_path / "vault", objects=objects) as vault:
        agent, before = vault.namespace("alice"), wire.counts["GET"]
        assert {path: agent.files.read(path) for path in FILES} == FILES
        cold = wire.counts["GET"] - before
    with holdfast.open(tmp_path / "vault", objects=objects) as vault:
        agent, before = vault.namespace("alice"), wire.counts["GET"]
        assert {path: agent.files.read(path) for path in FILES} == FILES
        assert wire.counts["GET"] == before
        assert 0 < cold <= 3
        vault.verify()
        assert wire.counts["GET"] > before, "no cache says that all is well"


def test_what_is_wrong_in_the_cache_heals_and_in_the_bucket_is_told(
    objects: str, wire: Wire, tmp_path: Path, cache: Path
) -> None:
    fill_and_cool(tmp_path / "vault", objects, cache)
    # On the wire: the page is kept as it came, and fetched again when it is found to be wrong.
    left = [Fault.FLIP]
    wire.choose = lambda method, path: left.pop() if left and _is_read(method, path) else None
    with holdfast.open(tmp_path / "vault", objects=objects) as vault:
        agent = vault.namespace("alice")
        assert {path: agent.files.read(path) for path in FILES} == FILES
    assert left == []
    for page in cache.rglob("*.page"):
        raw = bytearray(page.read_bytes())
        raw[len(raw) // 2] ^= 1
        page.write_bytes(raw)
    with holdfast.open(tmp_path / "vault", objects=objects) as vault:
        agent = vault.namespace("alice")
        assert {path: agent.files.read(path) for path in FILES} == FILES
        vault._context.blobs.forget()
        wire.choose = lambda method, path: Fault.FLIP if _is_read(method, path) else None
        assert not vault.verify().ok


def test_a_pack_that_somebody_deleted_is_damage(objects: str, wire: Wire, tmp_path: Path) -> None:
    del wire
    with holdfast.open(tmp_path / "vault", objects=objects) as vault:
        agent = vault.namespace("alice")
        agent.files.write_many(FILES.items())
        agent.snapshot()
        blobs = vault._context.blobs
        for name, _ in [*blobs.iter_names()]:
            blobs.delete(name)
    with holdfast.open(tmp_path / "vault", objects=objects) as vault:
        assert vault.lost_packs()
        with pytest.raises(PackMissing):
            vault.namespace("alice").files.read("large-0.bin")
        with pytest.raises(PackMissing):
            vault.namespace("alice").snapshot()


def test_a_copy_that_is_in_the_cache_alone_is_not_relied_on(
    objects: str, wire: Wire, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with holdfast.open(tmp_path / "vault", objects=objects) as vault:
        agent = vault.namespace("alice")
        agent.files.write_many(FILES.items())
        agent.snapshot()
    with holdfast.open(tmp_path / "vault", objects=objects) as vault:
        agent, bucket = vault.namespace("alice"), vault._context.blobs.uncached()
        assert agent.files.read("large-0.bin") == FILES["large-0.bin"]
        for name, _ in [*bucket.iter_names()]:
            bucket.delete(name)
        before = wire.counts["GET"]
        assert agent.files.read("large-0.bin") == FILES["large-0.bin"]
        assert wire.counts["GET"] == before, "the cache has it"
        for path, data in FILES.items():
            agent.files.write(f"again/{path}", data)
    monkeypatch.setenv("HOLDFAST_CACHE", str(tmp_path / "empty"))
    with holdfast.open(tmp_path / "vault", objects=objects) as vault:
        files = vault.namespace("alice").files
        assert {path: files.read(f"again/{path}") for path in FILES} == FILES


@pytest.mark.postgres
def test_two_servers_and_commands_share_a_bucket(
    postgres_url: str, bucket_url: str, tmp_path: Path, at_once: Begin, warm: tuple[str, ...]
) -> None:
    for name in ("a", "b"):
        (tmp_path / name / "vault").mkdir(parents=True, mode=0o700)
    place = {"HOLDFAST_DATABASE_URL": postgres_url, "HOLDFAST_OBJECTS_URL": bucket_url}
    with (
        running_server(tmp_path / "a", environ=place, begin=at_once) as a,
        running_server(tmp_path / "b", environ=place, begin=at_once) as b,
        holdfast.Client(a.api_key, url=a.url, namespace="alice") as one,
        holdfast.Client(a.api_key, url=b.url, namespace="alice") as two,
    ):
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda item: one.files.write(*item), FILES.items()))
        one.snapshot("by a")
        assert {path: two.files.read(path) for path in FILES} == FILES
        health = httpx.get(f"{a.url}/health/ready").json()
        assert health["status"] == "healthy"
        assert {name: of["status"] for name, of in health["services"].items()} == {
            "catalog": "healthy",
            "packs": "healthy",
        }
        answered = re.search(
            r"^holdfast_packs_answered_timestamp_seconds (\S+)$",
            httpx.get(f"{a.url}/metrics").text,
            re.MULTILINE,
        )
        assert answered is not None
        assert time.time() - float(answered[1]) < 60
        environ = {**os.environ, **place, "HOLDFAST_STAY": "0"}
        for command in ("verify", "gc", "doctor"):
            done = subprocess.run(
                [*warm, command, "--json"],
                env=environ,
                cwd=tmp_path,
                capture_output=True,
                check=False,
            )
            assert done.returncode == 0, done.stderr
            assert json.loads(done.stdout)
        wrong = {**environ, "HOLDFAST_OBJECTS_URL": str(tmp_path / "a disk of its own")}
        done = subprocess.run(
            [*warm, "verify"],
            env=wrong,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode != 0
        assert "is not where the packs of this vault are" in done.stderr


def test_a_catalog_is_never_in_a_bucket(bucket_url: str) -> None:
    with pytest.raises(InvalidValue, match="s3:// is not known"):
        holdfast.open(bucket_url)
