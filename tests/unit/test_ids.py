"""Ids are made of random bits, each in the form that is read back."""

import base64
import os

from holdfast.ids import IdMaker, is_snapshot_id


def test_an_id_is_the_base32_of_its_random_bytes() -> None:
    drawn = list[bytes]()

    def draw(size: int) -> bytes:
        drawn.append(bytes(size) if not drawn else os.urandom(size))
        return drawn[-1]

    ids = IdMaker(draw)
    for _ in range(100):
        snapshot = ids.snapshot()
        assert snapshot == f"snap-{base64.b32encode(drawn[-1]).decode().lower()}"
        assert is_snapshot_id(snapshot)
        assert ids.session() == f"sess_{base64.b32encode(drawn[-1]).decode().lower()[:12]}"
