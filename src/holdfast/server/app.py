"""Puts the server together, and says what becomes of a request until the line that tells of it.

In this order: whether it is its turn among those that show no key, whether its key is over its
limit, which route it is for, who sends it and whether that key is for this, whether there is room
for its body, whether it was answered before, and only then the route itself. What any of them
raises is answered, too.
"""

import ctypes
import gc
import logging
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from datetime import timedelta
from functools import cache, partial
from typing import Final, TypeVar

from holdfast import wiring
from holdfast.engine.core.limits import Limits
from holdfast.engine.core.linediff import Unify, unify
from holdfast.engine.vault import Holdfast
from holdfast.errors import GitFailed, GitMissing, GitTooOld, HoldfastError
from holdfast.server import idempotency, routes, verdicts
from holdfast.server.asgi import App, Receive, Scope, Send
from holdfast.server.bodies import let_in
from holdfast.server.browsers import Browsers
from holdfast.server.callers import Admission, shows_nothing
from holdfast.server.calling import call
from holdfast.server.compat import statebase, trove
from holdfast.server.compat.statebase.failures import Phrasing
from holdfast.server.config import Config, configure
from holdfast.server.connections import Connection
from holdfast.server.counting import MOST_VALUES
from holdfast.server.directories import Directories
from holdfast.server.failures import Rephrase, answer_to, say_plainly
from holdfast.server.logs import log_to
from holdfast.server.measuring import PACKS_ANSWERED, measuring
from holdfast.server.observing import Observer, request_id_of
from holdfast.server.openapi import describe
from holdfast.server.outbound import Sender
from holdfast.server.pacing import Pace
from holdfast.server.packing import is_long, packed
from holdfast.server.proxies import Behind
from holdfast.server.rates import Rates, Refusing
from holdfast.server.readiness import Packs, Readiness
from holdfast.server.requests import Request, Services
from holdfast.server.responses import LARGE_BYTES, Response, Stream
from holdfast.server.room import Room
from holdfast.server.routes import console, logins
from holdfast.server.routing import Route, Who
from holdfast.server.stopping import Stopping, stop_with_parent
from holdfast.server.strangers import Strangers
from holdfast.server.streams import Streams
from holdfast.server.table import Entry, Group, Table
from holdfast.server.textprocesses import TextProcesses
from holdfast.server.threads import AT_ONCE, Threads, Turns, Work
from holdfast.server.work import delivery, upkeep
from holdfast.server.work.loops import Job, Loops
from holdfast.settings import process_environ

logger = logging.getLogger("holdfast.server")

SWITCH_S: Final = 0.0005
"""How long a thread may keep the others waiting: with the usual 5 ms, the loop that answers waits
for every route that computes something. A tenth of it makes a write over HTTP a third faster."""

ARENAS: Final = 2
"""Places that the C library allocates from. Otherwise each thread that packs has one of its own,
and little of it is ever given back: 200 MB after an upload of 300."""

_ARENA_MAX: Final = -8
"""As `mallopt` of glibc calls it."""

_SIGN_IN_BYTES: Final = 8 << 10
"""The largest body of a sign-in: a key."""

_PUSHERS: Final = 2
"""Git backups that are pushed at the same time: a slow remote keeps one waiting, not all."""

_NOWHERE: Final = "/.outside"
"""A path that no route has: what answers there is what answers everything unknown."""

T = TypeVar("T")

VERDICTS: Final = {**verdicts.VERDICTS, **statebase.VERDICTS, **trove.VERDICTS}


class Speaking(Connection):
    """A connection that says what it cannot read as the application says what fails."""

    rephrase = Phrasing()


def create() -> App:
    """Returns the application that the environment describes: what a worker process serves."""
    config = configure(process_environ())
    start_log(config)
    stop_with_parent()
    sys.setswitchinterval(SWITCH_S)
    wiring.own_process()
    with suppress(AttributeError, OSError):  # Where another C library is, there are none of these.
        ctypes.CDLL(None).mallopt(_ARENA_MAX, ARENAS)
    texts = TextProcesses()
    app = make_app(config, open_vault(config, unify=texts.unify), texts)
    # What is there from the start stays: Python's collector need not look at it again and again,
    # while nobody is answered.
    gc.freeze()
    return app


def start_log(config: Config) -> None:
    """Has this process log as its settings say."""
    log_to(
        sys.stderr,
        level=config.log_level,
        is_json=config.log_form == "json",
        logs_requests=config.logs_requests,
    )


def open_vault(config: Config, *, unify: Unify = unify) -> Holdfast:
    """Opens the vault of a server."""
    kept, traces = config.keep_deleted_seconds, config.keep_traces_seconds
    vault = wiring.open_vault(
        config.location,
        objects=config.objects,
        limits=Limits(
            snapshot_bytes=config.max_snapshot_bytes or None,
            answer_bytes=config.max_answer_bytes,
            decoded_values=MOST_VALUES,
            decoded_bytes=config.max_state_bytes,
            keep_deleted=None if kept is None else timedelta(seconds=kept),
            keep_events=timedelta(seconds=config.keep_events_seconds),
            keep_traces=None if traces is None else timedelta(seconds=traces),
        ),
        hands_texts=True,
        unify=unify,
        commands=config.commands,
        database=config.database,
        secrets_key=config.secrets_key,
        private_remotes=config.allow_private_remotes,
        git_certificates=config.git_certificates,
    )
    vault.events.listen()
    return vault


def make_app(config: Config, vault: Holdfast, texts: TextProcesses) -> App:
    """Returns the application over a vault, which it closes when it is shut down, and `texts`."""
    stopping = Stopping(grace_s=config.grace_s, pause_s=config.pause_s)
    pace = Pace(stopping.wait)
    threads = Threads(pace)
    rates = Rates()
    if config.database_url is not None or config.workers > 1:
        rates = Rates(take=vault.take_requests, run=partial(_admitting, threads))
    sender = Sender(allow_private=config.allow_private_webhooks)
    browsers = Browsers(config, vault.sign_ins) if config.console else None
    directories = Directories(vault) if config.directories else None
    record = partial(_record, vault, rates, browsers)
    jobs = _jobs(config, vault, record, sender, stopping, pace=pace)
    jobs["rates"] = upkeep.giving_back(rates.give_back)
    jobs["metrics"] = measuring(vault)
    packs = _packs_of(config, vault)
    jobs |= {} if packs is None else {"packs": packs.look}
    people = [] if browsers is None else _of_people(config, browsers, vault)
    table = Table([*_groups(config), Group(people, _SIGN_IN_BYTES)], VERDICTS)
    services = Services(
        config=config,
        readiness=Readiness(vault.ping, is_leaving=stopping.is_leaving),
        packs=packs,
        streams=Streams(stopping),
        sender=sender,
        sign=trove.sign,
        is_stopping=stopping.is_set,
        room=Room(config),
        # Where rows or packs are elsewhere, the loop would wait for a network; or for a directory.
        turns=Turns(
            0 if config.database_url or config.objects_url or config.directories else AT_ONCE
        ),
        document=cache(partial(describe, table)),
    )
    waits = config.database_url is not None
    admission = Admission(
        vault, rates.admit, threads, browsers=browsers, directories=directories, waits=waits
    )
    app = Application(
        table,
        services,
        refusing=Refusing(rates, table.public_paths()),
        admit=admission.admit,
        observer=Observer(
            rates,
            statebase.headers,
            is_leaving=stopping.is_leaving,
            trusts_traces=config.trusts_traces,
        ),
        rephrase=Phrasing(config.validation_status),
        lifespans=[
            partial(_closing, vault, [record, rates.give_back], texts, directories),
            threads.running,
            stopping.watching,
            Loops(jobs, stopping).running,
        ],
    )
    made: App = Prefixed(app, config.prefix) if config.prefix else app
    return Behind(made, config.proxies) if config.proxies else made


def _of_people(config: Config, browsers: Browsers, vault: Holdfast) -> list[Route]:
    """Returns what is there where people can sign in."""
    return [
        *console.make_routes(browsers, config.prefix),
        *logins.make_routes(browsers, vault.device_logins),
    ]


def _groups(config: Config) -> list[Group]:
    """Returns all routes, by how they come to their namespace and how large a body they take."""
    own = {path for route in routes.defaulted() for path in route.paths}
    spoken = statebase.all_routes(routes.defaulted(statebase.DIALECT))
    ours = [route for route in spoken if own >= {*route.paths}]
    theirs = [route for route in spoken if route not in ours]
    states, default = config.max_state_bytes, config.default_namespace
    return [
        Group(routes.NAMED, config.max_body_bytes, is_ours=True),
        Group(routes.WITH_VALUES, states, is_ours=True),
        Group(routes.WITH_BATCHES, config.max_batch_bytes, is_ours=True),
        Group(ours, states, default, is_ours=True),
        Group(theirs, states, default),
        Group(trove.ROUTES, config.max_body_bytes),
        Group(trove.WITH_TEXTS, config.max_text_bytes),
    ]


async def _admitting(threads: Threads, tenant: str, function: Callable[[], T]) -> T:
    return await threads.run(tenant, Work.ADMISSION, function)


def _record(vault: Holdfast, rates: Rates, browsers: Browsers | None) -> None:
    """Writes down which keys and sign-ins were used."""
    uses = rates.take_uses()
    if uses:
        vault.record_uses(uses)
    if browsers is not None:
        browsers.write_down()


def _jobs(
    config: Config,
    vault: Holdfast,
    record: Callable[[], None],
    sender: Sender,
    stopping: Stopping,
    *,
    pace: Pace,
) -> dict[str, Job]:
    """Returns what this server does by itself."""
    jobs = {"uses": upkeep.noting_uses(record), "log": upkeep.tending_log(vault)}
    if config.works:
        jobs["schedules"] = upkeep.doing_what_is_due(vault.run_schedules)
        jobs["sessions"] = upkeep.doing_what_is_due(vault.end_lapsed_sessions)
        for number in range(_PUSHERS):
            jobs[f"git-{number}"] = upkeep.doing_what_is_due(vault.push_backups)
        jobs["repositories"] = upkeep.sweeping_repositories(vault)
        if config.secrets_key is not None:
            _warn_without_git(vault)
        jobs["upkeep"] = partial(pace.run, upkeep.looking_after(vault))
        jobs["rollbacks"] = partial(pace.run, upkeep.watching_rollbacks(vault))
        outbox = vault.outbox(retries_s=config.retries_s)
        jobs["delivery"] = delivery.make_job(
            outbox, sender, sign=trove.sign, is_stopping=stopping.is_set
        )
    return jobs


def _packs_of(config: Config, vault: Holdfast) -> Packs | None:
    """Returns what asks the place of packs how it is; None where it is the server's own disk."""
    if config.objects_url is None:
        return None
    return Packs(vault.ping_packs, note=PACKS_ANSWERED.set_to_current_time)


def _warn_without_git(vault: Holdfast) -> None:
    """Says in the log, before the first push fails, that none can be made from here."""
    try:
        vault.check_git()
    except (GitMissing, GitTooOld, GitFailed) as exc:
        logger.warning("git backups cannot be pushed from here: %s. %s", exc, exc.hint)


class Prefixed:
    """An application below a path of its own."""

    def __init__(self, app: App, prefix: str) -> None:
        self.app, self._prefix = app, prefix.rstrip("/")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request on without the prefix; what lacks it is not ours, and not found."""
        if scope["type"] == "http":
            path, raw = scope["path"], self._prefix.encode()
            if path == self._prefix or path.startswith(f"{self._prefix}/"):
                scope["path"] = path.removeprefix(self._prefix) or "/"
                scope["raw_path"] = scope["raw_path"].removeprefix(raw) or b"/"
            else:
                scope["path"] = _NOWHERE
        await self.app(scope, receive, send)


@asynccontextmanager
async def _closing(
    vault: Holdfast,
    last: Sequence[Callable[[], None]],
    texts: TextProcesses,
    directories: Directories | None,
) -> AsyncGenerator[None]:
    try:
        yield
    finally:
        with suppress(HoldfastError):  # A database that is away keeps nobody from stopping.
            for act in last:
                act()
        if directories is not None:
            directories.close()
        vault.close()
        texts.close()


Admit = Callable[[Entry, Request], Awaitable[None]]
Lifespan = Callable[[], AbstractAsyncContextManager[None]]


class Application:
    """All routes, behind whoever admits."""

    def __init__(
        self,
        table: Table,
        services: Services,
        *,
        refusing: Refusing,
        admit: Admit,
        observer: Observer,
        rephrase: Rephrase = say_plainly,
        lifespans: Sequence[Lifespan] = (),
    ) -> None:
        self._table, self._services = table, services
        self._refusing, self._admit = refusing, admit
        self._observer, self._lifespans = observer, lifespans
        self._rephrase, self._strangers = rephrase, Strangers()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request, or lives for as long as the server does."""
        if scope["type"] == "http":
            begun = time.monotonic_ns()
            request = Request(scope, receive, self._services, request_id_of(scope["headers"]))
            with self._observer.drawing(scope["headers"]):
                await self._serve(request, send, begun)
        elif scope["type"] == "lifespan":
            await self._live(receive, send)
        else:
            await send({"type": "websocket.close"})

    async def _serve(self, request: Request, send: Send, begun: int) -> None:
        status = 0
        try:
            response = await self._answer(request)
            status = response.status
            more = self._observer.headers(request, response, begun)
            await response.send(request.receive, send, more)
        finally:
            request.give_back()
            self._refusing.note(request)
            self._observer.note(request, status, begun)

    async def _answer(self, request: Request) -> Response | Stream:
        try:
            entry = await self._found(request)
            self._observer.note_sender(request)
            await let_in(request, entry.max_body_bytes)
            name = idempotency.name_of(request)
            if name is None:
                answer = await call(entry, request)
            else:

                async def work() -> Response | Stream:
                    try:
                        return await call(entry, request)
                    except Exception as exc:  # noqa: BLE001 - as below
                        return answer_to(request, exc, self._rephrase)

                answer = await idempotency.answered(entry, request, name, work)
            if answer.weight > LARGE_BYTES:
                # Before it is compressed: it would wait for that as well.
                await request.taken.take_answer(answer.weight)
            if entry.route.is_secret or not is_long(answer, request):
                return answer
            return await packed(request, answer)
        except Exception as exc:  # noqa: BLE001 - whatever it is, somebody waits for an answer
            if request.caller is None:
                with suppress(HoldfastError):  # Who has left in the meantime is told the same.
                    await self._strangers.hold(request)
            return answer_to(request, exc, self._rephrase)

    async def _found(self, request: Request) -> Entry:
        """Returns the route of a request, once that is admitted."""
        if shows_nothing(request):
            await self._strangers.hold(request)
        await self._refusing.check(request)
        entry = self._table.find(request)
        if entry.route.who is Who.ANYBODY:
            await self._strangers.hold(request)
        await self._admit(entry, request)
        if request.caller is not None:
            self._strangers.know(request, request.caller.vault.tenant_id)
        return entry

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        has_begun = False
        try:
            async with AsyncExitStack() as stack:
                for lifespan in self._lifespans:
                    await stack.enter_async_context(lifespan())
                await send({"type": "lifespan.startup.complete"})
                has_begun = True
                await receive()
        except Exception as exc:
            word = "shutdown" if has_begun else "startup"
            await send({"type": f"lifespan.{word}.failed", "message": str(exc)})
            raise
        await send({"type": "lifespan.shutdown.complete"})
