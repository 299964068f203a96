"""Every route with input that nobody should send: no 5xx, no hang, no stack trace in an answer.

Requests are made from the server's own OpenAPI document, both such as fit it and such as do not,
and answers are compared with what it says of them. Where a document cannot say what is hostile,
requests are made by hand. `bench/soak_server_fuzz.py` looks longer.
"""

import errno
import gzip
import json
import socket
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from schemathesis import APIOperation, GenerationMode
from schemathesis.checks import CHECKS, load_all_checks

from holdfast.testing.servers import ADMIN_KEY, API_KEY, Begin, Server, running_server

EXAMPLES = 3
"""Of each route, of those that fit and of those that do not."""

FEW = 7
"""Hostile texts for each parameter and each field; it shares no factor with how many there are."""

TIMEOUT_S = 20.0
NAMESPACE = "fuzzed"
NOT_BUILT = {"/v1/exec", "/exec", "/v1/commands"}
"""Routes that answer with 501, on purpose."""

load_all_checks()
schemathesis.serializer.alias("application/x-tar", "application/octet-stream")
CONFORMS = CHECKS.get_by_names(
    ["status_code_conformance", "content_type_conformance", "response_schema_conformance"]
)


class Fuzz:
    """A server, what is in it, and everything that is tried on it."""

    def __init__(self, server: Server, *, is_thorough: bool = False) -> None:
        self.server, self.is_thorough = server, is_thorough
        self._turn = 0
        self.http = httpx.Client(base_url=server.url, trust_env=False, timeout=TIMEOUT_S)
        document = self.http.get("/openapi.json").json()
        self.paths: dict[str, Any] = document["paths"]
        self.schema = schemathesis.openapi.from_dict(document)
        self.failures: dict[str, str] = {}
        """The first answer of each route that it should not have given."""
        self._read = 0
        self.ids: dict[str, str] = {"workspace_id": server.workspace_id, "name": NAMESPACE}
        self.fill()

    def close(self) -> None:
        self.http.close()

    def operations(self) -> list[APIOperation]:
        """Returns what is tried, what takes something away at the end; a stream never ends."""
        found = [each.ok() for each in self.schema.get_all_operations()]
        kept = [each for each in found if not each.path.endswith("/stream")]
        return sorted(kept, key=lambda each: is_destructive(each.method, each.path))

    def headers(self, path: str) -> dict[str, str]:
        is_admin = path.startswith(("/v1/workspaces/", "/v1/dashboard/keys"))
        key = ADMIN_KEY if is_admin else API_KEY
        return {"Authorization": f"Bearer {key}", "X-Namespace": NAMESPACE}

    def fill(self) -> None:
        """Makes something of each kind, so that some ids lead somewhere."""

        def make(path: str, body: dict[str, Any], name: str) -> None:
            answer = self.http.post(path, json=body, headers=self.headers(path))
            assert answer.is_success, answer.text
            found = answer.json()
            self.ids[name] = found[name] if name in found else found["id"]

        make("/write", {"path": "a.txt", "content": "x"}, "path")
        self.ids["path"] = "a.txt"
        make("/v1/snapshots", {}, "snapshot_id")
        make("/v1/sessions", {"agent_id": "a"}, "session_id")
        session = f"/v1/sessions/{self.ids['session_id']}"
        make(f"{session}/turns", {"input": "i", "output": "o"}, "turn_id")
        make("/v1/memories", {"content": "c", "type": "fact"}, "memory_id")
        make("/v1/traces", {"action": "a.b"}, "trace_id")
        entity = {"session_id": self.ids["session_id"], "entity_type": "t", "entity_id": "e"}
        make("/v1/entities", entity, "row_id")
        make("/v1/tasks", {"name": "t"}, "task_id")
        make("/v1/schedules", {"every_seconds": 86_400}, "schedule_id")
        workspace = f"/v1/workspaces/{self.server.workspace_id}"
        make(f"{workspace}/keys", {"name": "k"}, "key_id")
        make(f"{workspace}/webhooks", {"url": "http://127.0.0.1:9/"}, "webhook_id")
        self.ids["delivery_id"] = "dlv-none"

    def play(self, operation: APIOperation, *, examples: int, number: int = 0) -> None:
        """Tries one route with so many requests of each kind."""
        described = self.paths[operation.path][operation.method.lower()]
        modes = [GenerationMode.POSITIVE]
        if "requestBody" in described or parameters_of(described, "query"):
            modes.append(GenerationMode.NEGATIVE)  # A path can be of any text.
        for mode in modes:

            @seed(number)
            @settings(
                max_examples=examples,
                deadline=None,
                database=None,
                phases=[Phase.generate],
                suppress_health_check=[*HealthCheck],
            )
            @given(case=operation.as_strategy(mode), is_known=st.booleans())
            def try_one(case: schemathesis.Case, is_known: bool) -> None:
                known = {name: self.ids.get(name, "none") for name in case.path_parameters or {}}
                if is_known:
                    case.path_parameters = known
                elif "workspace_id" in known:
                    case.path_parameters["workspace_id"] = known["workspace_id"]
                self.check_conforms(case)

            with suppress(Unsatisfiable):  # There is no wrong way to ask for what takes nothing.
                try_one()

    def check_conforms(self, case: schemathesis.Case) -> None:
        headers = self.headers(case.operation.path)
        answer = case.call(base_url=self.server.url, headers=headers, timeout=TIMEOUT_S)
        text = answer.content.decode("utf-8", "replace")
        check_answer(case.operation.path, answer.status_code, text, case.as_curl_command)
        case.validate_response(answer, checks=CONFORMS, headers=headers)

    def ask(self, method: str, path: str, place: str, **more: Any) -> httpx.Response:
        """Asks for something hostile."""
        headers = {**self.headers(place), **more.pop("headers", {})}
        answer = self.http.request(method, path, headers=headers, **more)
        try:
            asked = partial(str, (method, path, more))
            check_answer(place, answer.status_code, answer.text, asked)
        except AssertionError as exc:
            self.failures.setdefault(f"{method} {place} {answer.status_code}", str(exc))
        return answer

    def some(self, texts: list[Any]) -> list[Any]:
        """Returns some of the texts, each time others; all of them if there is time."""
        if self.is_thorough:
            return texts
        self._turn += FEW
        return [texts[(self._turn + number) % len(texts)] for number in range(FEW)]

    def place(self, template: str, **given: str) -> str:
        """Returns a path with ids of what is there, or with what is given."""
        path = template
        for name, value in {**self.ids, **given}.items():
            path = path.replace(f"{{{name}}}", value)
        return path

    def check_well(self) -> None:
        """Fails if the server was harmed, or had to tell its operator of a fault of its own."""
        assert self.http.get("/health").status_code == 200
        written = self.server.log.read_text("utf-8", "replace")
        log, self._read = written[self._read :], len(written)
        failures, self.failures = self.failures, {}
        assert not failures, "\n\n".join([f"{len(failures)} routes", *failures.values()])
        told = [line for line in log.splitlines() if " ERROR " in line]
        assert not [line for line in told if "not_implemented" not in line], log[-5000:]


def check_answer(place: str, status: int, text: str, ask: Callable[[], str]) -> None:
    """Fails for an answer that no request may get; `ask` says what was asked."""
    is_well = status < 500 or (status == 501 and place in NOT_BUILT)
    is_discreet = "Traceback" not in text and 'File "' not in text
    is_told = status < 400 or json.loads(text)["error"]["message"]
    assert all((is_well, is_discreet, is_told)), (ask()[:1000], status, text[:1000])


def is_destructive(method: str, path: str) -> bool:
    words = ("quota", "import", "retention", "collect")
    return method.upper() == "DELETE" or any(word in path for word in words)


@pytest.fixture(scope="module")
def fuzz(home: Path, at_once: Begin) -> Iterator[Fuzz]:
    environ = {"HOLDFAST_ALLOW_PRIVATE_WEBHOOKS": "1"}
    with (
        running_server(home, environ=environ, begin=at_once) as server,
        closing(Fuzz(server)) as fuzzing,
    ):
        yield fuzzing


def test_whatever_fits_the_document_or_does_not_is_answered_as_it_says(fuzz: Fuzz):
    for operation in fuzz.operations():
        try:
            fuzz.play(operation, examples=EXAMPLES)
        except (AssertionError, ExceptionGroup) as exc:
            fuzz.failures[operation.label] = f"{operation.label}: {exc}"
    fuzz.check_well()


# By hand.

HOSTILE = [
    *("", " ", "\x00", "a\x00b", "a\r\nX-Injected: 1", "\u202e\ufeff", "ÿ" * 300, "a" * 5000),
    *("..", "../../etc/passwd", "/", "//", "%2e%2e%2f", "%00", "%", "%zz", "a?b#c", "\\..\\"),
    *("-1", "0", "9" * 400, "1e400", "NaN", "٣", "0x10", "true", "null", "[]", "{}", "';--"),
    *("latest", "@", "@-1", "*", "{session_id}", "${jndi:x}", "\U0001f4a9"),
]
"""Texts for every parameter: limits, cursors, ids, names."""


USUAL_QUERY = {"from": "0", "to": "0", "path": "a.txt", "namespace": "n", "key": "k"}
"""For what has to be there."""


def parameters_of(described: dict[str, Any], where: str) -> list[str]:
    found = described.get("parameters", ())
    return [each["name"] for each in found if each["in"] == where]


def each_operation(fuzz: Fuzz) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for template, methods in fuzz.paths.items():
        for method, described in methods.items():
            if not template.endswith("/stream"):
                yield method.upper(), template, described


def test_hostile_texts_in_paths_are_refused_or_taken_for_what_they_are(fuzz: Fuzz):
    for method, template, described in each_operation(fuzz):
        for name in parameters_of(described, "path"):
            for text in fuzz.some(HOSTILE):
                path = fuzz.place(template, **{name: quote(text, safe="")})
                if method == "DELETE" and path == fuzz.place(template):
                    continue
                fuzz.ask(method, path, template)
    fuzz.check_well()


def test_hostile_texts_in_queries_are_refused_or_taken_for_what_they_are(fuzz: Fuzz):
    for method, template, described in each_operation(fuzz):
        names = parameters_of(described, "query")
        usual = {name: USUAL_QUERY[name] for name in names if name in USUAL_QUERY}
        for name in names:
            for text in fuzz.some(HOSTILE):
                params = {**usual, name: text}
                fuzz.ask(method, fuzz.place(template), template, params=params)
            twice = [(name, "1"), (name, "2"), *usual.items()]
            fuzz.ask(method, fuzz.place(template), template, params=twice)
    fuzz.check_well()


def deep(opening: bytes, middle: bytes, closing_: bytes) -> bytes:
    return opening * 10_000 + middle + closing_ * 10_000


BODIES = [
    *(b"", b" ", b"{", b"null", b"[]", b"[{}]", b"1", b'"text"', b"\xff\xfe", b"\x00", b"{}}"),
    *(b'{"a": 1e400}', b'{"a": NaN}', b'{"a": Infinity}', b"{'a': 1}", b"\xef\xbb\xbf{}"),
    b'{"a": %s}' % (b"9" * 5000),
    b'{"a":1,"a":2}',
    deep(b"[", b"", b"]"),
    deep(b'{"a":', b"1", b"}"),
    b'{"metadata":' + deep(b'{"a":', b"1", b"}") + b"}",
    gzip.compress(b'{"name": "x"}'),
]
"""Bodies that are no JSON, or JSON that goes too far."""

MEDIA_TYPES = [
    *("application/json", "text/plain", "application/x-www-form-urlencoded", "application/msgpack"),
    *("multipart/form-data", "multipart/form-data; boundary=x", "application/json; charset=utf-16"),
    *("nonsense", "/", "application/json, text/plain", "application/x-msgpack", "text/html"),
]


VALUES: list[Any] = [
    *(
        None,
        True,
        -1,
        0,
        2**63,
        10**400,
        1e308,
        -0.0,
        "",
        "\x00",
        "\ud800",
        "a\r\nb",
        "٣",
        "ÿ" * 300,
    ),
    *(
        "a" * 20_000,
        [],
        {},
        [None],
        [[]],
        {"": ""},
        {"\x00": 1},
        {"\udfff": 1},
        {"a": {"b": [1e9]}},
    ),
    *("..", "/etc/passwd", "workspace/../x", "http://[::1", "http://0/", "file:///etc/passwd"),
]
"""What stands for each field of each body."""

TEXTS = [*(json.dumps(value) for value in VALUES)]
TEXTS += [levels * '{"a":[' + "1" + levels * "]}" for levels in (20, 120, 480)]
"""The same as JSON, and some that go deeper than others can encode."""


def test_bodies_that_are_none_are_refused(fuzz: Fuzz):
    for method, template, described in each_operation(fuzz):
        if method == "GET" or is_destructive(method, template):
            continue
        path = fuzz.place(template)
        for body in fuzz.some(BODIES):
            headers = {"Content-Type": "application/json"}
            fuzz.ask(method, path, template, content=body, headers=headers)
        if "requestBody" in described:
            for media_type in MEDIA_TYPES:
                headers = {"Content-Type": media_type}
                fuzz.ask(method, path, template, content=b'{"name": "x"}', headers=headers)
            zipped = {"Content-Encoding": "gzip", "Content-Type": "application/json"}
            body = gzip.compress(b'{"name": "x"}')
            fuzz.ask(method, path, template, content=body, headers=zipped)
    fuzz.check_well()


def fields_of(fuzz: Fuzz, described: dict[str, Any]) -> dict[str, Any]:
    """Returns the fields of a route's body, with something for those that have to be there."""
    content = described.get("requestBody", {}).get("content", {})
    schema = content.get("application/json", {}).get("schema", {})
    for each in (schema, *schema.get("anyOf", ())):
        if "$ref" in each:
            name = each["$ref"].rpartition("/")[2]
            found = fuzz.schema.raw_schema["components"]["schemas"][name]
            return dict.fromkeys(found.get("properties", {}), None)
    return {}


USUAL = {
    "action": "a.b",
    "agent_id": "a",
    "attributes": {},
    "content": "c",
    "entity_id": "e",
    "entity_type": "t",
    "input": "i",
    "key": "k",
    "name": "n",
    "namespace": "n",
    "output": "o",
    "path": "p",
    "query": "q",
    "source": "s",
    "state": {},
    "type": "fact",
    "url": "http://127.0.0.1:9/",
    "value": 1,
    "version": 0,
}
"""For fields that have to be there."""


def test_every_field_of_every_body_may_hold_anything(fuzz: Fuzz):
    for method, template, described in each_operation(fuzz):
        if is_destructive(method, template):
            continue
        fields = fields_of(fuzz, described)
        usual = {name: USUAL[name] for name in fields if name in USUAL}
        for name in fields:
            for text in fuzz.some(TEXTS):
                body = json.dumps({**usual, name: "@@"}).replace('"@@"', text).encode()
                headers = {"Content-Type": "application/json"}
                path = fuzz.place(template)
                fuzz.ask(method, path, template, content=body, headers=headers)
    fuzz.check_well()


def test_what_was_stored_can_be_listed(fuzz: Fuzz):
    """Runs after those that store: what was taken in must not spoil what lists it."""
    for method, template, described in each_operation(fuzz):
        if method == "GET":
            names = parameters_of(described, "query")
            params = {name: USUAL_QUERY[name] for name in names if name in USUAL_QUERY}
            fuzz.ask(method, fuzz.place(template), template, params=params)
    fuzz.check_well()


def test_other_verbs_and_bodies_where_none_belong_do_no_harm(fuzz: Fuzz):
    for template, methods in fuzz.paths.items():
        path = fuzz.place(template)
        for verb in ("HEAD", "OPTIONS", "TRACE", "PROPFIND", "PATCH", "PUT", "DELETE", "POST"):
            if verb.lower() not in methods:
                answer = fuzz.http.request(verb, path, headers=fuzz.headers(template))
                assert answer.status_code in (204, 404, 405), (verb, path)
                assert API_KEY not in answer.text, verb  # TRACE would repeat it.
        if "get" in methods and not template.endswith("/stream"):
            fuzz.ask("GET", path, template, content=b"a body")
    fuzz.check_well()


@pytest.mark.parametrize(
    "namespace",
    [b"", b"a" * 300, b"..", b"a/b", b"\xff", b"\xc3\xa9", b"a\tb", b"%00", b"~", b"-"],
)
def test_a_namespace_that_is_none_is_refused(fuzz: Fuzz, namespace: bytes):
    for path in ("/v1/files", "/v1/timeline", "/v1/sessions"):
        headers = {**fuzz.headers(path), "X-Namespace": namespace}
        answer = fuzz.http.get(path, headers=headers)
        assert answer.status_code in (200, 400, 404), (path, answer.text)
    fuzz.check_well()


def test_headers_that_are_there_twice_are_not_taken_for_either(fuzz: Fuzz):
    key = ("Authorization", f"Bearer {API_KEY}")
    twice = [key, ("X-Namespace", "one"), ("X-Namespace", "two")]
    assert fuzz.http.get("/v1/files", headers=twice).status_code == 400
    for name in ("Idempotency-Key", "If-Match", "Last-Event-ID", "X-Request-Id", "Content-Type"):
        headers = [key, ("X-Namespace", NAMESPACE), (name, "1"), (name, "\xff" * 300)]
        raw = [(each.encode(), value.encode("latin-1")) for each, value in headers]
        answer = fuzz.http.post("/v1/snapshots", headers=raw)
        assert answer.status_code < 500, (name, answer.text)
    fuzz.check_well()


WIRES = {
    "a chunk without a size": b"Transfer-Encoding: chunked\r\n\r\nZZ\r\nabc\r\n0\r\n\r\n",
    "a chunk of negative size": b"Transfer-Encoding: chunked\r\n\r\n-5\r\nabc\r\n0\r\n\r\n",
    "a chunk that is huge": b"Transfer-Encoding: chunked\r\n\r\n" + b"f" * 40 + b"\r\nabc\r\n",
    "two lengths": b"Content-Length: 3\r\nContent-Length: 5\r\n\r\nabcde",
    "a length and chunks": b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a negative length": b"Content-Length: -1\r\n\r\n",
    "a length of Unicode digits": "Content-Length: ٣\r\n\r\nabc".encode(),
    "a huge length": b"Content-Length: " + b"9" * 30 + b"\r\n\r\n",
    "a header without an end": b"X-Long: " + b"a" * 300_000 + b"\r\n\r\n",
    "a header without a name": b": x\r\n\r\n",
    "a line feed alone": b"X-A: b\n\n",
    "a NUL in a header": b"X-A: \x00\r\n\r\n",
}


@pytest.mark.parametrize("name", WIRES)
@pytest.mark.parametrize("first", ["PUT /files/wire.txt", "POST /v1/snapshots"])
def test_what_is_no_http_is_refused_and_the_server_goes_on(fuzz: Fuzz, name: str, first: str):
    head = f"{first} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-Namespace: wire\r\n"
    head += f"Authorization: Bearer {API_KEY}\r\n"
    told = send(fuzz.server, head.encode() + WIRES[name])
    assert not told.startswith(b"HTTP/1.1 5"), told
    assert b"Traceback" not in told
    fuzz.check_well()


@pytest.mark.parametrize(
    "target",
    [
        *(
            "/files/%",
            "/files/%zz",
            "/files/100%.txt",
            "/files/%c3",
            "/files/%ff%fe",
            "/files/a%00b",
        ),
        *("/files/%2e%2e/x", "/files/../../x", "/files//x", "/files/", "/files", "//", "/%2e%2e/"),
        *("/v1/files?path=%ff", "/v1/files?path=%00", "/v1/files?%", "/v1/files?a&&b=&=c", "*"),
        *("http://x/v1/me", "/v1/me#x", "/v1/%6de", "/v1//me", "/v1/me/", "/" + "a" * 60_000),
        *("/v1/snapshots/%2e%2e", "/v1/snapshots/%2F", "/v1/sessions/%0d%0aX: y", "/v1/sessions/ "),
    ],
)
@pytest.mark.parametrize("verb", ["GET", "PUT", "DELETE"])
def test_a_target_that_is_none_is_refused_and_the_server_goes_on(
    fuzz: Fuzz, target: str, verb: str
):
    head = f"{verb} {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-Namespace: wire\r\n"
    head += f"Authorization: Bearer {API_KEY}\r\nContent-Length: 0\r\n\r\n"
    told = send(fuzz.server, head.encode())
    assert not told.startswith(b"HTTP/1.1 5"), told
    assert not told.startswith(b"HTTP/1.1 3"), told
    assert b"Traceback" not in told
    fuzz.check_well()


def send(server: Server, request: bytes) -> bytes:
    """Sends bytes as they are, says that no more will come, and returns what comes back."""
    with socket.create_connection(("127.0.0.1", server.port), TIMEOUT_S) as wire:
        told = b""
        try:
            wire.sendall(request)
            wire.shutdown(socket.SHUT_WR)
            while piece := wire.recv(65536):
                told += piece
        except (ConnectionResetError, BrokenPipeError):
            pass  # Refused before it was read to the end.
        except OSError as exc:
            if exc.errno != errno.ENOTCONN:  # As before, found when it was shut down.
                raise
        return told
