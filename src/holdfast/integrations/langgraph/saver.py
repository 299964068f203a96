"""`HoldfastSaver`: LangGraph's checkpoints in the store of a namespace.

What a graph has thought lies on the timeline of the files that it has changed: a snapshot holds
both, and a restore takes both back. How a checkpoint is stored, `records` says.
"""

import random
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
    get_checkpoint_metadata,
)
from langgraph.checkpoint.serde.base import SerializerProtocol

from holdfast import Restored, SnapshotInfo
from holdfast.errors import InvalidValue
from holdfast.integrations.doors import Agent, Door, Steps, checked_name
from holdfast.integrations.langgraph import reading, records, writing
from holdfast.integrations.langgraph.caching import Lefts, Parts
from holdfast.integrations.langgraph.configs import (
    CheckpointWithoutSnapshot,
    Named,
    checkpoint_of,
    config_of,
    configured,
    id_of,
    named_in,
    ns_of,
    thread_name,
    thread_of,
)
from holdfast.integrations.langgraph.listing import Choice, Listed, Listing
from holdfast.integrations.langgraph.messages import reader_of
from holdfast.integrations.langgraph.records import Place, Serializer, place_of

NAME: Final = "langgraph"

MOST_NOTED: Final = 4096
"""Threads of which it is noted how large their checkpoints are."""

EARLIER: Final = 16
"""Checkpoints that are asked for a snapshot where one has none: mostly, the first of them has."""

STRATEGIES: Final = ("keep_latest", "delete")


class HoldfastSaver(BaseCheckpointSaver[str]):
    """Checkpoints of LangGraph in the store of a namespace, of this process or of a server.

    With `snapshots`, every checkpoint is a snapshot of all that the agent has: `restore` brings
    files, state and conversation back together. `name` is where in the store threads are.

    Given a `Workspace`, these are snapshots of its directory. Over an `AsyncClient` only what is
    awaited works; over all others, what is awaited is done in threads.
    """

    def __init__(
        self,
        agent: Agent,
        *,
        snapshots: bool = False,
        name: str = NAME,
        serde: SerializerProtocol | None = None,
    ) -> None:
        super().__init__(serde=serde)
        self.snapshots = snapshots
        self._door, self._start = Door(agent), f"{checked_name(name)}/"
        self._store: Any = None
        """What is read instead of the head: the store as a snapshot shows it."""
        # Threads whose checkpoints are not small, and whether they have large values: what the
        # parent has of those need not be put again. Only a hint: where it is missing, a value is
        # put once more, or made into bytes once more.
        self._noted = dict[str, bool]()
        self._parts, self._lefts = Parts(), Lefts()
        self._reads: tuple[Serializer, Serializer] | None = None

    # Reading

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Returns the checkpoint that a config names, or the newest; None if there is none."""
        return self._door.read_one(lambda: self._find(config), self._store)

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Returns what `get_tuple` does."""
        return await self._door.aread_one(lambda: self._find(config), self._store)

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - as LangGraph calls it
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Yields checkpoints, newest first: as many are read as are wanted."""
        listing = self._listing(config, filter, before, limit)
        while found := self._door.read(self._some(listing), self._store):
            yield from found

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - as LangGraph calls it
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Yields what `list` does."""
        listing = self._listing(config, filter, before, limit)
        while found := await self._door.aread(self._some(listing), self._store):
            for each in found:
                yield each

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Returns what channels were given on the way to a checkpoint, and what they began with."""
        return self._door.read(self._history(config, channels), self._store)

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Returns what `get_delta_channel_history` does."""
        return await self._door.aread(self._history(config, channels), self._store)

    # Writing

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Stores a checkpoint, in one transaction; with `snapshots`, takes one of everything."""
        named = named_in(config)
        self._write(self._put(named, config, checkpoint, metadata, new_versions))
        if self.snapshots:
            said = _said(checkpoint, metadata)
            self._door.do(lambda agent: agent.snapshot(**said))
        return config_of(named.thread_id, named.checkpoint_ns, checkpoint["id"])

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Does what `put` does."""
        named = named_in(config)
        await self._awrite(self._put(named, config, checkpoint, metadata, new_versions))
        if self.snapshots:
            said = _said(checkpoint, metadata)
            await self._door.ado(lambda agent: agent.snapshot(**said))
        return config_of(named.thread_id, named.checkpoint_ns, checkpoint["id"])

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Stores what a task wrote, in one transaction; repeated, it changes nothing."""
        if writes:
            self._write(self._put_writes(config, writes, task_id, task_path))

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Does what `put_writes` does."""
        if writes:
            await self._awrite(self._put_writes(config, writes, task_id, task_path))

    # Deleting, copying

    def delete_thread(self, thread_id: str) -> None:
        """Deletes all checkpoints of a thread; snapshots keep what they hold."""
        self._write(writing.delete_thread(self._thread(thread_id)))

    async def adelete_thread(self, thread_id: str) -> None:
        """Does what `delete_thread` does."""
        await self._awrite(writing.delete_thread(self._thread(thread_id)))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Deletes the checkpoints that these runs have left, in all threads.

        What is made of them goes as well: a `DeltaChannel` loses what they wrote.
        """
        self._write(self._delete_for_runs(run_ids))

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Does what `delete_for_runs` does."""
        await self._awrite(self._delete_for_runs(run_ids))

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copies all checkpoints of a thread, with their writes, to another one."""
        source, target = self._thread(source_thread_id), self._thread(target_thread_id)
        self._write(writing.copy_thread(source, target))

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Does what `copy_thread` does."""
        source, target = self._thread(source_thread_id), self._thread(target_thread_id)
        await self._awrite(writing.copy_thread(source, target))

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Deletes all checkpoints but the latest, or with `delete` all of them.

        What a `DeltaChannel` of the latest is made of stays.
        """
        self._write(self._prune(thread_ids, strategy))

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Does what `prune` does."""
        await self._awrite(self._prune(thread_ids, strategy))

    # Going back

    def find_snapshot(self, config: RunnableConfig) -> SnapshotInfo | None:
        """Returns the newest snapshot that was taken with a checkpoint, or None.

        One that does not hold it is none: a copy of a thread has the ids of the first.
        """
        wanted = checkpoint_of(config)
        found = self._door.do(lambda _: self._door.world.timeline(trace_id=wanted))
        return next((each for each in found if self.at(each).get_tuple(config)), None)

    async def afind_snapshot(self, config: RunnableConfig) -> SnapshotInfo | None:
        """Returns what `find_snapshot` does."""
        wanted = checkpoint_of(config)
        found = await self._door.ado(lambda _: self._door.world.timeline(trace_id=wanted))
        those = (each for each in found if await self.at(each).aget_tuple(config))
        return await anext(those, None)

    def restore(self, config: RunnableConfig) -> Restored:
        """Brings back everything as it was when a checkpoint was put: files, state, conversation.

        The checkpoint is the newest of its thread then. Those that came later are on the timeline:
        `restore` brings each of them back, `undo` all of them, and `at` shows them. Raises
        `CheckpointWithoutSnapshot` for one that has none: it names the nearest that has.
        """
        snapshot = self.find_snapshot(config)
        if snapshot is None:
            earlier = self.list(_thread_alone(config), before=config, limit=EARLIER)
            found = (each.config for each in earlier if self.find_snapshot(each.config))
            nearest = next(found, None)
            raise CheckpointWithoutSnapshot(checkpoint_of(config), nearest=nearest)
        return self._door.do(lambda agent: agent.restore(snapshot))

    async def arestore(self, config: RunnableConfig) -> Restored:
        """Does what `restore` does."""
        snapshot = await self.afind_snapshot(config)
        if snapshot is None:
            earlier = self.alist(_thread_alone(config), before=config, limit=EARLIER)
            those = (each.config async for each in earlier)
            found = (each async for each in those if await self.afind_snapshot(each))
            nearest = await anext(found, None)
            raise CheckpointWithoutSnapshot(checkpoint_of(config), nearest=nearest)
        return await self._door.ado(lambda agent: agent.restore(snapshot))

    def at(self, snapshot: SnapshotInfo | str) -> "HoldfastSaver":
        """Returns a saver that reads what a snapshot holds; nothing is put there."""
        other = HoldfastSaver(self._door.agent, serde=self.serde)
        other._start = self._start
        other._store = self._door.world.at(snapshot).store
        return other

    def get_next_version(self, current: str | int | None, channel: None) -> str:  # noqa: ARG002 - LangGraph passes it
        """Returns the version after one; no two that come after the same one are equal."""
        number = int(str(current).partition(".")[0]) + 1 if current is not None else 1
        return f"{number:032}.{random.random():016}"  # noqa: S311 - it is no secret

    # Steps

    def _write(self, steps: Steps[None]) -> None:
        self._check_head()
        self._door.write(steps)

    async def _awrite(self, steps: Steps[None]) -> None:
        self._check_head()
        await self._door.awrite(steps)

    def _check_head(self) -> None:
        if self._store is not None:
            raise InvalidValue("a snapshot is read and never changed")

    def _thread(self, thread_id: object) -> str:
        return f"{self._start}{thread_name(thread_id)}"

    def _place(self, named: Named) -> Place:
        return place_of(self._start + named.thread, named.checkpoint_ns)

    def _find(self, config: RunnableConfig) -> Steps[CheckpointTuple | None]:
        named = named_in(config)
        place = self._place(named)
        while True:
            if named.checkpoint_id is None:
                stored = yield from reading.find_newest(place)
            else:
                stored = yield from reading.find(place, named.checkpoint_id)
            if stored is None:
                return None
            if not stored.record.large:
                return self._tuple(Listed(place.thread, stored, {}))
            read = yield from reading.with_values(place, stored, cache=self._parts)
            if read is not None:
                return self._tuple(Listed(place.thread, *read))

    def _reader(self) -> Serializer:
        # A copy of a saver is given another serializer.
        serde, known = self.serde, self._reads
        if known is None or known[0] is not serde:
            known = self._reads = (serde, reader_of(serde))
        return known[1]

    def _tuple(self, listed: Listed) -> CheckpointTuple:
        thread, stored, values = listed
        record, thread_id = stored.record, thread[len(self._start) :]
        reader = self._reader()
        body: Any = records.values_of(reader, record)
        for channel, each in record.large.items():
            body["channel_values"][channel] = records.value_of(reader, each, values)
            self._note(thread, has_large=True)
        return CheckpointTuple(
            config_of(thread_id, stored.checkpoint_ns, stored.id),
            body,
            reader.loads_typed(record.metadata),
            config_of(thread_id, stored.checkpoint_ns, record.parent) if record.parent else None,
            records.pending_writes(reader, stored.writes),
        )

    def _some(self, listing: Listing) -> Steps[Sequence[CheckpointTuple]]:
        return [self._tuple(each) for each in (yield from listing.some())]

    def _listing(
        self,
        config: RunnableConfig | None,
        wanted: dict[str, Any] | None,
        before: RunnableConfig | None,
        limit: int | None,
    ) -> Listing:
        given = configured(config)
        if limit is not None and not isinstance(limit, int):  # pyright: ignore[reportUnnecessaryIsInstance] - of untyped callers
            message = f"limit is a whole number, not {type(limit).__name__}"
            raise InvalidValue(message)
        if wanted is not None and not isinstance(wanted, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] - as above
            message = f"filter is a dict, not {type(wanted).__name__}"
            raise InvalidValue(message)

        def is_meant(stored: reading.Stored) -> bool:
            metadata = self.serde.loads_typed(stored.record.metadata)
            return all(metadata.get(key) == value for key, value in (wanted or {}).items())

        return Listing(
            Choice(
                thread=self._thread(given["thread_id"]) if "thread_id" in given else None,
                threads=self._start,
                checkpoint_ns=ns_of(config),
                checkpoint_id=id_of(config),
                before=id_of(before),
                limit=limit,
                is_meant=is_meant if wanted else None,
                cache=self._parts,
            )
        )

    def _history(
        self, config: RunnableConfig, channels: Sequence[str]
    ) -> Steps[dict[str, DeltaChannelHistory]]:
        if not channels:
            return {}
        named = named_in(config)
        place, checkpoint_id = self._place(named), named.checkpoint_id
        given = yield from reading.history(self._reader(), place, checkpoint_id, channels)
        found = dict[str, DeltaChannelHistory]()
        for channel in channels:
            found[channel] = {"writes": given.writes[channel][::-1]}
            if channel in given.seeds:
                found[channel]["seed"] = given.seeds[channel]
        return found

    def _put(
        self,
        named: Named,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> Steps[None]:
        place, parent = self._place(named), named.checkpoint_id
        told = get_checkpoint_metadata(config, metadata)
        values = checkpoint["channel_values"]
        unchanged = {
            channel: version
            for channel, version in checkpoint["channel_versions"].items()
            if channel in values and channel not in new_versions
        }

        noted = self._noted.get(place.thread)

        def pack(shared: Mapping[str, records.Large], there: Collection[str]) -> records.Packed:
            return records.packed(
                self.serde,
                checkpoint,
                told,
                parent=parent,
                shared=shared,
                there=there,
                is_small=noted is None,
            )

        looked_at = parent if noted else None
        made = yield from writing.put(
            place,
            checkpoint["id"],
            pack,
            parent=looked_at,
            unchanged=unchanged,
            lefts=self._lefts,
        )
        if made.apart:
            self._note(place.thread, has_large=True)
            self._parts.keep(place.thread, list(made.parts()))
        elif noted is None and not made.is_small:
            self._note(place.thread, has_large=False)

    def _put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str,
    ) -> Steps[None]:
        named = named_in(config)
        place, checkpoint_id = self._place(named), named.checkpoint_id or checkpoint_of(config)
        made = records.packed_writes(self.serde, writes, task_id, task_path)
        yield from writing.put_writes(place, checkpoint_id, task_id, made)

    def _delete_for_runs(self, run_ids: Sequence[str]) -> Steps[None]:
        _check_several("run_ids", run_ids)
        choose = writing.of_runs(self.serde, run_ids)
        for thread in (yield from reading.threads(self._start)) if run_ids else ():
            yield from writing.delete(thread, choose)

    def _prune(self, thread_ids: Sequence[str], strategy: str) -> Steps[None]:
        _check_several("thread_ids", thread_ids)
        if strategy not in STRATEGIES:
            raise InvalidValue(f"strategy is one of {', '.join(STRATEGIES)}")
        choose = writing.but_latest(self.serde)
        for thread in map(self._thread, thread_ids):
            if strategy == "delete":
                yield from writing.delete_thread(thread)
            else:
                yield from writing.delete(thread, choose)

    def _note(self, thread: str, *, has_large: bool) -> None:
        if len(self._noted) >= MOST_NOTED:
            self._noted.clear()
        self._noted[thread] = has_large


def _check_several(name: str, ids: object) -> None:
    """Raises `InvalidValue` for one id, which would be taken for as many as it has letters."""
    if isinstance(ids, str | bytes) or not isinstance(ids, Iterable):
        message = f"{name} are several: give a list"
        raise InvalidValue(message)


def _said(checkpoint: Checkpoint, metadata: CheckpointMetadata) -> dict[str, str]:
    """Returns what the snapshot of a checkpoint is called, and what it is found by."""
    label = f"{metadata.get('source', 'checkpoint')!s:.60}, step {metadata.get('step', '?')!s:.20}"
    return {"label": label, "reason": "a checkpoint of LangGraph", "trace_id": checkpoint["id"]}


def _thread_alone(config: RunnableConfig) -> RunnableConfig:
    """Returns a config that names the thread of another, and no checkpoint of it."""
    return {"configurable": {"thread_id": thread_of(config), "checkpoint_ns": ns_of(config) or ""}}
