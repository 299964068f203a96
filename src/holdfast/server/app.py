"""Puts the server together: routes, who may use them, and how their errors are answered."""

import gc
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from datetime import timedelta
from typing import Any, Final

from litestar import Litestar, Router
from litestar.datastructures import State
from litestar.di import Provide
from litestar.exceptions import HTTPException
from litestar.openapi import OpenAPIConfig
from litestar.openapi.spec import Components, SecurityScheme
from litestar.routes import HTTPRoute
from litestar.types import ASGIApp, Receive, Scope, Send

from holdfast import wiring
from holdfast.engine.limits import Limits
from holdfast.engine.linediff import Unify, unify
from holdfast.engine.vault import Holdfast
from holdfast.errors import HoldfastError
from holdfast.server import routes
from holdfast.server.bodies import JsonRequest
from holdfast.server.callers import Admission, AgentOrDefault, provide_agent, provide_caller
from holdfast.server.config import Config, configure
from holdfast.server.counting import MOST_VALUES
from holdfast.server.idempotency import Idempotency
from holdfast.server.logs import log_to
from holdfast.server.observing import Observed
from holdfast.server.outbound import Sender
from holdfast.server.problems import answer_http, answer_known, answer_unknown
from holdfast.server.rates import Rates
from holdfast.server.refusing import Refusing
from holdfast.server.room import Arriving, Room
from holdfast.server.stopping import Stopping, stop_with_parent
from holdfast.server.streams import Streams
from holdfast.server.textprocesses import TextProcesses
from holdfast.server.threads import Threads
from holdfast.server.work import delivery, schedules, sessions, upkeep, uses
from holdfast.server.work.loops import Job, Loops
from holdfast.settings import process_environ

Lifespan = Callable[[Litestar], AbstractAsyncContextManager[None]]

SWITCH_S: Final = 0.0005
"""How long a thread may keep the others waiting: with the usual 5 ms, the loop that answers waits
for every route that computes something. A tenth of it makes a write over HTTP a third faster."""

_NOWHERE: Final = "/.outside"
"""A path that no route has: what answers there is what answers everything unknown."""

_SECURITY: Final = [{"bearer": list[str]()}, {"key": list[str]()}]


def create() -> ASGIApp:
    """Returns the application that the environment describes: what a worker process serves."""
    log_to(sys.stderr)
    stop_with_parent()
    sys.setswitchinterval(SWITCH_S)
    config = configure(process_environ())
    texts = TextProcesses()
    app = make_app(config, open_vault(config, unify=texts.unify), texts)
    # What is there from the start stays: Python's collector need not look at it again and again,
    # while nobody is answered.
    gc.freeze()
    return app


def open_vault(config: Config, *, unify: Unify = unify) -> Holdfast:
    """Opens the vault of a server."""
    kept = config.keep_deleted_seconds
    vault = wiring.open_vault(
        config.location,
        objects=config.objects,
        limits=Limits(
            snapshot_bytes=config.max_snapshot_bytes or None,
            answer_bytes=config.max_answer_bytes,
            decoded_values=MOST_VALUES,
            decoded_bytes=config.max_state_bytes,
            keep_deleted=None if kept is None else timedelta(seconds=kept),
        ),
        hands_texts=True,
        unify=unify,
    )
    vault.events.listen()
    return vault


def make_app(config: Config, vault: Holdfast, texts: TextProcesses) -> ASGIApp:
    """Returns the application over a vault, which it closes when it is shut down, and `texts`."""
    rates, threads, stopping = Rates(), Threads(), Stopping(grace_s=config.grace_s)
    sender = Sender(allow_private=config.allow_private_webhooks)
    jobs = _jobs(config, vault, rates, sender, stopping)
    app = Litestar(
        route_handlers=_routers(config),
        dependencies={"caller": provided(provide_caller)},
        middleware=[
            Admission(vault, rates.count, threads, waits=config.database_url is not None),
            Arriving(Room(config)),
            Idempotency(),
        ],
        exception_handlers={
            HoldfastError: answer_known,
            HTTPException: answer_http,
            Exception: answer_unknown,
        },
        state=State(
            {
                "config": config,
                "ping": vault.tenants,
                "streams": Streams(stopping),
                "sender": sender,
                "is_stopping": stopping.is_set,
            }
        ),
        lifespan=[
            _closing(vault, rates, texts),
            threads.running,
            stopping.watching,
            Loops(jobs, stopping).running,
        ],
        request_class=JsonRequest,
        request_max_body_size=config.max_body_bytes,
        openapi_config=_openapi(),
        logging_config=None,
        debug=False,
    )
    return Prefixed(Observed(Refusing(app, rates, _public_paths(app)), rates), config.prefix)


def _public_paths(app: Litestar) -> frozenset[str]:
    """Returns the paths that are answered without a key."""
    return frozenset(
        route.path
        for route in app.routes
        if isinstance(route, HTTPRoute)
        and any(handler.opt.get("public") for handler in route.route_handlers)
    )


def _routers(config: Config) -> list[Router]:
    """Returns all routes, by how they come to their namespace and how large a body they take."""
    named = {"agent": provided(provide_agent)}
    defaulted = {"agent": provided(AgentOrDefault(config.default_namespace))}
    return [
        Router("/", route_handlers=handlers, dependencies=agent, request_max_body_size=most)
        for handlers, agent, most in (
            (routes.NAMED, named, config.max_body_bytes),
            (routes.WITH_VALUES, named, config.max_state_bytes),
            (routes.WITH_TEXTS, named, config.max_text_bytes),
            (routes.WITH_BATCHES, named, config.max_batch_bytes),
            (routes.DEFAULTED, defaulted, config.max_state_bytes),
        )
    ]


def _jobs(
    config: Config, vault: Holdfast, rates: Rates, sender: Sender, stopping: Stopping
) -> dict[str, Job]:
    """Returns what this server does by itself."""
    jobs = {"uses": uses.make_job(vault, rates)}
    if config.works:
        jobs["schedules"] = schedules.make_job(vault)
        jobs["sessions"] = sessions.make_job(vault)
        jobs["upkeep"] = upkeep.make_job(vault)
        outbox = vault.outbox(retries_s=config.retries_s)
        jobs["delivery"] = delivery.make_job(outbox, sender, is_stopping=stopping.is_set)
    return jobs


def provided(dependency: Callable[..., Any]) -> Provide:
    """Returns a dependency that takes no time worth a thread."""
    return Provide(dependency, sync_to_thread=False)


class Prefixed:
    """An application below a path of its own; without one, at the root."""

    def __init__(self, app: ASGIApp, prefix: str) -> None:
        self.app, self._prefix = app, prefix.rstrip("/")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request on without the prefix; what lacks it is not ours, and not found."""
        if self._prefix and scope["type"] == "http":
            path, raw = scope["path"], self._prefix.encode()
            if path == self._prefix or path.startswith(f"{self._prefix}/"):
                scope["path"] = path.removeprefix(self._prefix) or "/"
                scope["raw_path"] = scope["raw_path"].removeprefix(raw) or b"/"
            else:
                scope["path"] = _NOWHERE
        await self.app(scope, receive, send)


def _closing(vault: Holdfast, rates: Rates, texts: TextProcesses) -> Lifespan:
    @asynccontextmanager
    async def lifespan(_: Litestar) -> AsyncGenerator[None]:
        try:
            yield
        finally:
            with suppress(HoldfastError):  # A database that is away keeps nobody from stopping.
                vault.record_uses(rates.take_uses())
            vault.close()
            texts.close()

    return lifespan


def _openapi() -> OpenAPIConfig:
    return OpenAPIConfig(
        title="Holdfast",
        version="1",
        description="An undo button for AI agents: files, store, conversations and memories.",
        components=Components(
            security_schemes={
                "bearer": SecurityScheme(type="http", scheme="bearer"),
                "key": SecurityScheme(type="apiKey", name="X-API-Key", security_scheme_in="header"),
            }
        ),
        security=_SECURITY,
        path="/schema",
        render_plugins=[],
    )
