"""A pooler between tests and their PostgreSQL: PgBouncer, as Debian ships it, in transaction mode.

    with pooled(program, port) as pooled_port: ...

It gives each transaction another connection, has fewer of them than are asked for, and forgets
everything that a connection was told after each transaction.
"""

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

START_TIMEOUT_S: Final = 20


@contextmanager
def pooled(program: str, port: int, *, size: int = 3) -> Generator[int]:
    """Runs PgBouncer before all databases of a server of this machine; gives its port."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        own = int(free.getsockname()[1])
    # Not root's, who may not run it.
    folder = Path(tempfile.mkdtemp(prefix="holdfast-bouncer-"))
    folder.chmod(0o755)
    (folder / "users").write_text('"postgres" ""\n')
    (folder / "bouncer.ini").write_text(
        f"[databases]\n* = host=127.0.0.1 port={port} user=postgres\n"
        f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {own}\nauth_type = any\n"
        f"auth_file = {folder}/users\npool_mode = transaction\ndefault_pool_size = {size}\n"
        "unix_socket_dir =\nserver_reset_query = DISCARD ALL\nserver_reset_query_always = 1\n"
    )
    user = "nobody" if os.geteuid() == 0 else None
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [program, str(folder / "bouncer.ini")], user=user, stdout=log, stderr=log
        )
    try:
        deadline = time.monotonic() + START_TIMEOUT_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", own)).close()
                break
            except OSError:
                if process.poll() is not None or time.monotonic() > deadline:
                    raise AssertionError((folder / "log").read_text()) from None
                time.sleep(0.02)
        yield own
    finally:
        process.terminate()
        process.wait()
        shutil.rmtree(folder)
