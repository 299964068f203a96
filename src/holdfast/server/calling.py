"""Calls a route: finds what it takes in a request, runs it where it belongs, and has its answer.

Answers as JSON, encoded where they were made and never for long at a time.

Encoding holds the interpreter's lock, as decoding does, and what was stored may be large: a state
of many values, a text of 60 MiB. Such an answer is encoded in parts, with everybody else in
between; byte for byte it is what it would be as a whole.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import nullcontext, suppress
from functools import partial
from typing import Any, Final, TypeVar, cast

import msgspec

from holdfast.instruments import SPANS
from holdfast.server.bodies import NOTHING, check_nothing, read_bytes, read_json
from holdfast.server.callers import IN_QUERY, agent_of
from holdfast.server.idempotency import kept_with_work
from holdfast.server.parameters import BYTES, DATA
from holdfast.server.problems import Unfit
from holdfast.server.requests import Request
from holdfast.server.responses import Response, Stream
from holdfast.server.routing import Route, Who
from holdfast.server.stopping import watching
from holdfast.server.table import Entry
from holdfast.server.threads import Work, in_thread, tenant_here


async def call(entry: Entry, request: Request) -> Response | Stream:
    """Returns what a route answers to a request that was admitted."""
    with SPANS.around(entry.route.name, nullcontext()):
        return await _call(entry, request)


async def _call(entry: Entry, request: Request) -> Response | Stream:
    route, values = entry.route, _given(entry, request)
    parameters = route.parameters
    is_exact = entry.is_ours and not route.is_lenient and route.who is not Who.ANYBODY
    if is_exact:
        parameters.check_query(request, *([] if parameters.agent is None else [IN_QUERY]))
    values |= parameters.values(request)
    if parameters.decoder is not None:
        data = await read_json(request, parameters.decoder, entry.max_body_bytes)
        if data is not NOTHING:
            values[DATA] = data
        elif parameters.needs_data:
            raise Unfit("the request needs a JSON body")
    elif parameters.takes_bytes:
        values[BYTES] = await read_bytes(request, entry.max_body_bytes)
    elif is_exact and route.method != "GET" and not route.is_spooled:
        await check_nothing(request, entry.max_body_bytes)
    if route.at_once is not None and request.services.turns.is_ready(tenant_here()):
        made = route.at_once(**values)
        if made is not None:
            return Response(msgspec.json.encode(made), status=route.status)
    if parameters.is_gone is None:
        return _response(route, await _run(route, values))
    async with watching(request.receive, request.services.is_stopping) as is_gone:
        return _response(route, await _run(route, {**values, parameters.is_gone: is_gone}))


def encoded(make: Callable[[], object], *, status: int = 200, is_secret: bool = False) -> Any:  # noqa: ANN401 - as any route
    """Returns an answer as JSON, in the thread that made it, and not by who answers all.

    Of a request that bears a name, it is kept together with what was done.
    """

    def run() -> object:
        answer = make()
        is_made = answer is None or isinstance(answer, bytes | Response | Stream)
        return answer if is_made else encode(answer)

    return kept_with_work(run, status=status, is_secret=is_secret)


def _given(entry: Entry, request: Request) -> dict[str, Any]:
    """Returns what a route takes that stands nowhere in a request."""
    wanted = entry.route.parameters
    values: dict[str, Any] = {}
    if wanted.agent is not None:
        values[wanted.agent] = agent_of(request, entry.default_namespace, is_ours=entry.is_ours)
    if wanted.caller is not None:
        values[wanted.caller] = request.admitted
    if wanted.request is not None:
        values[wanted.request] = request
    if wanted.services is not None:
        values[wanted.services] = request.services
    return values


async def _run(route: Route, values: dict[str, Any]) -> object:
    function = partial(route.function, **values)
    if route.is_async:
        return await function()
    run = partial(encoded, function, status=route.status, is_secret=route.is_secret)
    if route.work is None:
        return run()
    # Commands of a namespace run one after the other: those that wait take no thread from others.
    agent = route.parameters.agent if route.work is Work.COMMANDS else None
    line = None if agent is None else values[agent].name
    return await in_thread(run, work=route.work, line=line)


def _response(route: Route, made: object) -> Response | Stream:
    if isinstance(made, Response | Stream):
        return made
    return Response(cast("bytes", made or b""), status=route.status, media_type=route.media_type)


T = TypeVar("T")

LIGHT: Final = 1 << 20
"""What is encoded at once: about so many characters, which take 7 ms at the worst."""

SMALL: Final = 2 << 10
"""What weighs less is weighed again where that is needed, and not noted."""

_ITEM: Final = 16
"""What a value weighs beside its characters."""

_FLAT: Final = frozenset({float, bool, type(None)})
_TEXTS: Final = (str, msgspec.Raw)
_LISTS: Final = (list, tuple)

Weights = dict[int, int]
"""What lists, objects and structs weigh, by the address of each."""


def encode(answer: object) -> bytes:
    """Returns an answer as JSON."""
    if not _is_light(answer):
        # What is nested more deeply than this can follow is up to the encoder.
        with suppress(RecursionError):
            return b"".join(parts_of(answer))
    return msgspec.json.encode(answer)


def parts_of(answer: object) -> Iterator[bytes]:
    """Yields an answer as JSON, part by part."""
    return _text({}, answer)


def _is_light(answer: object) -> bool:
    """Says whether an answer is encoded at once; looks no further than that takes."""
    left, waiting = LIGHT, [answer]
    for value in waiting:
        left -= _ITEM
        if isinstance(value, _TEXTS):
            left -= len(value)
        elif type(value) in _FLAT:
            continue
        elif isinstance(value, int):
            left -= value.bit_length() // 3
        else:
            for parts in _inside(value):
                left -= _ITEM * len(parts)
                if left < 0:
                    return False
                waiting += parts
        if left < 0:
            return False
    return True


def _weigh(weights: Weights, value: object) -> int:
    if not value or type(value) in _FLAT:
        return _ITEM
    if isinstance(value, _TEXTS):
        return _ITEM + len(value)
    if isinstance(value, int):
        return _ITEM + value.bit_length() // 3
    weight = weights.get(id(value))
    if weight is None:
        weight = _ITEM + sum(_weigh_all(weights, parts) for parts in _inside(value))
        if weight > SMALL:
            weights[id(value)] = weight
    return weight


def _weigh_all(weights: Weights, items: Collection[Any]) -> int:
    # Where they are alike, C can tell.
    kinds = set(map(type, items))
    if kinds <= _FLAT:
        return _ITEM * len(items)
    if kinds == {str}:
        return _ITEM * len(items) + sum(map(len, items))
    return sum(map(partial(_weigh, weights), items))


def _inside(value: object) -> tuple[Collection[Any], ...]:
    if isinstance(value, dict):
        known = cast("dict[Any, Any]", value)
        return known.keys(), known.values()
    if isinstance(value, _LISTS):
        return (cast("list[Any]", value),)
    if isinstance(value, msgspec.Struct):
        return (msgspec.structs.astuple(value),)
    return ()


def _parts(weights: Weights, value: object) -> Iterator[bytes]:
    """Yields the text of a value that is not light."""
    match value:
        case str():
            yield b'"'
            for start in range(0, len(value), LIGHT):
                yield msgspec.json.encode(value[start : start + LIGHT])[1:-1]
            yield b'"'
        case dict():
            yield from _members(weights, cast("dict[Any, Any]", value).items())
        case msgspec.Struct() if not value.__struct_config__.omit_defaults:
            named = zip(value.__struct_encode_fields__, msgspec.structs.astuple(value), strict=True)
            yield from _members(weights, named)
        case list() | tuple():
            yield from _items(weights, cast("list[Any]", value))
        case _:
            yield msgspec.json.encode(value)


def _items(weights: Weights, items: Iterable[Any]) -> Iterator[bytes]:
    before = b"["
    for run in _runs(items, partial(_weigh, weights)):
        yield before
        if len(run) > 1:
            yield msgspec.json.encode(run)[1:-1]
        else:
            yield from _text(weights, run[0])
        before = b","
    yield b"]"


def _members(weights: Weights, members: Iterable[tuple[Any, Any]]) -> Iterator[bytes]:
    def weigh(member: tuple[Any, Any]) -> int:
        return _weigh(weights, member[0]) + _weigh(weights, member[1])

    before = b"{"
    for run in _runs(members, weigh):
        yield before
        if len(run) > 1:
            yield msgspec.json.encode(dict(run))[1:-1]
        else:
            yield from _text(weights, run[0][0])
            yield b":"
            yield from _text(weights, run[0][1])
        before = b","
    yield b"}"


def _runs(items: Iterable[T], weigh: Callable[[T], int]) -> Iterator[list[T]]:
    """Yields neighbours that are light together; what is not comes alone."""
    run, held = list[T](), 0
    for item in items:
        weight = weigh(item)
        if run and held + weight > LIGHT:
            yield run
            run, held = [], 0
        run.append(item)
        held += weight
    if run:
        yield run


def _text(weights: Weights, value: object) -> Iterator[bytes]:
    if _weigh(weights, value) > LIGHT:
        yield from _parts(weights, value)
    else:
        yield msgspec.json.encode(value)
