"""Calls a route: finds what it takes in a request, runs it where it belongs, and has its answer."""

from collections.abc import Callable
from functools import partial
from typing import Any, cast

import msgspec

from holdfast.server import answers
from holdfast.server.bodies import NOTHING, read_bytes, read_json
from holdfast.server.callers import agent_of
from holdfast.server.idempotency import kept_with_work
from holdfast.server.leaving import watching
from holdfast.server.parameters import BYTES, DATA
from holdfast.server.problems import Unfit
from holdfast.server.requests import Request
from holdfast.server.responses import Response, Stream
from holdfast.server.routing import Route
from holdfast.server.table import Entry
from holdfast.server.threads import in_thread, tenant_here


async def call(entry: Entry, request: Request) -> Response | Stream:
    """Returns what a route answers to a request that was admitted."""
    route, values = entry.route, _given(entry, request)
    parameters = route.parameters
    values |= parameters.values(request)
    if parameters.decoder is not None:
        data = await read_json(request, parameters.decoder, entry.max_body_bytes)
        if data is not NOTHING:
            values[DATA] = data
        elif parameters.needs_data:
            raise Unfit("the request needs a JSON body")
    elif parameters.takes_bytes:
        values[BYTES] = await read_bytes(request, entry.max_body_bytes)
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
        return answer if is_made else answers.encode(answer)

    return kept_with_work(run, status=status, is_secret=is_secret)


def _given(entry: Entry, request: Request) -> dict[str, Any]:
    """Returns what a route takes that stands nowhere in a request."""
    wanted, values = entry.route.parameters, dict[str, Any]()
    if wanted.agent is not None:
        values[wanted.agent] = agent_of(request, entry.default_namespace)
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
    return run() if route.work is None else await in_thread(run, work=route.work)


def _response(route: Route, made: object) -> Response | Stream:
    if isinstance(made, Response | Stream):
        return made
    return Response(cast("bytes", made or b""), status=route.status, media_type=route.media_type)
