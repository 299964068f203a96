"""Addresses of databases: what cannot be read, without its password, and what says nothing."""

import socket
import time

import psycopg
import pytest

import holdfast
from holdfast.catalog.postgres_reach import Reach
from holdfast.errors import InvalidValue


@pytest.mark.parametrize("password", ["pa%ssS3CRET", "pa S3CRET", "S3CRET@[bad"])
def test_a_password_is_in_no_error(password: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        holdfast.open(f"postgresql://agent:{password}@127.0.0.1:9/holdfast")
    said = caught.value
    while said is not None:
        assert "S3CRET" not in f"{said!s} {said!r} {getattr(said, 'hint', '')}"
        said = said.__cause__


def test_nobody_waits_for_a_silent_host_longer_than_it_may() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        reach = Reach(f"host=127.0.0.1 port={port} dbname=vault user=agent connect_timeout=3")
        try:
            waited = list[float]()
            # The first has less time than libpq takes; nobody after it waits at all.
            for allowed_s in (1.2, 30.0):
                began = time.monotonic()
                with pytest.raises(psycopg.OperationalError):
                    reach.connect(until=began + allowed_s)
                waited.append(time.monotonic() - began)
        finally:
            reach.close()
    assert 1.1 < waited[0] < 1.9
    assert waited[1] < 1.0
