"""What our saver costs beside LangGraph's own: a step of a graph, its bytes, a list of the newest.

    make bench ONLY=langgraph
    python bench/bench_langgraph.py --quick                # fewer rounds
    python bench/bench_langgraph.py --no-postgres --folder /dev/shm
    python bench/bench_langgraph.py --no-postgres --processor   # on a machine that is busy

Everybody keeps equal checkpoints of messages in the same process, on the same disk or the same
PostgreSQL server. A step is what a graph does between two of its nodes: put a checkpoint, put the
two writes of a task, and read the newest. Rounds are interleaved, in a rotating order, and medians
of single calls are compared: ratio = the peer's time / ours, above 1 we are ahead. With
`--processor`, what this process computes is counted, and not how long the disk takes.
"""

import argparse
import contextlib
import gc
import importlib
import random
import shutil
import statistics
import tempfile
from collections import defaultdict
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from time import perf_counter, process_time
from typing import Any, Final

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langgraph.checkpoint.base import CheckpointTuple, empty_checkpoint
from sessions_contenders import MODULES, POSTGRES_PEER, SQLITE_PEER, file_bytes, is_missing
from sessions_contenders import table_bytes as postgres_bytes

import holdfast
from holdfast.integrations.langgraph import HoldfastSaver
from holdfast.testing.postgres import PostgresServer

SIZES: Final = {
    "4 messages": (4, 0),
    "20 messages": (20, 0),
    "100 messages": (100, 0),
    "20 messages + 200 KB": (20, 200_000),
    "1,000 messages": (1000, 0),
}
"""How many messages a checkpoint has, and how many bytes another channel, which stays."""

ROUNDS: Final = {"4 messages": 60, "20 messages": 60, "100 messages": 40, "1,000 messages": 12}
CALLS: Final = ("put", "put_writes", "get_tuple", "step")
GROWING: Final = 100
"""Checkpoints of a conversation that grows by a message, whose bytes are counted."""

FEW, MANY, NEWEST = 10, 1000, 10

clock: Callable[[], float] = perf_counter

WORDS: Final = [f"word{number}" for number in range(4000)]


@dataclass
class Contender:
    """A saver, and the thread that it is at."""

    name: str
    saver: Any
    measure: Callable[[], int]
    rival: str | None = None
    versions: dict[str, Any] = field(default_factory=dict[str, Any])
    config: Any = None

    def begin(self, thread: str) -> None:
        self.config = {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}
        self.versions = {}

    def put(self, values: dict[str, Any], changed: list[str], step: int) -> None:
        checkpoint: Any = empty_checkpoint()
        for channel in changed:
            known = self.versions.get(channel)
            self.versions[channel] = self.saver.get_next_version(known, None)
        checkpoint["channel_values"] = values
        checkpoint["channel_versions"] = dict(self.versions)
        checkpoint["versions_seen"] = {"agent": dict(self.versions)}
        new = {channel: self.versions[channel] for channel in changed}
        metadata = {"source": "loop", "step": step, "parents": {}}
        self.config = self.saver.put(self.config, checkpoint, metadata, new)

    def put_writes(self, message: BaseMessage, step: int) -> None:
        writes = [("messages", [message]), ("branch:to:agent", None)]
        self.saver.put_writes(self.config, writes, f"task-{step:032}", "~__pregel_pull, agent")

    def get_tuple(self) -> CheckpointTuple:
        named = {"thread_id": self.config["configurable"]["thread_id"], "checkpoint_ns": ""}
        return self.saver.get_tuple({"configurable": named})


def message(number: int) -> BaseMessage:
    rng = random.Random(number)
    text = " ".join(rng.choice(WORDS) for _ in range(30))
    made = HumanMessage if number % 2 else AIMessage
    return made(content=text, id=f"{rng.getrandbits(128):032x}")


@contextlib.contextmanager
def opened(folder: Path, server: PostgresServer | None) -> Generator[list[Contender]]:
    with contextlib.ExitStack() as stack:
        found = list[Contender]()
        if not is_missing(SQLITE_PEER):
            peer = folder / "peer"
            peer.mkdir()
            made = importlib.import_module(MODULES[SQLITE_PEER]).SqliteSaver
            saver = stack.enter_context(made.from_conn_string(str(peer / "peer.sqlite")))
            found.append(Contender(SQLITE_PEER, saver, lambda: file_bytes(peer, "peer.sqlite")))
        for name, snapshots in (("ours", False), ("ours + snapshots", True)):
            own = folder / name
            vault = stack.enter_context(holdfast.open(own / "vault"))
            saver = HoldfastSaver(vault.namespace("agent"), snapshots=snapshots)
            found.append(Contender(name, saver, lambda o=own: _ours(o), SQLITE_PEER))
        if server is not None and not is_missing(POSTGRES_PEER):
            url = server.dsn(server.create_database())
            made = importlib.import_module(MODULES[POSTGRES_PEER]).PostgresSaver
            saver = stack.enter_context(made.from_conn_string(url))
            saver.setup()
            found.append(Contender(POSTGRES_PEER, saver, lambda u=url: postgres_bytes(u)))
            for name, snapshots in (("ours, PG", False), ("ours, PG + snapshots", True)):
                url = server.dsn(server.create_database())
                vault = stack.enter_context(holdfast.open(url, objects=folder / name))
                saver = HoldfastSaver(vault.namespace("agent"), snapshots=snapshots)
                found.append(Contender(name, saver, lambda u=url: postgres_bytes(u), POSTGRES_PEER))
        yield found


def _ours(folder: Path) -> int:
    return file_bytes(folder, "vault/catalog.sqlite")


Times = dict[str, dict[str, list[float]]]
"""Seconds by contender and call."""


def play_steps(everybody: list[Contender], size: str, rounds: int) -> Times:
    count, other = SIZES[size]
    base = [message(number) for number in range(count - 1)]
    document = "".join(random.Random(7).choices("abcdefghij ", k=other))
    times: Times = defaultdict(lambda: defaultdict(list))
    for contender in everybody:
        contender.begin(size)
    for number in range(-2, rounds):
        first = number % len(everybody)
        for contender in everybody[first:] + everybody[:first]:
            new = message(10_000 + number)
            values: dict[str, Any] = {"messages": [*base, new]}
            changed = ["messages"]
            if other:
                values["document"] = {"text": document}
                changed += ["document"] * (number == -2)
            gc.disable()
            at = [clock()]
            contender.put(values, changed, number)
            at.append(clock())
            contender.put_writes(new, number + 2)
            at.append(clock())
            found = contender.get_tuple()
            at.append(clock())
            gc.enable()
            assert found.checkpoint["channel_values"] == values, contender.name
            assert len(found.pending_writes) == 2, contender.name
            if number >= 0:
                spent = [end - start for start, end in pairwise(at)]
                for call, seconds in zip(CALLS, [*spent, at[-1] - at[0]], strict=True):
                    times[contender.name][call].append(seconds)
    return times


def play_bytes(everybody: list[Contender]) -> dict[str, float]:
    found = dict[str, float]()
    for contender in everybody:
        contender.begin("growing")
        before = contender.measure()
        grown = list[Any]()
        for step in range(GROWING):
            grown.append(message(20_000 + step))
            contender.put({"messages": [*grown]}, ["messages"], step)
            contender.put_writes(grown[-1], step)
        found[contender.name] = (contender.measure() - before) / GROWING
    return found


def play_lists(everybody: list[Contender], rounds: int) -> Times:
    times: Times = defaultdict(lambda: defaultdict(list))
    for contender in everybody:
        for length in (FEW, MANY):
            contender.begin(f"list of {length}")
            for step in range(length):
                start = clock()
                contender.put({"messages": [message(step)]}, ["messages"], step)
                contender.put_writes(message(step), step)
                if step >= length - FEW:
                    times[contender.name][f"put both, {length:,}th"].append(clock() - start)
    for number in range(rounds):
        first = number % len(everybody)
        for contender in everybody[first:] + everybody[:first]:
            for length in (FEW, MANY):
                named = {"thread_id": f"list of {length}", "checkpoint_ns": ""}
                start = clock()
                found = list(contender.saver.list({"configurable": named}, limit=NEWEST))
                times[contender.name][f"newest {NEWEST} of {length:,}"].append(clock() - start)
                assert len(found) == NEWEST
    return times


def show(everybody: list[Contender], title: str, times: Times) -> None:
    calls = list(next(iter(times.values())))
    print(f"\n{title}\n\n| |", " | ".join(f"{call} | ratio" for call in calls), "|")
    print("|---" * (1 + 2 * len(calls)) + "|")
    for contender in everybody:
        cells = list[str]()
        for call in calls:
            own = statistics.median(times[contender.name][call])
            cells.append(f"{own * 1e3:.2f} ms")
            rival = times.get(contender.rival or "")
            cells.append(f"{statistics.median(rival[call]) / own:.2f}" if rival else "")
        print(f"| {contender.name} |", " | ".join(cells), "|", flush=True)


def play(options: argparse.Namespace, folder: Path, server: PostgresServer | None) -> None:
    for size in SIZES:
        if options.only and not size.startswith(tuple(options.only)):
            continue
        rounds = ROUNDS.get(size, 40) // (4 if options.quick else 1)
        place = folder / size
        place.mkdir()
        with opened(place, server) as everybody:
            show(everybody, size, play_steps(everybody, size, rounds))
    if not options.only or "list" in options.only:
        place = folder / "list"
        place.mkdir()
        with opened(place, server) as everybody:
            show(everybody, "List", play_lists(everybody, 10 if options.quick else 30))
    if not options.only or "bytes" in options.only:
        place = folder / "bytes"
        place.mkdir()
        with opened(place, server) as everybody:
            print(f"\nBytes of a checkpoint, of {GROWING} of a conversation that grows\n")
            for name, size in play_bytes(everybody).items():
                print(f"| {name} | {size:,.0f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--only", nargs="*", help="beginnings of sizes, list, bytes")
    parser.add_argument("--folder", help="where everything is kept; by default a temporary one")
    parser.add_argument("--no-postgres", action="store_true")
    parser.add_argument("--processor", action="store_true", help="count processor time")
    options = parser.parse_args()
    if options.processor:
        global clock  # noqa: PLW0603 - one for all that is timed
        clock = process_time
    folder = Path(tempfile.mkdtemp(prefix="bench-langgraph-", dir=options.folder))
    try:
        with contextlib.ExitStack() as stack:
            server = None
            if not options.no_postgres:
                server = stack.enter_context(PostgresServer(in_memory=bool(options.folder)))
            play(options, folder, server)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
