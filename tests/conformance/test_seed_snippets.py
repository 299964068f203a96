"""The Python of other products' pages, against our server, with our import in place of theirs.

What changes is the import and the keys; the address of the server is in the environment. The same
lines run twice: as they stand with `Client`, and awaited with `AsyncClient`. What comes of them is
looked at through another client. The snippets of two pages are where their embedded forms are
tested, `tests/acceptance/test_seed_*.py`.
"""

import ast
import asyncio
import importlib.util
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, ModuleType, SimpleNamespace
from typing import Any

import pytest

import holdfast
from holdfast.model.sessions import SessionInfo
from holdfast.testing.servers import Server

PAGES = Path(__file__).parents[1] / "acceptance"

CAPTURE = """\
from trove_sdk import TroveClient
trove = TroveClient(api_key="trove-sk-...", namespace="alice")
snap = trove.create_snapshot(label="before-quarterly-rebuild")
print(snap.snapshot_id, snap.size_bytes, snap.created_at)
"""

RESTORE = """\
files_restored = trove.restore_snapshot("snap-1f3a2c…")
print(f"Rolled back. {files_restored} files restored.")
for s in trove.list_snapshots():
    print(s.created_at, s.label or "(no label)", s.snapshot_id)
"""

AUDIT = """\
from trove_sdk import TroveAdminClient
admin = TroveAdminClient(api_key="trove-admin-...", workspace_id="ws-abc123")
admin.create_webhook(
url="https://api.yourapp.com/trove-events",
events=["snapshot.created", "snapshot.restored"],
namespace="customer-acme",
)
"""

OURS = {
    "plain": {
        "from trove_sdk import TroveClient": "from holdfast import Client as TroveClient",
        "from trove_sdk import TroveAdminClient": (
            "from holdfast import AdminClient as TroveAdminClient"
        ),
    },
    "awaited": {
        "from trove_sdk import TroveClient": "from holdfast import AsyncClient as TroveClient",
        "from trove_sdk import TroveAdminClient": (
            "from holdfast import AsyncAdminClient as TroveAdminClient"
        ),
    },
}

SENDING = {"sb", "trove", "admin", "store"}
"""Names in snippets whose methods are coroutines of an asynchronous client."""

ASKED = {"size_bytes", "keys", "diff"}
"""What a snapshot of the store looks up when it is asked."""


class Awaits(ast.NodeTransformer):
    """Puts `await` before everything that an asynchronous client sends."""

    def __init__(self) -> None:
        self.of_store = False

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        root: ast.expr = node.func
        if not isinstance(root, ast.Attribute):
            return node
        while isinstance(root, ast.Attribute):
            root = root.value
        is_sent = isinstance(root, ast.Name) and root.id in SENDING
        return ast.Await(node) if is_sent else node

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        self.generic_visit(node)
        inner = node.value.func if isinstance(node.value, ast.Call) else node.value
        if isinstance(inner, ast.Attribute) and self.of_store and inner.attr in ASKED:
            node.value = ast.Await(node.value)
        return node


class Player:
    """Runs snippets: as they stand, or with every call awaited, all in one event loop."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._runner = asyncio.Runner()

    def run(self, snippet: str, *, of_store: bool = False, **names: Any) -> SimpleNamespace:
        """Runs a snippet with these names; returns all that it has named, and what it showed.

        `shown` are the values of the expressions that stand alone.
        """
        for theirs, ours in OURS[self.kind].items():
            snippet = snippet.replace(theirs, ours)
        shown = list[Any]()
        names["shown_"] = shown.append
        tree = ast.parse(snippet)
        if self.kind == "awaited":
            transformer = Awaits()
            transformer.of_store = of_store
            tree = transformer.visit(tree)
        for statement in ast.walk(tree):
            if isinstance(statement, ast.Expr):
                call = ast.Name("shown_", ast.Load())
                statement.value = ast.Call(call, [statement.value], [])
        self._play(
            compile(
                ast.fix_missing_locations(tree),
                "page",
                "exec",
                flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT,
            ),
            names,
        )
        return SimpleNamespace(**names, shown=shown)

    def _play(self, code: CodeType, names: dict[str, Any]) -> None:
        coroutine = eval(code, names)
        if coroutine is not None:
            self._runner.run(coroutine)

    def wait_for(self, found: Any) -> Any:
        return self._runner.run(found) if asyncio.iscoroutine(found) else found

    def close(self) -> None:
        self._runner.close()


@pytest.fixture(params=["plain", "awaited"])
def player(request: pytest.FixtureRequest) -> Iterator[Player]:
    made = Player(request.param)
    yield made
    made.close()


@pytest.fixture
def look(
    server: Server, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[holdfast.Client]:
    """A client that looks at what came of it; the environment names the server for all."""
    monkeypatch.setenv("HOLDFAST_URL", server.url)
    monkeypatch.setenv("HOLDFAST_API_KEY", server.api_key)
    monkeypatch.setenv("HOLDFAST_NAMESPACE", namespace)
    with holdfast.Client.from_env() as client:
        yield client


@pytest.fixture
def sb(player: Player, look: holdfast.Client) -> Iterator[Any]:
    """`StateBase` of the pages: a client that the environment says everything about."""
    assert look.name is not None
    kind = holdfast.Client if player.kind == "plain" else holdfast.AsyncClient
    made = kind.from_env()
    yield made
    player.wait_for(made.close())


def loaded(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"page_{name}", PAGES / f"test_seed_{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


STATEBASE, SWARMSTATE = loaded("statebase"), loaded("swarmstate")


# Snapshots of files.


def test_files_are_captured_and_come_back(
    player: Player, look: holdfast.Client, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    assert look.name is not None
    look.files.write_many([("report.md", "good"), ("data/q1.csv", "1,2,3")])
    capture = CAPTURE.replace("trove-sk-...", server.api_key).replace("alice", look.name)
    told = player.run(capture)
    assert (told.snap.label, told.snap.size_bytes) == ("before-quarterly-rebuild", 9)
    printed = capsys.readouterr().out.split()
    assert printed[:2] == [told.snap.snapshot_id, "9"]
    look.files.delete("data", recursive=True)
    look.files.write("report.md", "rubbish")
    look.snapshot()
    done = player.run(RESTORE.replace("snap-1f3a2c…", told.snap.snapshot_id), trove=told.trove)
    assert done.files_restored == 2
    assert look.files.read("report.md") == b"good"
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Rolled back. 2 files restored."
    assert [line.split()[-2:] for line in lines[1:]] == [
        ["label)", look.list_snapshots()[0].id],
        ["before-quarterly-rebuild", told.snap.snapshot_id],
    ]
    player.wait_for(told.trove.close())


def test_a_webhook_is_made_for_the_audit(
    player: Player, look: holdfast.Client, server: Server
) -> None:
    assert look.name is not None
    audit = AUDIT.replace("trove-admin-...", server.admin_key)
    audit = audit.replace("ws-abc123", server.workspace_id)
    audit = audit.replace("customer-acme", look.name)
    told = player.run(audit)
    (made,) = told.shown
    assert made.signing_secret
    with holdfast.AdminClient(server.admin_key) as admin:
        found = admin.webhooks.get(made.webhook_id)
        assert found.url == "https://api.yourapp.com/trove-events"
        assert found.events == ["snapshot.created", "snapshot.restored"]
        assert found.namespace == look.name
        admin.delete_webhook(made.webhook_id)
    player.wait_for(told.admin.close())


# A snapshot after every task.


def test_every_task_leaves_a_snapshot_that_can_be_gone_back_to(
    player: Player, look: holdfast.Client, sb: Any
) -> None:
    def tidy(name: str) -> None:
        look.files.write("notes", name)

    async def tidy_async(name: str) -> None:
        await asyncio.to_thread(tidy, name)

    work = sb.checkpointed(tidy if player.kind == "plain" else tidy_async)
    for name in ("first", "second", "third"):
        player.wait_for(work(name))
    taken = [each for each in look.snapshots.list() if each.task_id and each.label == work.__name__]
    assert len(taken) == 3
    look.restore(taken[1])
    assert look.files.read("notes") == b"second"


# Snapshots and diffs of a store.


def test_a_store_is_captured_and_rolled_back(
    player: Player, look: holdfast.Client, sb: Any
) -> None:
    ss = SimpleNamespace(Store=lambda: sb.store)
    told = player.run(SWARMSTATE.TAKE_AND_ROLL_BACK, ss=ss, of_store=True)
    assert [each for each in told.shown if isinstance(each, dict)] == [{"step": 4}, {"step": 3}]
    assert look.store.get("workflow", "onboarding") == {"step": 3}


def test_a_snapshot_of_a_store_knows_what_it_is(
    player: Player, look: holdfast.Client, sb: Any
) -> None:
    look.store.set_many([("a", "x", 1), ("b", "y", [1, 2])])
    before = look.snapshot()
    told = player.run(SWARMSTATE.WHAT_IT_KNOWS, store=sb.store, of_store=True)
    name, instant, parent, size, keys = told.shown
    assert name == told.snap.id == look.get_snapshot("latest").id
    assert instant == look.get_snapshot("latest").created_at.timestamp()
    assert parent == before.id
    assert (size, keys) == (4, [("a", "x"), ("b", "y")])


def test_two_snapshots_of_a_store_are_compared(
    player: Player, look: holdfast.Client, sb: Any
) -> None:
    look.store.set_many([("n", "changed_key", 1), ("n", "removed_key", 2), ("n", "same", 3)])
    told = player.run(SWARMSTATE.WHAT_CHANGED, store=sb.store, of_store=True)
    assert told.shown[-1] == {
        "added": [("n", "added_key")],
        "removed": [("n", "removed_key")],
        "changed": [("n", "changed_key")],
    }


# Checkpoints and rollbacks of sessions.


def at_version(look: holdfast.Client, number: int) -> SessionInfo:
    """Makes a session that is at a version; each is told apart by its state."""
    session = look.sessions.create(agent_id="travel-agent", initial_state={"version": 0})
    for n in range(1, number + 1):
        look.sessions.update_state(session.id, {"version": n, f"only since {n}": True})
    return look.sessions.get(session.id)


def states(look: holdfast.Client, session_id: str) -> list[Any]:
    return [each.state for each in look.sessions.history(session_id)]


def test_the_problem_needs_no_client(player: Player) -> None:
    assert player.run(STATEBASE.CORRUPTED).state["destination"] is None


def test_every_update_is_a_version(player: Player, look: holdfast.Client, sb: Any) -> None:
    session = player.run(STATEBASE.EVERY_UPDATE_IS_A_VERSION, sb=sb).session
    assert session.state == {"step": "gathering_info"}
    history = look.sessions.history(session.id)
    assert [each.number for each in history] == [0, 1, 2]
    assert history[2].state == {
        "step": "confirming_booking",
        "destination": "NYC",
        "flight_id": "UA123",
    }
    assert [each.reasoning for each in history[1:]] == [
        "User provided destination",
        "User selected flight",
    ]
    assert look.traces.get(history[1].trace_id or "").action == "state.updated"


def test_a_rollback_restores_and_keeps_what_was_between(
    player: Player, look: holdfast.Client, sb: Any
) -> None:
    session = at_version(look, 5)
    before = states(look, session.id)
    restored = player.run(STATEBASE.ROLL_BACK, sb=sb, session=session).restored_state
    assert (restored.version, restored.state) == (6, before[3])
    assert states(look, session.id) == [*before, before[3]]


def test_checkpoints_around_tools_confirmations_and_risks(
    player: Player, look: holdfast.Client, sb: Any
) -> None:
    session, deleted = at_version(look, 0), list[str]()
    weather: Callable[..., dict[str, float]] = lambda city: {city: 17.5}  # noqa: E731 - theirs
    player.run(STATEBASE.AFTER_TOOL_CALLS, sb=sb, session=session, call_weather_api=weather)
    player.run(STATEBASE.AFTER_CONFIRMATION, sb=sb, session=session, user_confirmed=True)
    player.run(
        STATEBASE.BEFORE_RISKY_OPERATIONS,
        sb=sb,
        session=session,
        current_data={"name": "Ada"},
        delete_user_data=deleted.append,
        user_id="ada",
    )
    assert deleted == ["ada"]
    assert [each.reasoning for each in look.sessions.history(session.id)] == [
        "initial state",
        "Cached weather API result",
        "User confirmed booking",
        "Checkpoint before deletion",
    ]
    assert look.sessions.get_state(session.id).state["pre_delete_snapshot"] == {"name": "Ada"}


def test_of_two_turns_the_second_is_a_checkpoint(
    player: Player, look: holdfast.Client, sb: Any
) -> None:
    session = at_version(look, 1)
    player.run(STATEBASE.TURNS, sb=sb, session=session)
    second, first = look.sessions.list_turns(session.id, include_state=True)
    assert first.state_before == first.state_after == session.state
    assert second.state_after == {"destination": "NYC", "searching": True}
    assert [each.kind for each in look.sessions.history(session.id)] == [
        "created",
        "updated",
        "turn",
    ]


def test_recovery_by_another_prompt_a_human_or_another_model(
    player: Player, look: holdfast.Client, sb: Any
) -> None:
    session, asked, notified = at_version(look, 8), dict[str, Any](), list[str]()
    llm = SimpleNamespace(generate=asked.update)
    player.run(STATEBASE.RETRY, sb=sb, session=session, llm=llm)
    assert asked["context"].state["version"] == 4
    player.run(STATEBASE.ESCALATE, sb=sb, session=session, notify_human_agent=notified.append)
    assert notified == [session.id]
    state = look.sessions.get_state(session.id).state
    assert (state["version"], state["escalated_to_human"]) == (5, True)
    anthropic = SimpleNamespace(messages=SimpleNamespace(create=asked.update))
    player.run(
        STATEBASE.OTHER_MODEL, sb=sb, session=session, anthropic=anthropic, user_message="to NYC"
    )
    history = look.sessions.history(session.id)
    assert history[-1].reasoning == "GPT-4 failed, Claude succeeded"
    assert len(history) == 9 + 1 + 2 + 2, "nothing that failed is lost"


def test_a_fork_is_a_new_session_with_the_state_of_a_version(
    player: Player, look: holdfast.Client, sb: Any
) -> None:
    origin = at_version(look, 10)
    forked = player.run(STATEBASE.FORK, sb=sb, original_session=origin).forked_session
    debugged = player.run(STATEBASE.DEBUG, sb=sb, production_session=origin).debug_session
    for made, version in ((forked, 3), (debugged, 9)):
        assert made.id != origin.id
        assert made.state == states(look, origin.id)[version]
        assert made.metadata == {"forked_from": origin.id, "forked_version": version}
    look.sessions.update_state(debugged.id, {"tried": "everything"})
    assert look.sessions.get(origin.id) == origin


def test_how_often_is_the_callers_choice(player: Player, look: holdfast.Client, sb: Any) -> None:
    session = at_version(look, 0)
    given = {"sb": sb, "session_id": session.id, "state": {"n": 1}}
    player.run(STATEBASE.PARANOID, **given)
    player.run(STATEBASE.BALANCED, **given, is_critical_operation=True)
    player.run(STATEBASE.OPTIMIZED, **given, user_requested_save=False)
    assert look.sessions.get_state(session.id).version == 2


def test_the_rollback_rate_raises_the_alarm(player: Player, look: holdfast.Client, sb: Any) -> None:
    sessions, alerts = [at_version(look, 1) for _ in range(10)], list[str]()
    player.wait_for(sb.sessions.rollback(sessions[0].id, version=0))
    found = player.run(
        STATEBASE.ROLLBACK_RATE,
        count_rollbacks_last_24h=lambda: look.health().rollbacks,
        count_sessions_last_24h=lambda: look.health().sessions,
        alert_engineering_team=alerts.append,
    )
    assert (found.rollback_count, found.total_sessions, found.rollback_rate) == (1, 10, 0.1)
    assert alerts == ["High rollback rate detected"]


def test_no_snippet_is_left_out() -> None:
    text = Path(__file__).read_text("utf-8")
    for page in (STATEBASE, SWARMSTATE):
        texts = {name: value for name, value in vars(page).items() if isinstance(value, str)}
        snippets = [name for name in texts if name.isupper()]
        name = "STATEBASE" if page is STATEBASE else "SWARMSTATE"
        assert [each for each in snippets if f"{name}.{each}" not in text] == []
        assert snippets
