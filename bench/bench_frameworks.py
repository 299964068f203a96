"""What frameworks wait for: a save of a conversation and a load of it, an event and a session.

    make bench ONLY=frameworks
    python bench/bench_frameworks.py --folder /dev/shm     # without the disk

pydantic-ai has no store on disk of its own, so that its column stands alone. ADK's sessions are
beside its service for SQLite, round by round in turn, if ADK is installed (`make frameworks`).
"""

import argparse
import asyncio
import importlib.util
import statistics
import tempfile
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter as clock
from typing import Any

from pydantic_ai.conversation import Conversation
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, UserPromptPart

import holdfast
from holdfast.integrations.calling import Agent
from holdfast.integrations.pydantic_ai import HoldfastConversationStore
from holdfast.testing.servers import running_server

LENGTHS = [20, 400]
FEW = 20

Times = dict[str, list[float]]


@contextmanager
def timed(times: Times, name: str) -> Iterator[None]:
    start = clock()
    yield
    times[name].append(clock() - start)


def exchange(number: int) -> list[ModelMessage]:
    asked = ModelRequest(parts=[UserPromptPart(f"question {number}: {'why? ' * 40}")])
    return [asked, ModelResponse(parts=[TextPart(f"answer {number}: {'because. ' * 40}")])]


async def conversations(agent: Agent, times: Times, where: str, rounds: int) -> None:
    store = HoldfastConversationStore(agent)
    for length in LENGTHS:
        name = f"c{length}"
        said = Conversation(conversation_id=name)
        for number in range(length // 2):
            said.messages += exchange(number)
        await store.save(said)
        for number in range(rounds):
            said.messages += exchange(number)
            with timed(times, f"{where}: save of 2 behind {length}"):
                await store.save(said)
            with timed(times, f"{where}: load of the last {FEW} of {length}"):
                await store.load(name, limit=FEW)
            with timed(times, f"{where}: load of {length}"):
                await store.load(name)


async def sessions(services: dict[str, Any], times: Times, rounds: int) -> None:
    from google.adk.events.event import Event  # noqa: PLC0415 - where it is installed
    from google.adk.sessions.base_session_service import GetSessionConfig  # noqa: PLC0415
    from google.genai import types  # noqa: PLC0415

    whole = {"app_name": "app", "user_id": "alice", "session_id": "s"}

    def event(number: int) -> Event:
        text = f"answer {number}: {'because. ' * 40}"
        return Event(
            author="agent", content=types.Content(role="model", parts=[types.Part(text=text)])
        )

    held = {name: await service.create_session(**whole) for name, service in services.items()}
    for number in range(LENGTHS[-1]):
        for name, service in services.items():
            await service.append_event(held[name], event(number))
    steps: dict[str, Callable[[str, Any], Awaitable[Any]]] = {
        f"append behind {LENGTHS[-1]}": lambda name, service: service.append_event(
            held[name], event(0)
        ),
        f"the last {FEW}": lambda _, service: service.get_session(
            **whole, config=GetSessionConfig(num_recent_events=FEW)
        ),
        "all": lambda _, service: service.get_session(**whole),
    }
    for _ in range(rounds):
        for step, do in steps.items():
            for name, service in services.items():
                with timed(times, f"ADK, {name}: {step}"):
                    await do(name, service)


def measure(folder: Path, rounds: int) -> Times:
    times: Times = defaultdict(list)
    with holdfast.open(folder / "vault") as vault:
        asyncio.run(conversations(vault.namespace("a"), times, "in process", rounds))
        if importlib.util.find_spec("google") and importlib.util.find_spec("google.adk"):
            from google.adk.sessions.sqlite_session_service import (  # noqa: PLC0415 - as above
                SqliteSessionService,
            )

            from holdfast.integrations.adk import HoldfastSessionService  # noqa: PLC0415

            services = {
                "ours": HoldfastSessionService(vault.namespace("b")),
                "SQLite": SqliteSessionService(str(folder / "adk.db")),
            }
            asyncio.run(sessions(services, times, rounds))
        else:
            print("ADK is not installed: make frameworks does so")
    with (
        running_server(folder / "server") as server,
        holdfast.Client(server.api_key, url=server.url, namespace="a") as client,
    ):
        asyncio.run(conversations(client, times, "over HTTP", rounds))
    return times


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--folder", type=Path, help="where vaults are made")
    options.add_argument("--rounds", type=int, default=30)
    given = options.parse_args()
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        times = measure(Path(folder), given.rounds)
    for name, taken in times.items():
        print(f"{name:48} {statistics.median(taken) * 1000:8.2f} ms")


if __name__ == "__main__":
    main()
