"""What a directory costs whose timeline is on a server: time, and bytes that go over the line.

    make bench ONLY=remote
    python bench/bench_remote.py --quick            # 2,000 files alone
    python bench/bench_remote.py --json remote.json

Two equal directories: one has a vault on this machine, the other a real server in a process of its
own on the same machine, so that what the server takes is taken from the client. They take turns,
and ten files of each change in between. Bytes are counted by a proxy, against a server of its own:
the proxy costs time, and a server that knows the content already would not be sent any.
"""

import argparse
import json
import platform
import select
import shutil
import socket
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from workspace_trees import EDITS, SPECS, make_tree

import holdfast
from holdfast.testing.servers import Server, running_server

SIZES = {2_000: "2k", 50_000: "50k"}
FORMS = ("local", "remote")
ROUNDS = 15
COUNTED = 3


Form = holdfast.Workspace | holdfast.RemoteWorkspace


class Counting:
    """A proxy that counts what goes through it."""

    def __init__(self, server: Server) -> None:
        self._port = server.port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self.sent = self.received = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listening.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listening.accept()
                threading.Thread(target=self._serve, args=(near,), daemon=True).start()

    def _serve(self, near: socket.socket) -> None:
        far = socket.create_connection(("127.0.0.1", self._port))
        with near, far, suppress(OSError):
            while True:
                ready, _, _ = select.select([near, far], [], [])
                for each in ready:
                    data = each.recv(1 << 18)
                    if not data:
                        return
                    (far if each is near else near).sendall(data)
                    if each is near:
                        self.sent += len(data)
                    else:
                        self.received += len(data)


class Bench:
    """Two equal directories, one for each form."""

    def __init__(self, folder: Path, files: int) -> None:
        self.folder, self.count = folder, files
        spec = SPECS[SIZES[files]]
        self.trees = {name: make_tree(spec, folder / f"{name}-{files}") for name in FORMS}
        self._turn = 0

    def change(self, name: str) -> None:
        """Changes ten files, others each time, spread over the directory."""
        self._turn += 1
        self.trees[name].edit(self._turn)

    def run(self, server: Server, rounds: int) -> dict[str, float]:
        """Measures how long both forms take."""
        with (
            holdfast.open(self.folder / f"vault-{self.count}") as vault,
            vault.workspace(self.trees["local"].path) as local,
            holdfast.Client(
                server.api_key, namespace=f"timed-{self.count}", url=server.url
            ) as client,
            client.workspace(self.trees["remote"].path, cache=self._cache("timed")) as remote,
        ):
            forms: dict[str, Form] = {"local": local, "remote": remote}
            found = {f"first {name}": timed(form.snapshot) for name, form in forms.items()}
            for what, act in (("snapshot", self._take), ("restore", self._bring_back)):
                samples: dict[str, list[float]] = {name: [] for name in FORMS}
                for turn in range(rounds):
                    for name in sorted(FORMS, reverse=bool(turn % 2)):
                        samples[name].append(act(name, forms[name]))
                for name in FORMS:
                    found[f"{what} {name}"] = statistics.median(samples[name])
                found[f"{what} ratio"] = found[f"{what} remote"] / found[f"{what} local"]
        return found

    def count_bytes(self, server: Server) -> dict[str, float]:
        """Counts what goes over the line: first push, ten changed, a restore of ten."""
        proxy, name = Counting(server), "remote"
        with (
            holdfast.Client(
                server.api_key, namespace=f"counted-{self.count}", url=proxy.url
            ) as client,
            client.workspace(self.trees[name].path, cache=self._cache("counted")) as remote,
        ):

            def counted(act: Callable[[], object]) -> tuple[int, int]:
                proxy.sent = proxy.received = 0
                act()
                return proxy.sent, proxy.received

            first, few = counted(remote.snapshot), list[tuple[int, int]]()
            for _ in range(COUNTED):
                self.change(name)
                few.append(counted(remote.snapshot))
            before = remote.snapshot()
            self.change(name)
            remote.snapshot()
            restored = counted(lambda: remote.restore(before))
        proxy.close()
        return {
            "first sent": first[0],
            "snapshot sent": max(sent for sent, _ in few),
            "snapshot received": max(received for _, received in few),
            "restore sent": restored[0],
            "restore received": restored[1],
        }

    def _take(self, name: str, form: Form) -> float:
        self.change(name)
        return timed(form.snapshot)

    def _bring_back(self, name: str, form: Form) -> float:
        before = form.snapshot()
        self.change(name)
        form.snapshot()
        return timed(lambda: form.restore(before))

    def _cache(self, name: str) -> Path:
        return self.folder / f"cache-{name}-{self.count}"


def timed(act: Callable[[], object]) -> float:
    start = time.perf_counter()
    act()
    return time.perf_counter() - start


@contextmanager
def scratch() -> Generator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="holdfast-remote-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="2,000 files alone")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--json", type=Path, help="write the figures to a file, too")
    args = parser.parse_args()
    results: dict[int, dict[str, float]] = {}
    for files in list(SIZES)[: 1 if args.quick else None]:
        with scratch() as folder:
            bench = Bench(folder, files)
            with running_server(folder / "timed") as server:
                found = results[files] = bench.run(server, args.rounds)
            with running_server(folder / "counted") as server:
                found |= bench.count_bytes(server)
        print(f"\n{files:,} files, {EDITS} changed; medians of {args.rounds} rounds")
        for name, value in found.items():
            print(f"  {name:18} {shown(name, value)}", flush=True)
    print(f"\nPython {platform.python_version()}, {platform.machine()}")
    if args.json:
        args.json.write_text(json.dumps(results, indent=1))


def shown(name: str, value: float) -> str:
    if name.endswith("ratio"):
        return f"{value:10.2f} x"
    if name.endswith(("sent", "received")):
        return f"{value / 1000:10,.1f} KB"
    return f"{value * 1000:10,.1f} ms"


if __name__ == "__main__":
    main()
