"""The console: its files, and who is signed in to it.

A person signs in with a key, or with a link that was made on the server's machine, and is known by
a cookie from then on. Whoever has an agent's key and an operator's signs in with one after the
other: a route takes the one that it is for.
"""

import asyncio
from functools import partial
from typing import Final

import msgspec

from holdfast.engine.tenancy.signins import SignedIn
from holdfast.engine.tenant import TenantVault
from holdfast.instants import to_text
from holdfast.model.keys import SCOPES, Key
from holdfast.model.marks import Instant
from holdfast.server.browsers import Browsers
from holdfast.server.callers import signed_out
from holdfast.server.pages import HOME, Pages
from holdfast.server.problems import Unfit
from holdfast.server.requests import Request
from holdfast.server.responses import NO_CONTENT, Response
from holdfast.server.routing import Route, Who, delete, get, post
from holdfast.server.threads import in_thread
from holdfast.server.tries import Tries, answered_at

_NO_KEY: Final = "this key is not valid, or no longer"
_NO_LINK: Final = "this link was used before, or is too old"

SESSION: Final = f"{HOME}/session"


class SignInRequest(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What somebody signs in with: a key, or a link."""

    api_key: str | None = None
    link: str | None = None
    """What follows `#link=` in the address that was printed."""


class SessionKey(msgspec.Struct, kw_only=True):
    """A key that somebody is signed in with."""

    key_id: str
    key_name: str
    scope: str
    """`admin`, `workspace` or `add-only`."""
    namespace: str | None
    """The only namespace that it reaches; null for all."""


class ConsoleSession(msgspec.Struct, kw_only=True):
    """Who is signed in."""

    workspace_id: str
    scopes: list[str]
    """Those of the keys: what is for another is refused with `missing_key`."""
    namespace: str | None
    """The only namespace that can be seen, if the agent's key is for one."""
    keys: list[SessionKey]
    expires_at: Instant
    """When it is over, unless something is asked for before."""


def make_routes(browsers: Browsers, prefix: str) -> list[Route]:
    """Returns the routes of the console of a server."""
    return [*_sessions(browsers), *_files(Pages(prefix))]


def _files(pages: Pages) -> list[Route]:
    @get([HOME, f"{HOME}/{{path:path}}"], who=Who.ANYBODY, work=None, is_described=False)
    def page(request: Request) -> Response:
        """Returns a file of the console, or its page."""
        return pages.answer(request)

    return [page]


def _sessions(browsers: Browsers) -> list[Route]:
    sign_ins, tries = browsers.sign_ins, Tries()

    @post(SESSION, who=Who.ANYBODY)
    async def sign_in(request: Request, data: SignInRequest) -> ConsoleSession | Response:
        """Signs in to the console with a key, or with a link; the answer sets a cookie.

        With a key while signed in: the session has both, if they are of different scopes.
        """
        begun = asyncio.get_running_loop().time()
        browsers.check_from_here(request)
        tries.count(request)
        if (data.api_key is None) == (data.link is None):
            raise Unfit("say api_key or link, and not both", param="api_key")
        before = browsers.token_of(request)
        if data.link is not None:
            sign = partial(sign_ins.by_link, data.link, instead=before)
        else:
            sign = partial(sign_ins.by_key, data.api_key or "", beside=before)
        token = await in_thread(sign)
        found = None if token is None else await in_thread(sign_ins.find, token)
        await answered_at(begun)
        if found is None:
            raise signed_out(_NO_KEY if data.link is None else _NO_LINK)
        return _told(found, {"Set-Cookie": browsers.cookie(request, token)})

    @get(SESSION, who=Who.ANYBODY)
    async def session(request: Request) -> ConsoleSession | Response:
        """Says who is signed in to the console, with which keys, and until when."""
        token = browsers.token_of(request)
        found = None if token is None else await in_thread(sign_ins.find, token)
        if found is None:
            raise signed_out("nobody is signed in")
        browsers.note(found.sign_in)
        return _told(found, {})

    @delete(SESSION, who=Who.ANYBODY, status=NO_CONTENT)
    async def sign_out(request: Request, everywhere: bool = False) -> Response:
        """Signs out of the console; `everywhere` ends every session with one of the same keys."""
        browsers.check_from_here(request)
        token = browsers.token_of(request)
        if token is not None:
            await in_thread(partial(sign_ins.end, token, everywhere=everywhere))
        cookie = {"Set-Cookie": browsers.cookie(request, None)}
        return Response(status=NO_CONTENT, headers=cookie)

    return [sign_in, session, sign_out]


def _told(found: SignedIn[TenantVault], headers: dict[str, str]) -> Response:
    opened = [each for each in (found.runtime, found.admin) if each is not None]
    keys = [_key(key) for _, key in opened]
    body = ConsoleSession(
        workspace_id=opened[0][0].tenant_id,
        scopes=[key.scope for key in keys],
        namespace=None if found.runtime is None else found.runtime[1].namespace,
        keys=keys,
        expires_at=to_text(found.sign_in.ends_at),
    )
    headers = {**headers, "Cache-Control": "no-store"}
    return Response(msgspec.json.encode(body), headers=headers)


def _key(key: Key) -> SessionKey:
    scope = SCOPES[key.scope]
    return SessionKey(key_id=key.id, key_name=key.name, scope=scope, namespace=key.namespace)
