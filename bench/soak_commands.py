"""Runs commands for longer than a test run has time for.

    python bench/soak_commands.py beside --examples 300 --seed 7
    python bench/soak_commands.py kill --rounds 5
    python bench/soak_commands.py requests --count 1000 --seed 7

`beside` plays what `tests/property/test_commands_beside_others.py` plays in every test run: callers
of a namespace, commands and a program in the attached directory, all at once. `kill` runs 200
commands over 20 namespaces and kills the server somewhere in between: no process may be left, what
was answered has to be in the head, and the vault has to verify. `requests` asks for commands in odd
ways: what is refused has to be refused with a reason, and whatever is run has to be right.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
from checks import load_checks
from hypothesis import HealthCheck, Phase, given, seed, settings

from holdfast import Client
from holdfast.errors import HoldfastError
from holdfast.operations.commands import MAX_COMMAND_BYTES, MAX_STDIN_BYTES
from holdfast.settings import ExecSettings
from holdfast.testing.servers import COMMAND, Server, running_server

CHECKS = "property/test_commands_beside_others.py"
EXEC = {"HOLDFAST_EXEC": "1"}
COMMANDS, NAMESPACES, AT_ONCE = 200, 20, 40


def beside(options: argparse.Namespace) -> None:
    """Plays many plans; raises for the first after which something has vanished."""
    checks: Any = load_checks(CHECKS)
    begun, played = time.perf_counter(), Counter[str]()

    def play(plan: Any) -> None:  # noqa: ANN401 - of a module that is found by its path
        checks.play(plan)
        played.update({hand: len(steps) for hand, steps in plan.items()}, plans=1)

    run = settings(
        max_examples=options.examples,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )(seed(options.seed)(given(checks.plans)(play)))
    run()
    print(f"{dict(played)} in {time.perf_counter() - begun:.0f} s: nothing has vanished")


def kill(options: argparse.Namespace) -> None:
    """Kills servers in the middle of commands."""
    chance = random.Random(options.seed)
    for number in range(options.rounds):
        with tempfile.TemporaryDirectory(prefix="holdfast-soak-") as folder:
            print(f"round {number}: {_kill_once(Path(folder), chance)}", flush=True)


def _kill_once(folder: Path, chance: random.Random) -> str:
    marker, after = f"9{os.getpid()}", chance.randrange(COMMANDS // 10, COMMANDS - AT_ONCE)
    answered: set[int] = set()
    with running_server(folder, environ=EXEC) as server:

        def work(number: int) -> None:
            try:
                with _client(server, number) as client:
                    said = f"echo {number} > {number}; (exec -a {marker} sleep 0.{number % 10}) & "
                    done = client.exec(f"{said} exec -a {marker} sleep 0.05")
            except HoldfastError:
                return  # As it was killed.
            if done.is_ok:
                answered.add(number)
            if len(answered) == after:
                server.kill()

        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(work, range(COMMANDS)))
        _await_none(marker)
        server.start()
        for place in range(NAMESPACES):
            with _client(server, place) as client:
                there = {int(each.path) for each in client.files.list()}
                mine = {number for number in answered if number % NAMESPACES == place}
                assert mine <= there, (place, mine - there)
                # What was interrupted is set aside, and nobody's work with it.
                seen = {int(each) for each in client.exec("ls").stdout.split()}
                assert there == seen, (place, there ^ seen)
        server.stop()
        verified = subprocess.run(
            [*COMMAND, "verify", "--data", str(server.data)], capture_output=True, check=False
        )
    assert verified.returncode == 0, verified.stdout
    return f"killed after {len(answered)} of {COMMANDS} were answered; all of them are there"


def _client(server: Server, number: int) -> Client:
    return Client(server.api_key, url=server.url, namespace=f"many-{number % NAMESPACES}")


def _await_none(marker: str) -> None:
    until = time.monotonic() + 30
    while time.monotonic() < until:
        found = subprocess.run(["pgrep", "-f", f"^{marker}"], capture_output=True, check=False)
        if not found.stdout:
            return
        time.sleep(0.05)
    raise AssertionError(f"processes were left: {found.stdout.decode()}")


ROUTES = ("/v1/commands", "/v1/exec", "/exec")


class Odd:
    """Makes requests that are odd in one or several ways, and knows what is right for each."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance

    def command(self) -> object:
        longest = f"true {'x' * (MAX_COMMAND_BYTES - 5)}"
        return self._chance.choice(
            [
                "true", "echo $((6*7))", "exit 3", "kill -9 $$", "printf '\\377\\0\\302'", "cat",
                "", " ", "\n", "\0", "a\0b", "\ud800", "\u202e\u2066ls", "'", '"', "$(", "((", "\\",
                "é" * 10, "🎉", "--help", "-c true", ";", "&", "|", "#", "!", "exec 3>&1; true",
                "cd /proc/1/root; pwd", "ulimit -u 1; true", "exec <&- >&- 2>&-", longest,
                longest + "x", 1, None, [], {}, True, 1.5, ["true"], {"command": "true"},
            ]
        )  # fmt: skip

    def stdin(self) -> object:
        return self._chance.choice(
            ["", "text", "\0", "é🎉", "\ud800", "x" * MAX_STDIN_BYTES, "x" * (MAX_STDIN_BYTES + 1),
             "é" * (MAX_STDIN_BYTES // 2), "\0" * MAX_STDIN_BYTES, None, 1, [], {}, False]
        )  # fmt: skip

    def timeout(self) -> object:
        return self._chance.choice(
            [0, -1, -0.0, 1e-9, 0.3, 1, ExecSettings().seconds, ExecSettings().seconds + 1,
             1e308, 10**400, "1", "", None, True, [], {}, "NaN"]
        )  # fmt: skip

    def others(self) -> dict[str, object]:
        anything: list[object] = [
            None,
            "",
            "x",
            "x" * 129,
            "\0",
            "\n",
            "\ud800",
            1,
            -1,
            True,
            [],
            {},
        ]
        names = ("network", "task", "rollback_on_failure", "cwd", "env", "user", "output", "shell")
        chosen = self._chance.sample(names, self._chance.randrange(3))
        return {name: self._chance.choice(anything) for name in chosen}

    def body(self) -> bytes:
        told: dict[str, object] = {"command": self.command(), **self.others()}
        if self._chance.random() < 0.5:
            told["stdin"] = self.stdin()
        if self._chance.random() < 0.5:
            told["timeout_s"] = self.timeout()
        if self._chance.random() < 0.05:
            del told["command"]
        text = json.dumps(told).encode()
        if self._chance.random() < 0.1:
            text = self._chance.choice(
                [b"", b"{", b"[]", b"null", b'"x"', text[:-1], text + b"x", b"\xff" + text,
                 text.replace(b'"command"', b'"command":"true","command"', 1), b"[" * 100_000,
                 text.replace(b"}", b',"timeout_s":NaN}', 1)]
            )  # fmt: skip
        return text

    def headers(self) -> dict[str, str]:
        chosen = self._chance.choice(
            [{}, {}, {}, {"Idempotency-Key": "x"}, {"Content-Type": "text/plain"}, {"Expect": "x"},
             {"Content-Encoding": "gzip"}, {"X-Namespace": "../x"}, {"X-Namespace": ""},
             {"X-Namespace": "x" * 300}, {"Accept": "image/png"}]
        )  # fmt: skip
        return {"Content-Type": "application/json", "X-Namespace": "odd", **chosen}


def requests(options: argparse.Namespace) -> None:
    """Asks for commands in odd ways."""
    odd = Odd(random.Random(options.seed))
    asked = [(number % len(ROUTES), odd.body(), odd.headers()) for number in range(options.count)]
    statuses, wrong = Counter[str](), list[str]()
    guard = threading.Lock()
    with (
        tempfile.TemporaryDirectory(prefix="holdfast-soak-") as folder,
        running_server(Path(folder), environ={**EXEC, "HOLDFAST_EXEC_SECONDS": "60"}) as server,
        httpx2.Client(base_url=server.url, timeout=60.0) as wire,
    ):

        def ask(request: tuple[int, bytes, dict[str, str]]) -> None:
            route, body, headers = request
            sent = {**headers, "Authorization": f"Bearer {server.api_key}"}
            answer = wire.post(ROUTES[route], content=body, headers=sent)
            found = _find_wrong(ROUTES[route], answer)
            with guard:
                statuses[f"{ROUTES[route]} {answer.status_code}"] += 1
                if found:
                    wrong.append(f"{ROUTES[route]} {headers} {body[:200]!r}: {found}")

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(ask, asked))
        assert wire.get("/v1/health").status_code in (200, 404)
        left = subprocess.run(["pgrep", "-P", str(_pid(server))], capture_output=True, check=False)
        log = server.log.read_text()
    for status, count in sorted(statuses.items()):
        print(f"{count:6} {status}")
    if left.stdout:
        wrong.append(f"processes were left: {left.stdout.decode()}")
    if "Traceback" in log:
        wrong.append(log[log.index("Traceback") :][:3000])
    print("\n".join(wrong[:20]) or "all were refused with a reason, or right")
    if wrong:
        sys.exit(1)


def _pid(server: Server) -> int:
    assert server.process is not None
    return server.process.pid


def _find_wrong(route: str, answer: httpx2.Response) -> str | None:
    """Returns what is wrong about an answer, if anything."""
    is_refused, is_done = 400 <= answer.status_code < 500, answer.status_code == 200
    if not is_refused and not is_done:
        return f"{answer.status_code}: {answer.text[:300]}"
    if is_refused:
        return None if answer.json() else "refused without a word"
    if route == "/exec":
        return None  # Text, whatever it is.
    told = json.loads(answer.text.rstrip("\n").rpartition("\n")[2])
    if "error" in told:
        return None if told["error"].get("message") else "an error without a word"
    return None if isinstance(told.get("result", told)["exit_code"], int) else "no exit code"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    wanted = parser.add_subparsers(required=True)
    acts: dict[str, tuple[Callable[[argparse.Namespace], None], str, int]] = {
        "beside": (beside, "--examples", 300),
        "kill": (kill, "--rounds", 5),
        "requests": (requests, "--count", 1000),
    }
    for name, (act, flag, usual) in acts.items():
        each = wanted.add_parser(name)
        each.add_argument(flag, type=int, default=usual)
        each.add_argument("--seed", type=int, default=1)
        each.set_defaults(act=act)
    options = parser.parse_args()
    options.act(options)


if __name__ == "__main__":
    main()
