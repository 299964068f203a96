"""A service with many customers: a key for each, and walls between them.

It starts a server of its own on a free port, with a vault that is gone afterwards. The operator
makes a locked key for each customer, watches what they take, brings back what one deleted by
mistake, and locks out the one who left. No customer can read, name or guess what another has.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import holdfast
from holdfast.errors import HoldfastError

CUSTOMERS = ("acme", "bolt", "corp")


@dataclass(frozen=True)
class Server:
    """Where the example's own server is, and the operator's key."""

    url: str
    admin_key: str


@contextmanager
def own_server() -> Generator[Server]:
    """Runs a server for as long as the example lasts."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "holdfast", "serve", "--json", "--port", "0"]
        environ = {**os.environ, "HOLDFAST_DATA": folder}
        # What it writes to its log is of no interest here.
        log = subprocess.DEVNULL
        with subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=log) as server:
            line = server.stdout.readline() if server.stdout else b""
            if not line:
                sys.exit("The server did not start: it needs `pip install 'holdfast[server]'`.")
            told = json.loads(line)
            # The keys that a first start makes are in a file that nobody else can read.
            keys = json.loads(Path(told["credentials"]).read_text())
            try:
                yield Server(told["url"], keys["admin_key"])
            finally:
                server.terminate()


def onboard(admin: holdfast.AdminClient, url: str, customer: str) -> tuple[str, holdfast.Client]:
    """Gives a customer a world and a key that opens nothing else; returns the key's id, too."""
    key = admin.create_key(f"{customer}'s agent", namespace=customer, rate_limit=600)
    client = holdfast.Client(key.api_key, namespace=customer, url=url)
    client.files.write("notes.md", f"what {customer} knows\n")
    admin.namespaces.set_quota(customer, 1_000_000)
    return key.id, client


def attempt(what: str, act: Callable[[], object]) -> None:
    """Does something that should not work, and says what came of it."""
    try:
        act()
    except HoldfastError as error:
        print(f"{what}: refused, {error.code}")
    else:
        print(f"{what}: worked")


def run(server: Server) -> None:
    """Plays a day of the service."""
    with ExitStack() as open_ones:
        admin = open_ones.enter_context(holdfast.AdminClient(server.admin_key, url=server.url))
        keys: dict[str, str] = {}
        clients: dict[str, holdfast.Client] = {}
        for customer in CUSTOMERS:
            keys[customer], clients[customer] = onboard(admin, server.url, customer)
            open_ones.enter_context(clients[customer])
        acme, bolt = clients["acme"], clients["bolt"]

        secret = acme.snapshot("acme's secret plan")
        attempt("bolt reads acme's files", lambda: bolt.namespace("acme").files.read("notes.md"))
        attempt("bolt restores acme's snapshot", lambda: bolt.restore(secret.id))
        attempt("the operator reads acme's files", lambda: operator_reads(server))
        attempt("bolt takes more than its quota", lambda: bolt.files.write("big", b"x" * 2_000_000))

        acme.delete_snapshot(secret)
        print("acme deleted a snapshot:", len(acme.list_snapshots()), "left")
        admin.namespaces.recover_snapshot("acme", secret.id)
        print("the operator brought it back:", [each.label for each in acme.list_snapshots()])

        admin.revoke_key(keys["corp"])
        attempt("corp, whose key was revoked", lambda: clients["corp"].files.read("notes.md"))

        for name in admin.namespaces.list():
            quota = admin.namespaces.quota(name)
            print(f"{name}: {quota.used_bytes} of {quota.quota_bytes} bytes")


def operator_reads(server: Server) -> None:
    """Tries to use an admin's key for what only agents may do."""
    with holdfast.Client(server.admin_key, namespace="acme", url=server.url) as nosy:
        nosy.files.read("notes.md")


def main() -> None:
    """Starts a server, and plays a day of the service."""
    with own_server() as server:
        run(server)


if __name__ == "__main__":
    main()
