"""What a conversation costs beside the session of the OpenAI Agents SDK itself, which is SQLite.

    make bench ONLY=agents
    python bench/bench_agents.py --rounds 400 --folder /dev/shm     # without the disk

A conversation has 400 items of 300 to 600 bytes. Rounds are interleaved, in a rotating order, so
that a noisy machine is noisy for both; medians of single calls are compared: ratio = theirs / ours,
above 1 we are ahead. `kept` is once a snapshot holds the conversation.
"""

import argparse
import asyncio
import random
import statistics
import tempfile
from collections import defaultdict
from collections.abc import Awaitable, Callable
from pathlib import Path
from time import perf_counter as clock
from typing import Any

from agents import SQLiteSession, TResponseInputItem

import holdfast
from holdfast.integrations.openai_agents import HoldfastSession

ITEMS = 400
LAST = 20
WARM_UP = 20

Times = dict[tuple[str, str], list[float]]


def message(number: int) -> TResponseInputItem:
    words = random.Random(number).choices(["tidy", "up", "the", "reports", "of", "May"], k=90)
    return {"role": "user" if number % 2 else "assistant", "content": " ".join(words)}


async def play(folder: Path, rounds: int) -> Times:
    vault = holdfast.open(folder / "vault")
    agent, kept = vault.namespace("alice"), vault.namespace("bob")
    sessions: dict[str, Any] = {
        "SQLiteSession": SQLiteSession("chat", folder / "peer.db"),
        "ours": HoldfastSession("chat", agent),
        "ours, kept": HoldfastSession("chat", kept),
    }
    items = [message(number) for number in range(ITEMS)]
    for session in sessions.values():
        await session.add_items(items)
    kept.snapshot()
    times: Times = defaultdict(list)
    for number in range(rounds + WARM_UP):
        names = list(sessions)
        for name in names[number % 3 :] + names[: number % 3]:
            session = sessions[name]
            await session.get_items(LAST)  # What the other one did has cooled the caches.
            calls: dict[str, Callable[[], Awaitable[Any]]] = {
                f"last {LAST} of {ITEMS}": lambda s=session: s.get_items(LAST),
                "add two": lambda s=session: s.add_items(items[:2]),
                f"last {LAST}, just added to": lambda s=session: s.get_items(LAST),
                f"all {ITEMS}": session.get_items,
                "pop": session.pop_item,
            }
            for what, call in calls.items():
                start = clock()
                await call()
                spent = clock() - start
                if number >= WARM_UP:
                    times[what, name].append(spent)
            await session.pop_item()
    sessions["SQLiteSession"].close()
    vault.close()
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        times = asyncio.run(play(Path(folder), options.rounds))
    print("| | SQLiteSession | ours | ratio | ours, kept | ratio |\n|---|---|---|---|---|---|")
    for what in dict.fromkeys(what for what, _ in times):
        theirs = statistics.median(times[what, "SQLiteSession"])
        cells = [f"{theirs * 1000:.2f} ms"]
        for name in ("ours", "ours, kept"):
            mine = statistics.median(times[what, name])
            cells += [f"{mine * 1000:.2f} ms", f"{theirs / mine:.2f}"]
        print(f"| {what} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
