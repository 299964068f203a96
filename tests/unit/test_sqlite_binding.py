"""What a server, whose process is its own, hands to SQLite as it is."""

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = r"""
import sqlite3
from holdfast.server.app import create

FORMS = {None: "null", b"": "blob", b"\0bytes": "blob", 1: "integer", 1.5: "real", "text": "text"}

def asked():
    kinds = (bytes, type(None))
    return [kind for kind in kinds if (kind, sqlite3.PrepareProtocol) not in sqlite3.adapters]

def stored():
    with sqlite3.connect(":memory:") as connection:
        ask = "SELECT ?, typeof(?)"
        return [connection.execute(ask, (form, form)).fetchone() for form in FORMS]

before = stored()
assert asked() == [bytes, type(None)]
create()
assert asked() == []
assert stored() == before == [*FORMS.items()]
"""


def test_bytes_and_none_are_stored_as_before_and_nobody_asks_what_they_stand_for(
    tmp_path: Path,
) -> None:
    environ = {**os.environ, "HOLDFAST_DATA": str(tmp_path / "data")}
    subprocess.run([sys.executable, "-c", PROGRAM], check=True, timeout=60, env=environ)
