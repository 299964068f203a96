"""`HoldfastStore`: LangGraph's long-term memory in the store of a namespace.

An item is a value of the store, so that it is in snapshots, diffs and restores with all else. Its
vectors lie beside it, where nobody reads them who does not search. Searching looks at every item
below a prefix: it is meant for what an agent knows of its users, not for a library.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple, TypeAlias

from langgraph.store.base import (
    BaseStore,
    GetOp,
    IndexConfig,
    Item,
    ListNamespacesOp,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    TTLConfig,
    validate_op_namespace,
)

from holdfast.errors import Damaged, InvalidValue, NotAsExpected
from holdfast.integrations.doors import Agent, Door, Step, Steps, checked_name
from holdfast.integrations.langgraph.indexing import Index, check_minutes, checked_lives
from holdfast.integrations.langgraph.searching import Vector, fits, matches, nearness, to_bytes

NAME: Final = "langgraph-store"

BESIDE: Final = ".vectors"
"""What the name of a store ends with, where its vectors are."""

Place: TypeAlias = tuple[tuple[str, ...], str]
"""A namespace of LangGraph's, and a key."""


class _Wanted(NamedTuple):
    """What a batch asks for, and what was made of its texts."""

    ops: list[Op]
    puts: dict[Place, PutOp]
    texts: dict[str, list[tuple[Place, str]]]
    """What is to be found by its meaning: of which item, and of which field of it."""
    queries: list[str]

    def vectors(self, made: Sequence[Vector]) -> dict[Place, dict[str, bytes]]:
        """Returns the vectors of each item by its fields."""
        found: dict[Place, dict[str, bytes]] = {}
        for vector, places in zip(made, self.texts.values(), strict=True):
            for place, field in places:
                found.setdefault(place, {})[field] = to_bytes(vector)
        return found


class HoldfastStore(BaseStore):
    """Items of LangGraph in the store of a namespace, of this process or of a server.

    With `index`, they are found by their meaning: `embed` makes vectors of texts, `fields` says of
    which. With `ttl`, items expire; what has expired is not returned, and `sweep_ttl` deletes it.
    `name` is where in the store items are. Over an `AsyncClient` only what is awaited works.
    """

    supports_ttl = True

    def __init__(
        self,
        agent: Agent,
        *,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
        name: str = NAME,
    ) -> None:
        self.ttl_config = checked_lives(ttl)
        self._door = Door(agent)
        if checked_name(name).endswith(BESIDE):
            raise InvalidValue(f"what ends in {BESIDE} is where the vectors of another store lie")
        self._items, self._vectors = f"{name}/", f"{name}{BESIDE}/"
        self._index = Index(index)

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Carries out operations: what is read is as it was before what is put."""
        wanted, made, asked = self._wanted(ops), list[Vector](), list[Vector]()
        if (embeddings := self._index.embeddings) is not None:
            made = embeddings.embed_documents([*wanted.texts]) if wanted.texts else []
            asked = [embeddings.embed_query(query) for query in wanted.queries]
        return self._door.write(self._done(wanted, made, asked))

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Does what `batch` does."""
        wanted, made, asked = self._wanted(ops), list[Vector](), list[Vector]()
        if (embeddings := self._index.embeddings) is not None:
            made = await embeddings.aembed_documents([*wanted.texts]) if wanted.texts else []
            asked = [await embeddings.aembed_query(query) for query in wanted.queries]
        return await self._door.awrite(self._done(wanted, made, asked))

    def sweep_ttl(self) -> int:
        """Deletes what has expired; returns how many items that were."""
        return self._door.write(self._sweep())

    async def asweep_ttl(self) -> int:
        """Does what `sweep_ttl` does."""
        return await self._door.awrite(self._sweep())

    # What is asked for

    def _wanted(self, ops: Iterable[Op]) -> _Wanted:
        wanted = _Wanted(list(ops), {}, {}, [])
        for op in wanted.ops:
            validate_op_namespace(op)
            if isinstance(op, PutOp):
                _check_put(op)
                wanted.puts[op.namespace, op.key] = op
            elif isinstance(op, SearchOp) and op.query and self._index.embeddings is not None:
                wanted.queries.append(op.query)
        if self._index.embeddings is not None:
            for place, op in wanted.puts.items():
                for field, text in self._index.texts(op):
                    wanted.texts.setdefault(text, []).append((place, field))
        return wanted

    # Steps

    def _done(
        self, wanted: _Wanted, made: Sequence[Vector], asked: Sequence[Vector]
    ) -> Steps[list[Result]]:
        made = self._index.vectors(made, texts=len(wanted.texts))
        asked = self._index.vectors(asked, texts=len(wanted.queries))
        queries = dict(zip(wanted.queries, asked, strict=True))
        results = list[Result]()
        for op in wanted.ops:
            match op:
                case GetOp():
                    results.append((yield from self._get(op)))
                case SearchOp():
                    vector = queries.get(op.query) if op.query else None
                    results.append((yield from self._search(op, vector)))
                case ListNamespacesOp():
                    results.append((yield from self._list(op)))
                case PutOp():
                    results.append(None)
                case _:
                    raise InvalidValue(f"{type(op).__name__} is no operation of a store")
        if wanted.puts:
            yield from self._put(wanted.puts, wanted.vectors(made))
        return results

    def _get(self, op: GetOp) -> Steps[Item | None]:
        name, now = self._name(op.namespace), datetime.now(UTC)
        found = yield _finding([(name, op.key)])
        if found[0] is None or _has_expired(found[0].value, now):
            return None
        if op.refresh_ttl:
            yield from self._refresh([found[0]], now)
        return Item(key=op.key, namespace=op.namespace, **_shown(found[0].value))

    def _put(
        self, puts: Mapping[Place, PutOp], vectors: Mapping[Place, dict[str, bytes]]
    ) -> Steps[None]:
        now = datetime.now(UTC)
        pairs = {place: (self._name(place[0]), place[1]) for place in puts}
        there = yield _finding([*pairs.values()])
        known = dict(zip(pairs, there, strict=True))
        put, gone = list[tuple[str, str, Any]](), list[tuple[str, str]]()
        for place, op in puts.items():
            name, key = pairs[place]
            beside = self._name(op.namespace, self._vectors), key
            if op.value is None:
                gone.append((name, key))
            else:
                old = known[place]
                began = now if old is None else _field(old.value, "created_at")
                put.append((name, key, _stored(op.value, began, now, op.ttl)))
            if place in vectors:
                put.append((*beside, vectors[place]))
            else:
                # Whoever has put one, with an index: it is not of what is put now.
                gone.append(beside)
        yield lambda store: store.batch(set=put, delete=gone)

    def _search(self, op: SearchOp, vector: Vector | None) -> Steps[list[SearchItem]]:
        found = yield from self._below(op.namespace_prefix)
        now, wanted = datetime.now(UTC), op.filter or {}
        meant = [
            (namespace, key, value)
            for namespace, key, value in found
            if not _has_expired(value, now) and fits(_field(value, "value"), wanted)
        ]
        meant.sort(key=lambda each: _field(each[2], "updated_at"), reverse=True)
        scores = dict[Place, float]()
        if vector is not None:
            near = yield from self._below(op.namespace_prefix, self._vectors)
            scores = {
                (namespace, key): max(nearness(vector, each) for each in stored.values())
                for namespace, key, stored in near
                if stored
            }
            # What has no vector comes last, as what is newest.
            meant.sort(key=lambda each: scores.get(each[:2], -2.0), reverse=True)
        meant = meant[op.offset : op.offset + op.limit]
        if op.refresh_ttl:
            pairs = [(self._name(namespace), key) for namespace, key, _ in meant]
            tagged = yield _finding(pairs)
            yield from self._refresh([each for each in tagged if each is not None], now)
        return [
            SearchItem(namespace, key, score=scores.get((namespace, key)), **_shown(value))
            for namespace, key, value in meant
        ]

    def _list(self, op: ListNamespacesOp) -> Steps[list[tuple[str, ...]]]:
        names = yield lambda store: store.namespaces(self._items)
        found = {_labels(name[len(self._items) :]) for name in names}
        meant = {
            each[: op.max_depth]
            for each in found
            if all(matches(each, condition) for condition in op.match_conditions or ())
        }
        return sorted(meant)[op.offset : op.offset + op.limit]

    def _below(
        self, prefix: tuple[str, ...], start: str | None = None
    ) -> Steps[list[tuple[tuple[str, ...], str, Any]]]:
        """Returns what is stored in a namespace, and in those below it."""
        beginning = self._items if start is None else start
        names = yield lambda store: store.namespaces(f"{beginning}{'.'.join(prefix)}")
        found = list[tuple[tuple[str, ...], str, Any]]()
        for name in names:
            namespace = _labels(name[len(beginning) :])
            if namespace[: len(prefix)] == prefix:
                items = yield lambda store, name=name: store.items(name)
                found += [(namespace, key, value) for key, value in items]
        return found

    def _refresh(self, found: Sequence[Any], now: datetime) -> Steps[None]:
        for each in found:
            ttl = _field(each.value, "ttl")
            if ttl is not None:
                value = each.value | {"expires_at": now + timedelta(minutes=ttl)}
                yield from _unless_changed(set=[(each.namespace, each.key, value)], of=each)

    def _sweep(self) -> Steps[int]:
        now, gone = datetime.now(UTC), 0
        ended = [
            (namespace, key)
            for namespace, key, value in (yield from self._below(()))
            if _has_expired(value, now)
        ]
        there = yield _finding([(self._name(namespace), key) for namespace, key in ended])
        for (namespace, key), found in zip(ended, there, strict=True):
            if found is not None and _has_expired(found.value, now):
                pairs = [(self._name(namespace, start), key) for start in self._starts]
                gone += yield from _unless_changed(delete=pairs, of=found)
        return gone

    @property
    def _starts(self) -> tuple[str, str]:
        return self._items, self._vectors

    def _name(self, namespace: tuple[str, ...], start: str | None = None) -> str:
        return f"{self._items if start is None else start}{'.'.join(namespace)}"


def _check_put(op: PutOp) -> None:
    """Raises `InvalidValue` for an item that is none, or that lives for no time."""
    check_minutes("ttl", op.ttl)
    if op.value is not None and not isinstance(op.value, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] - of untyped callers
        message = f"the value of an item is a dict, not {type(op.value).__name__}"
        raise InvalidValue(message)


def _finding(pairs: Sequence[tuple[str, str]]) -> Step:
    return lambda store: store.find_many(pairs)


def _unless_changed(*, of: Any, **parts: Any) -> Steps[bool]:
    """Changes something if a value is as it was read; who changed it meanwhile knows better."""
    expected = [(of.namespace, of.key, of.tag)]
    try:
        yield lambda store: store.batch(expected=expected, **parts)
    except NotAsExpected:
        return False
    return True


def _labels(name: str) -> tuple[str, ...]:
    return tuple(name.split(".")) if name else ()


# Items as they are stored


def _stored(
    value: Mapping[str, Any], began: datetime, now: datetime, ttl: float | None
) -> dict[str, Any]:
    ends = None if ttl is None else now + timedelta(minutes=ttl)
    return {
        "value": dict(value),
        "created_at": began,
        "updated_at": now,
        "ttl": ttl,
        "expires_at": ends,
    }


def _field(stored: Any, name: str) -> Any:
    try:
        return stored[name]
    except (KeyError, TypeError, IndexError) as exc:
        raise Damaged(f"an item of the store has no {name}: something else was put there") from exc


def _has_expired(stored: object, now: datetime) -> bool:
    ends = _field(stored, "expires_at")
    return ends is not None and ends <= now


def _shown(stored: object) -> dict[str, Any]:
    return {name: _field(stored, name) for name in ("value", "created_at", "updated_at")}
