"""The console's door: which requests of browsers count, what they are given, and what not."""

import asyncio
import gzip
import json
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import httpx2
import pytest

from holdfast import console
from holdfast.engine.vault import Holdfast
from holdfast.errors import InvalidValue
from holdfast.server.app import make_app, open_vault
from holdfast.server.config import configure, to_environ
from holdfast.server.credentials import Credentials, make_credentials
from holdfast.server.packing import accepts_gzip
from holdfast.server.serving import make_link
from holdfast.server.textprocesses import TextProcesses
from holdfast.server.tries import Tries

HERE = "http://console.localhost:7433"
COOKIE = "holdfast-7433"
OURS = {"Sec-Fetch-Site": "same-origin", "X-Holdfast-Console": "1"}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; "
    "connect-src 'self'; worker-src 'self'; font-src 'none'; base-uri 'self'; form-action 'self'; "
    "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types holdfast-worker"
)


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sign-in is answered when it is done: how long it takes is another test's."""
    monkeypatch.setattr("holdfast.server.tries.ANSWER_S", 0.0)


@dataclass
class Place:
    """A server in this process, with its keys."""

    vault: Holdfast
    made: Credentials
    app: Any

    def run(
        self, talk: Callable[[httpx2.AsyncClient], Awaitable[None]], *, url: str = HERE, **more: Any
    ) -> None:
        async def play() -> None:
            transport = httpx2.ASGITransport(app=self.app, **more)
            async with httpx2.AsyncClient(transport=transport, base_url=url) as http:
                await talk(http)

        asyncio.run(play())

    def token(self, *secrets: str) -> str:
        token = None
        for secret in secrets or (self.made.api_key,):
            token = self.vault.sign_ins.by_key(secret, beside=token)
        return token or ""


@pytest.fixture
def place(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Place]:
    config = configure(getattr(request, "param", {}), data=str(tmp_path))
    with open_vault(config) as vault:
        made = make_credentials(vault, config)
        assert made is not None
        yield Place(vault, made, make_app(config, vault, cast("TextProcesses", None)))


def code_of(answer: httpx2.Response) -> str:
    return answer.json()["error"]["code"] if answer.content and answer.is_error else ""


# Signing in


def test_a_person_signs_in_is_known_and_signs_out(place: Place) -> None:
    async def talk(http: httpx2.AsyncClient) -> None:
        where = "/console/session"
        assert (await http.get(where)).status_code == 401
        wrong = await http.post(where, json={"api_key": "holdfast-sk-wrong-0000"}, headers=OURS)
        assert (wrong.status_code, wrong.headers.get("set-cookie")) == (401, None)
        first = await http.post(where, json={"api_key": place.made.api_key}, headers=OURS)
        assert (first.json()["scopes"], first.json()["namespace"]) == (["workspace"], None)
        kept = first.headers["set-cookie"]
        token, *rest = kept.split("; ")
        assert token.startswith(f"{COOKIE}=")
        assert rest == ["Path=/", "Max-Age=604800", "HttpOnly", "SameSite=Strict"]
        assert (await http.get("/v1/workspaces/me/keys")).json()["error"]["values"] == {
            "scope": "admin"
        }
        both = await http.post(where, json={"api_key": place.made.admin_key}, headers=OURS)
        assert both.json()["scopes"] == ["workspace", "admin"]
        assert (await http.get(where)).json() == both.json()
        assert (await http.get("/v1/workspaces/me/keys")).status_code == 200
        named = {"X-Namespace": "alice", **OURS}
        assert (await http.post("/v1/snapshots", headers=named)).status_code == 201
        (trace,) = (await http.get("/v1/traces?in=alice")).json()["data"]
        assert (trace["via"], trace["actor"]) == ("console", first.json()["keys"][0]["key_id"])
        # A key of its own comes before the cookie.
        admin = {"Authorization": f"Bearer {place.made.admin_key}"}
        me = await http.get("/v1/me", headers=admin)
        assert me.json()["scope"] == "admin"
        assert (await http.get("/v1/timeline?in=alice", headers=admin)).status_code == 403
        gone = await http.delete(where, headers=OURS)
        assert "Max-Age=0" in gone.headers["set-cookie"]
        assert (await http.get(where)).status_code == 401

    place.run(talk)


def test_without_a_runtime_key_it_says_that_this_one_is_missing(place: Place) -> None:
    async def talk(http: httpx2.AsyncClient) -> None:
        http.cookies.set(COOKIE, place.token(place.made.admin_key))
        answer = await http.get("/v1/timeline?in=alice")
        assert (answer.status_code, code_of(answer)) == (403, "missing_key")
        assert answer.json()["error"]["values"] == {"scope": "workspace"}
        assert "a runtime key" in answer.json()["detail"]

    place.run(talk)


def test_a_locked_key_shows_one_namespace(place: Place) -> None:
    locked = place.vault.keys.create("locked", namespace="bob").api_key

    async def talk(http: httpx2.AsyncClient) -> None:
        http.cookies.set(COOKIE, place.token(locked))
        assert (await http.get("/console/session")).json()["namespace"] == "bob"
        assert (await http.get("/v1/timeline?in=alice")).status_code == 403
        assert (await http.get("/v1/timeline")).json()["namespace"] == "bob"

    place.run(talk)


def test_a_link_signs_in_once(place: Place) -> None:
    address = make_link(place.vault, 7433, "/hf")
    start, _, link = address.partition("/console/#link=")
    assert start.endswith(".localhost:7433/hf")
    assert start != make_link(place.vault, 7433, "/hf").partition("/console/")[0]

    async def talk(http: httpx2.AsyncClient) -> None:
        for status in (200, 401):
            answer = await http.post("/console/session", json={"link": link}, headers=OURS)
            assert answer.status_code == status

    place.run(talk)


@pytest.mark.parametrize("body", [{}, {"api_key": "a", "link": "b"}, {"key": "a"}, {"link": 1}, []])
def test_a_sign_in_is_one_key_or_one_link(place: Place, body: Any) -> None:
    async def talk(http: httpx2.AsyncClient) -> None:
        answer = await http.post("/console/session", json=body, headers=OURS)
        assert answer.status_code == 422

    place.run(talk)


def test_a_key_with_a_rate_has_it_here_too(place: Place) -> None:
    slow = place.vault.keys.create("slow", rate_limit=1).api_key

    async def talk(http: httpx2.AsyncClient) -> None:
        http.cookies.set(COOKIE, place.token(slow))
        got = [(await http.get("/v1/timeline?in=a")).status_code for _ in range(3)]
        assert got == [200, 429, 429]

    place.run(talk)


def test_ten_sign_ins_a_minute_are_tried_from_an_address(place: Place) -> None:
    async def talk(http: httpx2.AsyncClient) -> None:
        body = {"api_key": "holdfast-sk-wrong-0000"}
        got = [
            await http.post("/console/session", json=body, headers=OURS | more)
            for more in [{}] * 11 + [{"X-Forwarded-For": "made-up, 10.0.0.1"}]
        ]
        assert [each.status_code for each in got] == [401] * 10 + [429, 401]
        assert 0 < got[10].json()["error"]["retry_after"] <= 7
        assert got[10].headers["retry-after"]

    place.run(talk, client=("192.0.2.1", 1))


def test_a_proxy_is_believed_whom_it_asks_for_and_has_a_bound_of_its_own() -> None:
    def request(peer: str, said: str | None) -> Any:
        headers = {} if said is None else {b"x-forwarded-for": said.encode()}
        return cast("Any", type("R", (), {"scope": {"client": (peer, 1)}, "headers": headers}))

    now = 0.0
    tries = Tries(clock=lambda: now)

    def count(peer: str, said: str | None) -> int:
        for done in range(1000):
            try:
                tries.count(request(peer, said if said is None else said.format(done)))
            except Exception:  # noqa: BLE001 - it is refused
                return done
        return 1000

    assert count("10.0.0.1", "1.2.3.4") == 10
    assert count("10.0.0.1", "{}, 1.2.3.5") == 10
    assert count("10.0.0.1", "10.1.0.{}") == 10  # With those before, 30 at once.
    assert count("2001:db8::1", None) == 10
    assert count("2001:db8::2", None) == 0  # Of the same network.
    assert count("2001:db8:0:1::2", None) == 10
    now = 6.0
    assert count("2001:db8::2", None) == 1


# Who may ask


CROSS = [
    ("POST", {}, 403),
    ("POST", {"X-Holdfast-Console": "1"}, 403),
    ("POST", {"Sec-Fetch-Site": "same-origin"}, 403),
    ("POST", {"Origin": HERE}, 403),
    ("POST", OURS, 201),
    ("POST", {"Origin": HERE, "X-Holdfast-Console": "1"}, 201),
    ("POST", {"Origin": "null", "X-Holdfast-Console": "1"}, 403),
    ("POST", {"Origin": "http://console.localhost:8080", "X-Holdfast-Console": "1"}, 403),
    ("POST", {"Origin": "https://console.localhost:7433", "X-Holdfast-Console": "1"}, 403),
    ("POST", {"Origin": HERE + ".evil.example", "X-Holdfast-Console": "1"}, 403),
    *(
        ("POST", {"Origin": HERE, **OURS, "Sec-Fetch-Site": site}, 403)
        for site in ("cross-site", "same-site", "none", "")
    ),
    ("POST", {**OURS, "X-Holdfast-Console": "true"}, 403),
    ("DELETE", {}, 403),
    ("GET", {}, 200),
    ("GET", {"Sec-Fetch-Site": "same-origin"}, 200),
    ("GET", {"Sec-Fetch-Site": "none"}, 200),
    ("GET", {"Origin": HERE}, 200),
    ("GET", {"Origin": "http://evil.example"}, 403),
    ("GET", {"Origin": "null"}, 403),
    ("GET", {"Sec-Fetch-Site": "same-site"}, 403),
    ("GET", {"Sec-Fetch-Site": "cross-site"}, 403),
]


def test_only_the_consoles_own_pages_ask_with_its_cookie(place: Place) -> None:
    token = place.token()

    async def talk(http: httpx2.AsyncClient) -> None:
        for method, headers, wanted in CROSS:
            given = {"X-Namespace": "alice", "Cookie": f"a=b; {COOKIE}={token}", **headers}
            path = "/v1/timeline" if method == "GET" else "/v1/snapshots"
            path = f"{path}/snap-x" if method == "DELETE" else path
            answer = await http.request(method, path, headers=given)
            assert answer.status_code == wanted, (method, headers, answer.text)
            assert wanted != 403 or code_of(answer) == "foreign_request"
            # Of whoever has a key none of it is asked.
            del given["Cookie"]
            given["Authorization"] = f"Bearer {place.made.api_key}"
            answer = await http.request(method, path, headers=given)
            assert answer.status_code in (200, 201, 404), (method, headers, answer.text)
            # Nor may anybody sign a person in, or out, from elsewhere.
            del given["Authorization"]
            if wanted == 403 and method != "GET":
                for verb in ("POST", "DELETE"):
                    more = {"json": {"api_key": place.made.api_key}} if verb == "POST" else {}
                    answer = await http.request(verb, "/console/session", headers=given, **more)
                    assert code_of(answer) == "foreign_request"

    place.run(talk)


HOSTS = {
    "127.0.0.1:7433": "holdfast-7433",
    "127.0.0.1": "holdfast",
    "127.0.0.1:7434; Path=": "holdfast",
    "[::1]:7433": "holdfast-7433",
    "[::1]": "holdfast",
    "LocalHost:1": "holdfast-1",
    "a.b.localhost.:7433": "holdfast-7433",
    "holdfast.example.com": "__Host-holdfast",
    "Holdfast.Example.com:8443": "__Host-holdfast",
    "[2001:db8::1]": "__Host-holdfast",
    "intranet:7433": "holdfast-7433",
    "evil.example": None,
    "localhost.evil.example": None,
    "127.0.0.1.evil.example": None,
    "notlocalhost": None,
    "x.holdfast.example.com": None,
    "10.0.0.1": None,
    "": None,
}
LISTED = {"HOLDFAST_CONSOLE_HOSTS": "holdfast.example.com,http://intranet,[2001:db8::1]"}


@pytest.mark.parametrize("place", [LISTED], indirect=True)
def test_a_cookie_counts_under_names_that_the_server_goes_by(place: Place) -> None:
    token = place.token()

    async def talk(http: httpx2.AsyncClient) -> None:
        for host, name in HOSTS.items():
            names = ("holdfast", COOKIE, "holdfast-1", "__Host-holdfast")
            cookies = [f"{each}={token}" for each in names]
            named = {"Host": host, "X-Namespace": "alice"}
            got = await http.get("/v1/timeline", headers={**named, "Cookie": "; ".join(cookies)})
            body = {"api_key": place.made.api_key}
            made = await http.post("/console/session", json=body, headers={"Host": host, **OURS})
            if name is None:
                assert [code_of(each) for each in (got, made)] == ["unknown_host"] * 2, host
                other = await http.get("/v1/timeline", headers={**named, "Cookie": "a=b"})
                assert other.status_code == 401
                continue
            assert (got.status_code, made.status_code) == (200, 200), host
            assert made.headers["set-cookie"].startswith(f"{name}=")
            assert made.headers["set-cookie"].endswith("Secure") == name.startswith("__Host-")
            # Over TLS, what another host may have set is not looked at; without, another port.
            others = "; ".join(each for each in cookies if not each.startswith(f"{name}="))
            got = await http.get("/v1/timeline", headers={**named, "Cookie": others})
            assert got.status_code == 401
            two = f"{name}={token}; {name}=another"
            got = await http.get("/v1/timeline", headers={**named, "Cookie": two})
            assert got.status_code == 401

    place.run(talk, client=("10.0.0.9", 1))


@pytest.fixture(autouse=True)
def many(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Lets a matrix sign in as often as it likes."""
    if "_counts_under_" in request.node.name:
        monkeypatch.setattr(Tries, "count", lambda *_: None)


@pytest.mark.parametrize(
    "given", ["a:80", "ftp://a", "*", "*.example.com", "a b", "http://", "https://a/b"]
)
def test_what_is_no_host_is_not_listed(tmp_path: Path, given: str) -> None:
    with pytest.raises(InvalidValue):
        configure({"HOLDFAST_CONSOLE_HOSTS": given}, data=str(tmp_path))


def test_a_worker_knows_the_console_of_its_parent(tmp_path: Path) -> None:
    config = configure({**LISTED, "HOLDFAST_CONSOLE": "0"}, data=str(tmp_path))
    assert configure(to_environ(config)) == config
    assert config.console_hosts[0] == "https://holdfast.example.com"


# Files


@pytest.mark.parametrize("place", [{"HOLDFAST_PREFIX": "/hf"}], indirect=True)
def test_every_file_is_where_the_page_says_and_every_other_place_is_the_page(place: Place) -> None:
    files = dict(console.iter_files())

    async def talk(http: httpx2.AsyncClient) -> None:
        page = await http.get("/hf/console", headers={"Accept-Encoding": "identity"})
        assert '<base href="/hf/console/">' in page.text
        folder = page.text.partition('href="static/')[2].partition("/")[0]
        for path in ("/", "/n/al%20ice/timeline", "/n/x.js", "/index.html"):
            again = await http.get(f"/hf/console{path}?sel=1")
            assert again.text == page.text, path
            assert again.headers["cache-control"] == "no-cache"
        for name, body in files.items():
            if name == console.INDEX:
                continue
            answer = await http.get(f"/hf/console/static/{folder}/{name}")
            assert answer.content == body
            assert "immutable" in answer.headers["cache-control"]
            for each in (page, answer):
                assert each.headers["content-security-policy"] == POLICY
                assert each.headers["x-content-type-options"] == "nosniff"
                assert each.headers["referrer-policy"] == "no-referrer"
                assert each.headers["cross-origin-opener-policy"] == "same-origin"
                assert each.headers["cross-origin-resource-policy"] == "same-origin"
                assert each.headers["vary"] == "Accept-Encoding"
        script = await http.get(f"/hf/console/static/{folder}/js/main.js")
        assert script.headers["content-type"].startswith("text/javascript")
        for other in (f"static/{folder}/none.js", "static/0123456789abcdef/js/main.js"):
            assert (await http.get(f"/hf/console/{other}")).status_code == 404
        assert (await http.post("/hf/console/x")).status_code == 405
        assert (await http.get("/console/")).status_code == 404
        body = {"api_key": place.made.api_key}
        made = await http.post("/hf/console/session", json=body, headers=OURS)
        assert "; Path=/hf/;" in made.headers["set-cookie"]

    place.run(talk)


@pytest.mark.parametrize("place", [{"HOLDFAST_TLS_CERTIFICATE": "any.pem"}], indirect=True)
def test_where_the_server_itself_speaks_tls_its_own_machine_comes_so(place: Place) -> None:
    async def talk(http: httpx2.AsyncClient) -> None:
        body, page = {"api_key": place.made.api_key}, {"X-Holdfast-Console": "1"}
        for origin, status in ((HERE.replace("http:", "https:"), 200), (HERE, 403)):
            from_there = {**page, "Origin": origin}
            made = await http.post("/console/session", json=body, headers=from_there)
            assert made.status_code == status
            if made.is_success:
                assert made.headers["set-cookie"].startswith("__Host-holdfast=")

    place.run(talk)


@pytest.mark.parametrize(
    "place", [{"HOLDFAST_PREFIX": "/hf", "HOLDFAST_CONSOLE_HOSTS": "h.example"}], indirect=True
)
def test_below_a_prefix_the_cookie_has_the_name_that_it_may_have(place: Place) -> None:
    async def talk(http: httpx2.AsyncClient) -> None:
        body = {"api_key": place.made.api_key}
        made = await http.post("/hf/console/session", json=body, headers=OURS)
        assert made.headers["set-cookie"].startswith("__Secure-holdfast=")
        assert (await http.get("/hf/console/session")).status_code == 200

    place.run(talk, url="https://h.example")


def test_browsers_are_sent_to_the_console_and_others_told_what_this_is(place: Place) -> None:
    async def talk(http: httpx2.AsyncClient) -> None:
        sent = await http.get("/", headers={"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"})
        assert (sent.status_code, sent.headers["location"]) == (303, "/console/")
        for accept in ("*/*", "application/json"):
            told = await http.get("/", headers={"Accept": accept})
            assert told.json()["name"] == "holdfast"

    place.run(talk)


@pytest.mark.parametrize("place", [{"HOLDFAST_CONSOLE": "0"}], indirect=True)
def test_a_console_that_is_off_is_not_there(place: Place) -> None:
    token = place.token()

    async def talk(http: httpx2.AsyncClient) -> None:
        for path in ("/console", "/console/", "/console/session", "/console/static/a/b.js"):
            assert (await http.get(path)).status_code == 404
        cookie = {"Cookie": f"{COOKIE}={token}"}
        assert (await http.get("/v1/timeline?in=a", headers=cookie)).status_code == 401
        assert (await http.get("/", headers={"Accept": "text/html"})).json()["name"] == "holdfast"
        document = (await http.get("/openapi.json")).text
        assert "/console" not in document

    place.run(talk)


# A namespace in the query


def test_a_query_names_the_namespace_of_a_request_that_reads(place: Place) -> None:
    for name in ("alice", "bob", "ä ö"):
        place.vault.namespace(name).files.write("a.txt", name)
    locked = place.vault.keys.create("locked", namespace="bob").api_key

    async def talk(http: httpx2.AsyncClient) -> None:
        async def get(query: str, key: str = place.made.api_key, **more: str) -> httpx2.Response:
            headers = {"Authorization": f"Bearer {key}", **more}
            return await http.get(f"/v1/files/raw?path=a.txt{query}", headers=headers)

        assert (await get("&in=alice")).text == "alice"
        assert (await get("&in=%C3%A4+%C3%B6")).text == "ä ö"
        assert (await get("&in=alice&in=alice", **{"X-Namespace": "alice"})).text == "alice"
        assert (await get("&in=bob", locked)).text == "bob"
        for query, header in (("&in=alice&in=bob", {}), ("&in=alice", {"X-Namespace": "bob"})):
            assert (await get(query, **header)).status_code == 400
        assert (await get("&in=")).status_code == 400
        assert (await get("&in=..%2Fa")).status_code == 400
        assert (await get("&in=alice", locked)).status_code == 403
        assert (await get("&within=alice")).status_code == 400
        key = {"Authorization": f"Bearer {place.made.api_key}"}
        changed = await http.post("/v1/undo?in=alice", headers={**key, "X-Namespace": "alice"})
        assert changed.status_code == 400
        # Others' clients have words of their own.
        assert (await http.get("/files/a.txt?in=alice", headers=key)).status_code == 400
        body = {"agent_id": "a"}
        session = await http.post(
            "/v1/sessions", headers={**key, "X-Namespace": "alice"}, json=body
        )
        path = f"/v1/sessions/{session.json()['id']}"
        assert (await http.get(f"{path}?in=alice", headers=key)).status_code == 200
        assert (await http.get(f"{path}?in=bob", headers=key)).status_code == 404

    place.run(talk)


# Compression


@pytest.mark.parametrize(
    ("header", "reads"),
    [
        ("gzip", True),
        ("br, GZIP;q=0.5", True),
        ("gzip, deflate, br, zstd", True),
        ("gzip;q=0", False),
        ("gzip; q=0.0, br", False),
        ("identity", False),
        ("x-gzip", False),
        ("", False),
    ],
)
def test_who_reads_gzip_says_so(header: str, reads: bool) -> None:
    assert accepts_gzip(header.encode()) == reads


@pytest.mark.parametrize("place", [{"HOLDFAST_ALLOW_PRIVATE_WEBHOOKS": "1"}], indirect=True)
def test_long_answers_are_compressed_for_who_reads_that_and_no_secret_ever_is(place: Place) -> None:
    agent = place.vault.namespace("alice")
    for number in range(30):
        agent.files.write(f"{number:03}.txt", "x")

    async def talk(http: httpx2.AsyncClient) -> None:
        key = {"Authorization": f"Bearer {place.made.api_key}", "X-Namespace": "alice"}
        admin = {"Authorization": f"Bearer {place.made.admin_key}"}

        async def raw(method: str, path: str, **more: Any) -> tuple[bytes, httpx2.Headers]:
            async with http.stream(method, path, **more) as answer:
                assert answer.is_success
                return b"".join([each async for each in answer.aiter_raw()]), answer.headers

        plain, told = await raw("GET", "/v1/files", headers={**key, "Accept-Encoding": "identity"})
        assert "content-encoding" not in told
        assert told["vary"] == "Accept-Encoding"
        short, told = await raw("GET", "/v1/files", headers={**key, "Accept-Encoding": "gzip"})
        assert (told["content-encoding"], told["vary"]) == ("gzip", "Accept-Encoding")
        assert int(told["content-length"]) == len(short) < len(plain) / 2
        assert gzip.decompress(short) == plain
        tiny, told = await raw("GET", "/v1/me", headers={**key, "Accept-Encoding": "gzip"})
        assert json.loads(tiny)
        assert "content-encoding" not in told
        hook = {"url": f"http://127.0.0.1:9/{'long' * 400}"}
        packs, hooks = {**admin, "Accept-Encoding": "gzip"}, "/v1/workspaces/me/webhooks"
        made, told = await raw("POST", hooks, headers=packs, json=hook)
        assert json.loads(made)["signing_secret"]
        assert len(made) > 1600
        assert "content-encoding" not in told
        _, told = await raw("GET", hooks, headers=packs)
        assert told["content-encoding"] == "gzip"

    place.run(talk)
