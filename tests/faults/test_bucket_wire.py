"""What goes wrong between us and a bucket: the right error, in time, and nothing named in vain."""

import os
import random
import signal
import time
from pathlib import Path

import pytest

import holdfast
from holdfast.blobs.bucket import BucketBlobStore, open_bucket
from holdfast.blobs.buckets import PATIENT, QUICK, Address, Bucket
from holdfast.errors import (
    InvalidValue,
    PackDamaged,
    PackMissing,
    StorageDenied,
    Unavailable,
)
from holdfast.testing.buckets import Fault, SeaweedServer, Wire, free_ports

pytestmark = pytest.mark.in_memory

NOISE = random.Random(5).randbytes(400_000)
"""More than what is kept inside the catalog."""

HURRIED = QUICK._replace(request_s=1.0, tries_s=0.5, tries=2)


@pytest.fixture
def url(seaweed: SeaweedServer) -> str:
    return seaweed.url(os.urandom(8).hex())


def hurried(url: str) -> BucketBlobStore:
    """Returns the blobs of a bucket for which nobody waits long."""
    address = Address.of(url)
    return BucketBlobStore(Bucket(address.connect(HURRIED), name=url.rpartition("/")[0]))


def test_a_put_whose_answer_was_lost_is_done(wire: Wire, url: str) -> None:
    blobs = open_bucket(url)
    wire.harm(Fault.LOSE, method="PUT", times=1)
    blobs.put("pack-a", NOISE)
    assert wire.counts["PUT"] == 2
    assert blobs.get("pack-a") == NOISE
    assert dict(blobs.iter_names()) == {"pack-a": len(NOISE)}


def test_other_bytes_that_were_there_are_no_lost_answer(wire: Wire, url: str) -> None:
    blobs = open_bucket(url)
    blobs.put("pack-a", b"theirs")
    wire.harm(Fault.LOSE, method="PUT", times=1)
    with pytest.raises(Unavailable, match="other bytes are there"):
        blobs.put("pack-a", b"ours!!")
    assert blobs.get("pack-a") == b"theirs"


@pytest.mark.parametrize("method", ["PUT", "GET", "HEAD", "DELETE"])
def test_a_bucket_that_is_busy_for_a_moment_is_asked_again(
    wire: Wire, url: str, method: str
) -> None:
    blobs = open_bucket(url)
    blobs.put("pack-a", NOISE)
    wire.harm(Fault.BUSY, method=method, times=2)
    blobs.put("pack-b", NOISE)
    assert blobs.get("pack-a", start=5, length=7) == NOISE[5:12]
    assert blobs.size("pack-b") == len(NOISE)
    blobs.delete("pack-a")
    assert dict(blobs.iter_names()) == {"pack-b": len(NOISE)}


@pytest.mark.parametrize("fault", [Fault.BUSY, Fault.HANG, Fault.DRIP, Fault.LOSE])
def test_a_bucket_that_stays_away_is_unavailable_in_time(wire: Wire, url: str, fault: str) -> None:
    open_bucket(url).put("pack-a", NOISE)
    blobs = hurried(url)
    wire.harm(fault, method="GET")
    began, asked = time.monotonic(), wire.counts["HEAD"]
    with pytest.raises(Unavailable):
        blobs.get("pack-a", start=0, length=100_000)
    # A request, its tries, and a busy machine; not the 30 s that nobody waits for.
    assert time.monotonic() - began < 10
    assert wire.counts["HEAD"] == asked, "who does not answer is not asked for sizes either"


def test_patience_has_an_end() -> None:
    assert QUICK.request_s + QUICK.tries_s < 10
    assert PATIENT.tries_s <= 40
    assert PATIENT.request_s <= 30


def test_an_endpoint_that_is_gone_is_unavailable(
    url: str, monkeypatch: pytest.MonkeyPatch, wire: Wire
) -> None:
    del wire
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{free_ports(1)[0]}")
    blobs = hurried(url)
    for use in (
        lambda: blobs.get("pack-a", start=0, length=1),
        lambda: blobs.size("pack-a"),
        lambda: blobs.find_short({"pack-a": 1}),
        lambda: list(blobs.iter_names()),
        blobs.find_mark,
    ):
        with pytest.raises(Unavailable, match="does not answer"):
            use()


def test_a_wrong_secret_is_told_as_such(
    url: str, monkeypatch: pytest.MonkeyPatch, wire: Wire
) -> None:
    del wire
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "not-the-one")
    blobs = open_bucket(url)
    for use in (
        lambda: blobs.put("pack-a", b"bytes"),
        lambda: blobs.get("pack-a", start=0, length=1),
        lambda: blobs.size("pack-a"),
        lambda: list(blobs.iter_names()),
        blobs.find_mark,
    ):
        with pytest.raises(StorageDenied) as caught:
            use()
        assert "s3://holdfast" in str(caught.value)
        assert "not-the-one" not in str(caught.value)


def test_a_bucket_that_is_gone_is_no_missing_pack(wire: Wire) -> None:
    del wire
    blobs = open_bucket("s3://nobody-made-it/prefix")
    for use in (
        lambda: blobs.put("pack-a", b"bytes"),
        lambda: blobs.get("pack-a"),
        lambda: blobs.get("pack-a", start=0, length=1),
        lambda: blobs.size("pack-a"),
        lambda: blobs.find_short({"pack-a": 1}),
        lambda: list(blobs.iter_names()),
        blobs.find_mark,
    ):
        with pytest.raises(Unavailable, match="is not there"):
            use()


def test_a_range_behind_the_end_asks_for_the_size_and_no_other_does(wire: Wire, url: str) -> None:
    blobs = open_bucket(url)
    blobs.put("pack-a", b"0123456789")
    assert blobs.get("pack-a", start=2, length=3) == b"234"
    assert wire.counts["HEAD"] == 0
    with pytest.raises(PackDamaged, match="it has 10 bytes"):
        blobs.get("pack-a", start=10, length=1)
    assert wire.counts["HEAD"] == 1
    with pytest.raises(PackMissing):
        blobs.get("pack-b", start=10, length=1)


@pytest.mark.parametrize(
    "url",
    [
        "s3://",
        "s3:///prefix",
        "s3://key:secret@bucket/prefix",
        "s3://bucket:9000/prefix",
        "s3://bucket/prefix?endpoint=http://169.254.169.254",
        "s3://bucket/prefix#part",
        "ftp://bucket/prefix",
    ],
)
def test_what_names_no_bucket_is_refused(url: str) -> None:
    with pytest.raises(InvalidValue):
        open_bucket(url)


def test_nothing_is_named_whose_bytes_did_not_arrive(
    wire: Wire, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.blobs.buckets._PUT_PATIENCE_S", 0.2)
    monkeypatch.setattr("holdfast.blobs.buckets.PATIENT", HURRIED)
    with holdfast.open(tmp_path / "vault", objects=url) as vault:
        agent = vault.namespace("alice")
        agent.files.write("small.txt", "in the catalog")
        wire.harm(Fault.BUSY, method="PUT")
        with pytest.raises(Unavailable):
            agent.files.write("large.bin", NOISE)
        wire.harm(Fault.BUSY, method="PUT", times=0)
        assert [each.path for each in agent.files.list()] == ["small.txt"]
        agent.files.write("large.bin", NOISE)
        agent.snapshot("both")
        assert agent.files.read("large.bin") == NOISE
        assert vault.verify().ok


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_child_that_was_forked_is_told_and_does_not_hang(wire: Wire, url: str) -> None:
    del wire
    blobs = open_bucket(url)
    blobs.put("pack-a", NOISE)
    pid = os.fork()
    if not pid:
        code = 1
        try:
            signal.alarm(30)
            open_bucket(url).get("pack-a", start=0, length=1)
        except Unavailable:
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(pid, 0)[1] == 0
    assert blobs.get("pack-a") == NOISE
