"""A conversation of the OpenAI Agents SDK, as a list in the store of a namespace.

Each item is a value of its own under a number, so the end of a conversation is read without the
rest, two who add at once both get in, and snapshots, diffs, forks and restores have it like any
value. Promises of the SDK: items come back as they were added, in order; what was begun is carried
through when a run is cancelled.
"""

import asyncio
import json
from time import perf_counter
from typing import Any, Final

from agents import SessionSettings, TResponseInputItem
from agents.memory.session_settings import coerce_session_settings, resolve_session_limit

from holdfast import AsyncClient, Namespace, Workspace
from holdfast.errors import InvalidValue
from holdfast.integrations.calling import AnyAgent, ask, carry_through, within

PLACE: Final = "openai.session/"
"""What the store's namespaces begin with in which the items are, one for each conversation."""

MOST: Final = 2**31 - 1
"""Items that a vault is asked for by their number: whoever wants more gets all."""

SHORT_S: Final = 0.0005
"""A read that takes less is done at once: a few times what it takes to have a thread do it."""


class HoldfastSession:
    """Keeps a conversation in a namespace; it is a `Session` of the SDK."""

    def __init__(
        self,
        session_id: str,
        agent: AnyAgent | Workspace,
        *,
        session_settings: SessionSettings | dict[str, Any] | None = None,
    ) -> None:
        self.session_id = session_id
        self.session_settings: SessionSettings | None = coerce_session_settings(
            session_settings or {}
        )
        self._agent = agent if isinstance(agent, AsyncClient) else within(agent)
        self._place = f"{PLACE}{session_id}"
        self._last = 0, 0.0
        """How many items the last read of the end was for, and how long it took."""

    def __repr__(self) -> str:
        return f"HoldfastSession({self.session_id!r}, {self._agent!r})"

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """Returns the latest items, oldest first; all of them without a limit, or a negative one.

        Without `limit`, that of `session_settings` counts.
        """
        limit = resolve_session_limit(limit, self.session_settings)
        if limit == 0:
            return []
        if limit is None or not 0 <= limit <= MOST:
            listed = await ask(self._agent, self._agent.store.items, self._place)
        else:
            listed = await self._read_end(limit)
            listed.reverse()
        return [_item(value) for _, value in listed]

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Adds items at the end, all of them or none."""
        if not all(isinstance(item, dict) for item in items):  # pyright: ignore[reportUnnecessaryIsInstance] - of untyped callers
            raise InvalidValue("an item of a conversation is an object")
        if items:
            await carry_through(self._append(items))

    async def pop_item(self) -> TResponseInputItem | None:
        """Takes the last item out and returns it; None if there is none."""
        popped = await carry_through(ask(self._agent, self._agent.store.pop, self._place))
        return None if popped is None else _item(popped.value)

    async def clear_session(self) -> None:
        """Takes all items out."""
        await carry_through(ask(self._agent, self._agent.store.delete_prefix, self._place))

    async def _read_end(self, limit: int) -> list[tuple[str, Any]]:
        """Reads the last items: at once, if that has been short lately, else in a thread.

        To hand it to a thread and back takes as long as to read twenty items of a vault here. One
        that is slow, or far away, keeps nobody else of the event loop waiting.
        """
        agent = self._agent
        if not isinstance(agent, Namespace):
            return await ask(agent, agent.store.items, self._place, limit=limit, reverse=True)

        def read() -> list[tuple[str, Any]]:
            start = perf_counter()
            listed = agent.store.items(self._place, limit=limit, reverse=True)
            self._last = limit, perf_counter() - start
            return listed

        of, spent_s = self._last
        return read() if limit <= of and spent_s < SHORT_S else await asyncio.to_thread(read)

    async def _append(self, items: list[TResponseInputItem]) -> None:
        append = self._agent.store.append
        try:
            await ask(self._agent, append, self._place, items)
        except InvalidValue:
            # JSON holds what the store does not: half characters of a model, endless numbers. As
            # items are objects, a text is told from one.
            await ask(self._agent, append, self._place, [json.dumps(each) for each in items])


def _item(value: Any) -> TResponseInputItem:
    return json.loads(value) if isinstance(value, str) else value
