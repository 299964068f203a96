"""Large files over HTTP: the vendor's limits to the byte, and a server that never holds one."""

import os
import re
from collections.abc import Iterator
from io import RawIOBase
from pathlib import Path

import pytest
from trove_sdk import TroveClient, TroveError

import holdfast
from holdfast.testing.servers import Server, running_server

MIB = 1 << 20
CAP = 100 * MIB
LARGER = "larger"
"""A namespace with a file that is longer than what a client can send."""

MAY_GROW = 48 * MIB
"""What the server may need more while a file passes: a few pieces of it, and what Python keeps."""


class Repeated(RawIOBase):
    """A file of so many bytes, the same block again and again."""

    def __init__(self, size: int) -> None:
        self._left, self._block = size, os.urandom(MIB)

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        size = min(size if size >= 0 else MIB, MIB, self._left)
        self._left -= size
        return self._block[:size]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("large")
    with holdfast.open(folder / "vault") as vault:
        vault.namespace(LARGER).files.write("huge", Repeated(CAP + 5))
    with running_server(folder) as started:
        yield started


def peak_bytes(server: Server) -> int:
    """Returns the most memory that the server has had so far."""
    assert server.process is not None
    told = Path(f"/proc/{server.process.pid}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", told)
    assert found is not None
    return int(found[1]) * 1024


def test_a_file_of_the_largest_size_passes_without_being_held(
    server: Server, trove: TroveClient
) -> None:
    trove.upload("warm", os.urandom(2 * MIB))
    trove.read_bytes("warm")
    before = peak_bytes(server)
    content = os.urandom(MIB) * 100
    assert trove.upload("full", content).size_bytes == CAP
    assert peak_bytes(server) - before < MAY_GROW
    found = trove.read_bytes_full("full")
    assert (found.truncated, found.size_bytes) == (False, CAP)
    assert found.content == content
    assert peak_bytes(server) - before < MAY_GROW


def test_one_byte_more_is_refused(trove: TroveClient) -> None:
    with pytest.raises(TroveError) as told:
        trove.upload("over", bytes(CAP + 1))
    assert told.value.status_code == 413
    assert list(trove.list_dir()) == []


def test_of_a_longer_file_the_beginning_is_sent_and_its_size_told(server: Server) -> None:
    with TroveClient(server.api_key, LARGER, base_url=server.url) as client:
        found = client.read_bytes_full("huge")
    assert (len(found.content), found.truncated, found.size_bytes) == (CAP, True, CAP + 5)
