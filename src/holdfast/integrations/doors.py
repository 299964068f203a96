"""Work on a store as steps, whoever carries them out: a thread that waits, or one that awaits.

A generator yields steps, each of which is done with the store, and is sent what came of it or has
the error thrown into it. So what a saver does is written once for a namespace in this process, for
a `Client` and for an `AsyncClient`.
"""

import asyncio
from collections.abc import Callable, Generator
from functools import partial
from typing import Any, TypeAlias, TypeVar

import holdfast
from holdfast.errors import HoldfastError, InvalidValue
from holdfast.integrations.calling import carry_through

T = TypeVar("T")

Step = Callable[[Any], Any]
"""Something to do with a store."""

Steps = Generator[Step, Any, T]
"""One step after the other, and what comes of them."""


Agent: TypeAlias = (
    "holdfast.Namespace | holdfast.Workspace | holdfast.Client | holdfast.AsyncClient"
)
"""One agent's world: a namespace, here or on a server, or a directory that is attached to one."""


def checked_name(name: str) -> str:
    """Returns the name of a place in the store; raises `InvalidValue` for one within another."""
    if not isinstance(name, str) or not name or "/" in name or "\0" in name:  # pyright: ignore[reportUnnecessaryIsInstance] - of untyped callers
        raise InvalidValue("a name has characters, and neither a slash nor a NUL among them")
    return name


class Door:
    """The way to one namespace, in this process or on a server."""

    def __init__(self, agent: Agent) -> None:
        self.agent: Any = agent
        self.is_awaited = isinstance(agent, holdfast.AsyncClient)
        # To ask for the class would load an engine, which a client does without.
        self.world: Any = agent if hasattr(agent, "store") else getattr(agent, "namespace", None)
        """The namespace itself, where the store is."""
        if not hasattr(self.world, "store"):
            message = (
                f"a namespace, a workspace or a client is asked for, not {type(agent).__name__}"
            )
            raise InvalidValue(message)

    def read(self, steps: Steps[T], store: Any = None) -> T:
        """Carries out steps that only read; in this process, all of them see one moment."""
        self._check_waiting()
        store = self.world.store if store is None else store
        if not hasattr(store, "still"):
            return _carried_out(steps, store)
        with store.still() as reader:
            return _carried_out(steps, reader)

    def read_one(self, make: Callable[[], Steps[T]], store: Any = None) -> T:
        """Carries out steps that only read, and mostly are a single one: that sees one moment.

        Where there are more, all of them are done anew, and see one moment.
        """
        self._check_waiting()
        store = self.world.store if store is None else store
        if hasattr(store, "still"):
            steps = make()
            try:
                steps.send(next(steps)(store))
            except StopIteration as done:
                return done.value
            steps.close()
        return self.read(make(), store)

    def write(self, steps: Steps[T]) -> T:
        """Carries out steps of which some write."""
        self._check_waiting()
        return _carried_out(steps, self.world.store)

    async def aread(self, steps: Steps[T], store: Any = None) -> T:
        """Does what `read` does, without keeping others waiting."""
        if self.is_awaited:
            return await _awaited(steps, self.world.store if store is None else store)
        return await asyncio.to_thread(self.read, steps, store)

    async def aread_one(self, make: Callable[[], Steps[T]], store: Any = None) -> T:
        """Does what `read_one` does, without keeping others waiting."""
        if self.is_awaited:
            return await self.aread(make(), store)
        return await asyncio.to_thread(self.read_one, make, store)

    async def awrite(self, steps: Steps[T]) -> T:
        """Does what `write` does, without keeping others waiting; all of it, cancelled or not."""
        if self.is_awaited:
            return await carry_through(_awaited(steps, self.world.store))
        return await carry_through(asyncio.to_thread(self.write, steps))

    async def ado(self, call: Callable[[Any], Any]) -> Any:
        """Makes one call of the agent, without keeping others waiting; to its end as well."""
        if self.is_awaited:
            return await carry_through(call(self.agent))
        return await carry_through(asyncio.to_thread(call, self.agent))

    def do(self, call: Callable[[Any], Any]) -> Any:
        """Makes one call of the agent."""
        self._check_waiting()
        return call(self.agent)

    def _check_waiting(self) -> None:
        if self.is_awaited:
            raise InvalidValue("over an AsyncClient, use the methods that are awaited: aput, …")


def _carried_out(steps: Steps[T], store: Any) -> T:
    go_on = partial(steps.send, None)
    while True:
        try:
            step = go_on()
        except StopIteration as done:
            return done.value
        try:
            go_on = partial(steps.send, step(store))
        except HoldfastError as exc:
            go_on = partial(steps.throw, exc)


async def _awaited(steps: Steps[T], store: Any) -> T:
    go_on = partial(steps.send, None)
    while True:
        try:
            step = go_on()
        except StopIteration as done:
            return done.value
        try:
            go_on = partial(steps.send, await step(store))
        except HoldfastError as exc:
            go_on = partial(steps.throw, exc)
