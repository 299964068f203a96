"""The client can do everything that the server can, and asks for nothing that it cannot.

Every method of every client is called with all of its arguments. No request leaves: each is looked
up in the server's own OpenAPI document and answered with an example of what that promises. So a
route without a method, a method without a route, a parameter that has another name there and an
answer that cannot be read all fail here.
"""

import asyncio
import inspect
import io
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest

from holdfast.ids import NamespaceId, ObjectId, SnapshotId
from holdfast.model.basics import Kind, Size, SnapshotInfo
from holdfast.model.commands import unheard
from holdfast.model.names import Name
from holdfast.model.traces import Thresholds
from holdfast.model.upkeep import Policy
from holdfast.operations.timeline import ForkNamespace
from holdfast.progress import no_progress
from holdfast.sdk.admin import Operator
from holdfast.sdk.agent import Agent
from holdfast.sdk.calls import Call, Download, Feed, Group, Pages, Steps, _Described, asking
from holdfast.sdk.content import Packed
from holdfast.sdk.groups.exchange import Exchange
from holdfast.sdk.groups.store import StoreSnapshot
from holdfast.sdk.lines import Line
from holdfast.server.app import make_app, open_vault
from holdfast.server.config import configure
from holdfast.server.textprocesses import TextProcesses
from holdfast.wire.exchange import ChangesBetween, CommitRequest, MissingAnswer, encode

Json = dict[str, Any]
Operation = tuple[str, str]

VENDORS = "a word of another vendor's client, which has its own"
SAME = "another way to what a method does already"
WATCHED = "for what looks after the process: balancers, dashboards, monitors"
BROWSERS = "for people in a browser, who have no key at hand"
UNKNOWN = "for programs that have no key yet: `holdfast.sdk.login`"

WITHOUT_METHOD: dict[str, str] = {
    "GET /": WATCHED,
    "GET /health": WATCHED,
    "GET /health/live": WATCHED,
    "GET /health/ready": WATCHED,
    "GET /metrics": WATCHED,
    "GET /console/session": BROWSERS,
    "POST /console/session": BROWSERS,
    "DELETE /console/session": BROWSERS,
    "POST /v1/auth/device/start": UNKNOWN,
    "POST /v1/auth/device/poll": UNKNOWN,
    "POST /exec": VENDORS,
    "POST /v1/exec": VENDORS,
    "POST /write": VENDORS,
    "POST /delete": VENDORS,
    "GET /files/{}": VENDORS,
    "PUT /files/{}": VENDORS,
    "GET /v1/files": VENDORS,
    "GET /v1/files/content": VENDORS,
    "GET /v1/workspaces/{}/webhooks/stream": VENDORS,
    "GET /v1/dashboard/keys": VENDORS,
    "GET /v1/dashboard/stats": VENDORS,
    "POST /v1/dashboard/keys": VENDORS,
    "DELETE /v1/dashboard/keys/{}": VENDORS,
    "GET /v1/traces/sessions/{}/traces": VENDORS,
    "GET /v1/sessions/{}/traces": VENDORS,
    "GET /v1/sessions/{}/context": VENDORS,
    "GET /v1/sessions/{}/history": VENDORS,
    "POST /v1/sessions/{}/state": VENDORS,
    "POST /v1/sessions/{}/rollback": VENDORS,
    "POST /v1/sessions/{}/memories": VENDORS,
    "POST /v1/sessions/{}/memories/search": VENDORS,
    "PUT /v1/memories/{}": VENDORS,
    "GET /v1/memories/search": VENDORS,
    "GET /v1/snapshots/{}": SAME,
    "GET /v1/snapshots/{}/files": SAME,
    "GET /v1/snapshots/{}/files/content": SAME,
    "GET /v1/store/value": SAME,
}
ALIASES = re.compile(r"/v1/memory(?=/|$)")
"""What some clients call `/v1/memories`."""

RAW = {"path_b64": "sent for what is not UTF-8"}
RAW_AFTER = {"starting_after_b64": "sent for what is not UTF-8"}

NOT_SENT: dict[str, dict[str, str]] = {
    "GET /v1/history": dict.fromkeys(["key", "name_b64", "namespace"], "sent for other names"),
    "GET /v1/files/stat": RAW,
    "GET /v1/files/raw": RAW,
    "GET /v1/files/grep": RAW,
    "GET /v1/files/list": {**RAW, **RAW_AFTER, "prefix_b64": "sent for what is not UTF-8"},
    "GET /v1/files/glob": RAW_AFTER,
    "GET /v1/diff/text": RAW,
    "GET /v1/memories": dict.fromkeys(["query", "threshold", "top_k", "type"], VENDORS),
    "GET /v1/traces": dict.fromkeys(["start_time", "end_time"], VENDORS),
    "GET /v1/workspaces/{}/traces": dict.fromkeys(["start_time", "end_time"], VENDORS),
    "GET /v1/workspaces/{}/events/stream": {"last_event_id": "it is sent as a header"},
}
"""Query parameters that no method sends."""

NOT_GIVEN: dict[str, dict[str, str]] = {
    "GetContext": {"turn_order": VENDORS},
    "AddMemory": {"memory_type": VENDORS},
    "CreateSession": {"never_expires": "said where no ttl_seconds is given"},
    "ForkSession": dict.fromkeys(["at_turn_id", "new_agent_id"], VENDORS),
    "UpdateMemory": {"memory_type": VENDORS},
    "RollbackState": dict.fromkeys(
        ["count", "reasoning", "target_turn_id", "turn_count", "turn_id"], VENDORS
    ),
    "SearchMemories": dict.fromkeys(["top_k", "type"], VENDORS),
    "RestoreSnapshot": {"keep": "goes with no choice of a part, which is what is sent here"},
    "UpdateState": dict.fromkeys(["reason", "updates"], VENDORS),
    "ReplaceState": dict.fromkeys(["reason", "updates"], VENDORS),
}
"""Fields of bodies that no method fills in."""


# The server's document.


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> Json:
    config = configure({"HOLDFAST_DATA": str(tmp_path_factory.mktemp("vault"))})
    with closing(open_vault(config)) as vault:
        return json.loads(asyncio.run(ask(make_app(config, vault, TextProcesses()))))


async def ask(app: Any) -> bytes:
    transport = httpx2.ASGITransport(app=app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
        return (await client.get("/openapi.json")).raise_for_status().content


def plain(path: str) -> str:
    """Returns a path without the names of its parts; `-` stands for a namespace's."""
    return re.sub(r"\{[^}]*\}|(?<=/namespaces/)-", "{}", path)


@pytest.fixture(scope="module")
def operations(document: Json) -> dict[Operation, Json]:
    return {
        (method.upper(), plain(path)): operation
        for path, item in document["paths"].items()
        for method, operation in item.items()
        if not ALIASES.match(path)
    }


def test_no_two_operations_have_one_name(document: Json) -> None:
    names = Counter(
        operation["operationId"]
        for item in document["paths"].values()
        for operation in item.values()
    )
    assert [name for name, count in names.items() if count > 1] == []


def test_an_answer_that_may_be_of_two_kinds_may_be_of_both(document: Json) -> None:
    schemas = [
        content["schema"]
        for item in document["paths"].values()
        for operation in item.values()
        for answer in operation["responses"].values()
        for content in answer.get("content", {}).values()
    ]
    assert [schema for schema in schemas if "oneOf" in schema] == []
    # What answers a question, and what there is: both may be an empty list.
    assert any(len(schema.get("anyOf", ())) == 2 for schema in schemas)


# Examples of what it promises.


TEXTS = {
    "level": "healthy",
    "what": "namespace",
    "status": "running",
    "cadence": "every",
    "plane": "files",
    "change": "added",
    "root": "ab" * 32,
    "old_root": "ab" * 32,
    "files_root": "ab" * 32,
    "object_id": "ab" * 32,
    "erasure_id": "era-" + "a" * 16,
    "type": "connected",
    "timestamp": "2026-01-02T03:04:05Z",
}
KINDS = {"VersionAnswer": "created", "FileAnswer": "file"}


@dataclass
class Examples:
    """Makes the least that a schema allows."""

    schemas: Json
    told: set[str] = field(default_factory=set[str])

    def of(self, schema: Json, *, name: str = "", title: str = "") -> Any:  # noqa: PLR0911 - one for each kind
        if "$ref" in schema:
            title = schema["$ref"].rpartition("/")[2]
            return self.of(self.schemas[title], name=name, title=title)
        if "anyOf" in schema:
            if name in ("next_cursor", "next_before"):
                # There is one more page, and then none.
                self.told ^= {title}
                further = self.of(schema["anyOf"][0])
                return further if title in self.told else None
            return self.of(schema["anyOf"][0], name=name, title=title)
        if "enum" in schema:
            return schema["enum"][0]
        if schema.get("type") == "object":
            fields = schema.get("properties", {})
            return {each: self.of(fields[each], name=each, title=title) for each in fields}
        if schema.get("type") == "array":
            # One of each: but no list within itself.
            return [] if name == "forks" else [self.of(schema.get("items", {}), name=name)]
        if schema.get("type") == "string":
            is_instant = schema.get("format") == "date-time"
            return "2026-01-02T03:04:05Z" if is_instant else self._text(name, title)
        return {"integer": 1, "number": 1, "boolean": False}.get(schema.get("type", ""))

    def _text(self, name: str, title: str) -> str:
        if name == "kind":
            return KINDS.get(title, "text")
        return TEXTS.get(name, "text")


# A sender that sends nothing.


SNAPSHOT = SnapshotInfo(
    id=SnapshotId("snap-0123456789abcdef0123"),
    namespace_id=NamespaceId(0),
    number=1,
    kind=Kind.SNAPSHOT,
    root=ObjectId(bytes(32)),
    parent=None,
    created_at=datetime.now(UTC),
    size=Size(),
)

PACKED: dict[str, msgspec.Struct] = {
    "/v1/exchange/missing": MissingAnswer(ids=b""),
    "/v1/exchange/changes": ChangesBetween(root=b"", edits=[], has_more=False),
}
"""Answers that are no JSON, and that the document calls bytes."""


@dataclass
class Recorder:
    """A sender that notes every call and answers it as the document says."""

    operations: dict[Operation, Json]
    examples: Examples
    line: Line = field(
        default_factory=lambda: Line(
            url="http://127.0.0.1:9", headers={"X-Namespace": "alice"}, timeout_s=1, retries=0
        )
    )
    calls: list[Call[Any]] = field(default_factory=list[Call[Any]])

    def speaking(self, _line: Line) -> "Recorder":
        return self

    def send(self, call: Call[Any]) -> Any:
        self.calls.append(call)
        operation = self.operations.get((call.method, plain(call.path)))
        assert operation is not None, f"{call.method} {call.path} is no route"
        return call.read(self._answer(call, operation))

    def _answer(self, call: Call[Any], operation: Json) -> bytes:
        if call.path in PACKED:
            return encode(PACKED[call.path])
        good = next(answer for status, answer in operation["responses"].items() if status < "300")
        ((media, shape),) = good.get("content", {"": {}}).items()
        if media != "application/json":
            return b""
        schema = shape.get("schema", {})
        if call.query.get("files"):
            schema = schema["anyOf"][1]  # Of files alone another value is told.
        return msgspec.json.encode(self.examples.of(schema))

    def run(self, steps: Steps[Any]) -> Any:
        answer = None
        while True:
            try:
                answer = self.send(steps.send(answer))
            except StopIteration as done:
                return done.value

    def pages(self, pages: Pages[Any]) -> None:
        self.send(pages.call(None, 1))
        # It goes on after a pair, a text or a number.
        cursors: list[Any] = [("n", "k"), "k", 1]
        for cursor in cursors:
            with suppress(ValueError):
                self.send(pages.call(cursor, 1))
                return
        raise AssertionError(pages)

    def stream(self, call: Call[bytes]) -> None:
        self.send(call)

    def save(self, download: Download[Any]) -> None:
        self.send(download.call)

    def listen(self, feed: Feed[Any]) -> None:
        self.send(feed.call("event-1"))


# Every method, with every argument.


GIVEN: Json = {
    "action": "tool.called",
    "actor": "somebody",
    "add_only": True,
    "admin": False,
    "after": datetime.now(UTC),
    "after_changes": 5,
    "agent_id": "helper",
    "all": True,
    "anchor": "1:ab",
    "api_key": "key",
    "arguments": {"a": 1},
    "as_name": "another",
    "at": SNAPSHOT,
    "attributes": {"a": 1},
    "base": SNAPSHOT,
    "below": 5,
    "before": 5,
    "call_id": "call-1",
    "command": "make test",
    "content": "text",
    "context_lines": 1,
    "conversation": True,
    "counts": True,
    "created_after": datetime.now(UTC),
    "created_before": datetime.now(UTC),
    "data": b"data",
    "default": 1,
    "delivery_id": "delivery-1",
    "depth": 1,
    "description": "text",
    "details": {"a": 1},
    "dry_run": True,
    "embed": True,
    "enabled": True,
    "encoding": "utf-8",
    "entity_id": "entity-1",
    "entity_type": "order",
    "error": "it broke",
    "events": ["snapshot.created"],
    "every": timedelta(hours=1),
    "expected": SNAPSHOT,
    "expected_turns": 1,
    "expected_version": 1,
    "expires_in": timedelta(hours=1),
    "include_state": True,
    "include_turns": True,
    "initial_state": {"a": 1},
    "input": "hello",
    "items": [("n", "k", 1)],
    "keep": None,
    "keep_daily": 1,
    "keep_last": 1,
    "keep_mine": True,
    "keep_traces_days": 1,
    "keep_weekly": 1,
    "key": "k",
    "key_id": "key-1",
    "kind": "snapshot",
    "label": "label",
    "last_event_id": "event-0",
    "limit": 1,
    "memory_id": "memory-1",
    "memory_limit": 1,
    "metadata": {"a": "1"},
    "mode": 0o600,
    "modified_at": datetime.now(UTC),
    "name": "name",
    "network": True,
    "names": bytes(32),
    "namespace": "n",
    "new": SNAPSHOT,
    "now": True,
    "number": 1,
    "old": SNAPSHOT,
    "only_if_changed": True,
    "operation": SNAPSHOT,
    "order": "asc",
    "other": "other",
    "output": "hi",
    "overwrite": True,
    "pack": b"pack",
    "pairs": [("n", "k")],
    "path": "a/b",
    "paths": ["a"],
    "pin": True,
    "pinned": True,
    "planes": ["files"],
    "policy": Policy(keep_last=1),
    "prefer": "ours",
    "prefix": "a",
    "q": "words",
    "query": "question",
    "quota_bytes": 1,
    "rate_limit": 1,
    "raw": True,
    "reason": "reason",
    "reasoning": "reasoning",
    "recursive": True,
    "resource_id": "resource-1",
    "resource_type": "tool",
    "reverse": True,
    "rollback": True,
    "rollback_on_failure": True,
    "row_id": "row-1",
    "schedule_id": "schedule-1",
    "scope": "session",
    "session_id": "session-1",
    "since": datetime.now(UTC),
    "since_version": 1,
    "snapshot": SNAPSHOT,
    "snapshot_id": SNAPSHOT.id,
    "source": "a",
    "starting_after": "last-1",
    "state": {"a": 1},
    "state_after": {"a": 1},
    "cursor": "YQ==.0.1",
    "pattern": "a",
    "start": 1,
    "length": 2,
    "glob": "*.py",
    "bucket": "hour",
    "regex": True,
    "ignore_case": True,
    "state_before": {"a": 1},
    "status": "running",
    "stdin": "text",
    "tags": ["tag"],
    "timeout_s": 5.0,
    "target": "b",
    "task": "task-1",
    "task_id": "task-1",
    "task_status": "failed",
    "threshold": 0.5,
    "thresholds": Thresholds(),
    "expected_root": ObjectId(bytes(32)),
    "told": CommitRequest(name="a", base=b"", root=b""),
    "trace_id": "trace-1",
    "ttl_seconds": 60,
    "turn_id": "turn-1",
    "turn_limit": 1,
    "type": "general",
    "types": ["a"],
    "until": datetime.now(UTC),
    "url": "https://example.com",
    "user_code": "ABCD-EFGH",
    "user_id": "ada",
    "value": 1,
    "version": 1,
    "wants": {b"a": [bytes(32)]},
    "webhook_id": "webhook-1",
    "when_quiet": timedelta(hours=1),
    "window": timedelta(hours=1),
    "with_content": True,
    "with_": ["changes"],
    "remote": "git@example.com:a/b.git",
    "branch": "main",
    "private_key": "key",
    "user": "ada",
    "password": "secret",
    "patterns": ["*.pem"],
    "file_bytes": 1,
    "scan_secrets": True,
    "on_tasks": True,
    "paused": True,
    "fingerprint": "SHA256:abc",
}

NAMED: Json = {"names": [Name.file("b")], "except_": [Name.file("a")]}

WRITING: Json = {"delete": [("n", "k")], "expected": [("n", "k", "absent")], "keep": True}
BATCH: Json = {**WRITING, "set": [("n", "k", 1)], "put": [("n", "k", b"\1")], "get": [("n", "k")]}

SPECIAL: dict[tuple[str, str], Json] = {
    # Where a word means something else than elsewhere.
    ("Agent", "restore"): NAMED,
    ("Snapshots", "restore"): NAMED,
    ("Agent", "diff"): {"limit": 3},
    ("Agent", "exec"): {"output": unheard, "task": "tidy up"},
    ("Traces", "list"): {"before": datetime.now(UTC)},
    ("WorkspaceTraces", "list"): {"before": datetime.now(UTC)},
    ("FilesReader", "list"): {"after": "a"},
    ("FilesReader", "iter"): {"after": "a"},
    ("Files", "list"): {"after": "a"},
    ("FilesReader", "glob"): {"after": "a"},
    ("Files", "glob"): {"after": "a"},
    ("Files", "iter"): {"after": "a"},
    ("StoreReader", "keys"): {"after": "k"},
    ("Store", "keys"): {"after": "k"},
    ("StoreReader", "items"): {"after": "k"},
    ("Store", "items"): {"after": "k"},
    ("Store", "set"): {"expected": "absent"},
    ("Store", "put"): {"expected": "absent"},
    ("Store", "set_many"): WRITING,
    ("Store", "put_many"): {**WRITING, "items": [("n", "k", b"\1")]},
    ("StoreReader", "batch"): BATCH,
    ("Store", "batch"): BATCH,
    ("Store", "append"): {"values": [1]},
    ("Files", "write"): {"expected": "absent"},
    ("Files", "write_many"): {
        "items": [("a", b"data")],
        "delete": ["b"],
        "expected": [("a", "absent")],
    },
    ("Exchange", "changes"): {"old": "snap-1", "new": "snap-2", "after": b"a"},
    ("Exchange", "content"): {"snapshot": "snap-1"},
    ("Sessions", "diff"): {"old": 0, "new": 1},
    ("Entities", "update"): {},
    ("Schedules", "create"): {},
}


def groups(recorder: Recorder) -> Iterator[Group[Any]]:
    """Yields everything that has methods."""
    clients: list[Group[Any]] = [Agent(recorder), Operator(recorder, workspace_id="me")]
    for client in clients:
        yield client
        yield from (each for each in vars(client).values() if isinstance(each, Group))
    moment = clients[0].at(SNAPSHOT)
    yield moment
    yield from (each for each in vars(moment).values() if isinstance(each, Group))
    yield StoreSnapshot(recorder, SNAPSHOT)
    yield Exchange(recorder)


def play(recorder: Recorder, local: Path) -> None:
    """Calls every method of every client."""
    (local / "a").write_bytes(b"data")
    for group in groups(recorder):
        for name in dir(type(group)):
            member = inspect.getattr_static(type(group), name)
            if not isinstance(member, _Described):
                continue
            wanted = list(inspect.signature(member.describe).parameters)[1:]
            given = GIVEN | SPECIAL.get((type(group).__name__, name), {})
            arguments = {each: given[each] for each in wanted if each != "progress"}
            if name in {"import_", "import_files", "upload"}:
                arguments["source"] = local / "a"
            if name in {"export", "export_files", "download", "export_audit"}:
                arguments["target"] = io.BytesIO()
            method = getattr(group, name, None)
            if callable(method):
                method(**arguments)
    recorder.send(asking(ForkNamespace("name", at=SNAPSHOT)))


@pytest.fixture(scope="module")
def calls(
    document: Json,
    operations: dict[Operation, Json],
    tmp_path_factory: pytest.TempPathFactory,
) -> list[Call[Any]]:
    recorder = Recorder(operations, Examples(document["components"]["schemas"]))
    play(recorder, tmp_path_factory.mktemp("local"))
    return recorder.calls


def place_of(call: Call[Any]) -> Operation:
    return call.method, plain(call.path)


def test_every_operation_has_a_method(
    operations: dict[Operation, Json], calls: list[Call[Any]]
) -> None:
    called = {place_of(each) for each in calls}
    missing = {f"{method} {path}" for method, path in operations.keys() - called}
    assert missing == set(WITHOUT_METHOD)


def test_every_part_of_a_path_is_filled_in(calls: list[Call[Any]]) -> None:
    for each in calls:
        assert set(re.findall(r"\{(\w+)\}", each.path)) == set(each.place), each.path
        assert all(each.place.values()), each.path


def test_every_query_parameter_is_known_by_its_name(
    operations: dict[Operation, Json], calls: list[Call[Any]]
) -> None:
    for each in calls:
        known = parameters(operations[place_of(each)], "query")
        assert set(each.query) <= known, each.path


def test_every_query_parameter_can_be_given(
    operations: dict[Operation, Json], calls: list[Call[Any]]
) -> None:
    sent = defaultdict[Operation, set[str]](set)
    for each in calls:
        sent[place_of(each)] |= {name for name, value in each.query.items() if value is not None}
    left_out = {
        # Clients name their namespace in a header.
        f"{method} {path}": parameters(operations[method, path], "query") - names - {"in"}
        for (method, path), names in sent.items()
    }
    assert {place: names for place, names in left_out.items() if names} == {
        place: set(names) for place, names in NOT_SENT.items()
    }


def parameters(operation: Json, where: str) -> set[str]:
    return {each["name"] for each in operation.get("parameters", []) if each["in"] == where}


def test_every_body_is_the_one_that_the_route_takes(
    document: Json, operations: dict[Operation, Json], calls: list[Call[Any]]
) -> None:
    given = defaultdict[str, set[str]](set)
    for each in calls:
        wanted = operations[place_of(each)].get("requestBody")
        if each.body is None and each.content is None:
            assert wanted is None or not wanted.get("required"), each.path
            continue
        assert wanted is not None, each.path
        ((media, shape),) = wanted["content"].items()
        if each.content is not None:
            assert media != "application/json", each.path
            continue
        schema = shape["schema"]
        schema = schema.get("anyOf", [schema])[0]
        title = type(each.body).__name__
        assert schema["$ref"].rpartition("/")[2] == title, each.path
        sent = msgspec.to_builtins(each.body)
        fields = document["components"]["schemas"][title]["properties"]
        assert set(sent) <= set(fields), each.path
        given[title] |= {name for name, value in sent.items() if value is not None}
    left_out = {
        title: set(document["components"]["schemas"][title]["properties"]) - names
        for title, names in given.items()
    }
    assert {title: names for title, names in left_out.items() if names} == {
        title: set(names) for title, names in NOT_GIVEN.items()
    }


def test_no_exception_is_for_something_that_is_gone(operations: dict[Operation, Json]) -> None:
    there = {f"{method} {path}" for method, path in operations}
    assert set(WITHOUT_METHOD) <= there
    assert set(NOT_SENT) <= there


def test_a_folder_is_packed_before_anybody_is_asked(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/a").write_bytes(b"content of a")
    content = Packed(tmp_path / "folder", progress=no_progress)
    assert not content.is_ready
    with content.made():
        assert content.is_ready
        size, sent = content.measure(), b"".join(content)
        assert size == len(sent)
        assert b"content of a" in sent
        assert content.is_repeatable
        assert b"".join(content) == sent
    assert not content.is_ready
