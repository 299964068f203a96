"""Keeps the examples alive: each of them runs, offline, and does what it says.

They run in this process, as `python examples/NAME.py` would, with a socket that leads nowhere but
to this machine, and a directory for temporary files that is looked at afterwards.
"""

import ast
import os
import re
import runpy
import socket
import tempfile
from pathlib import Path

import pytest
from holdfast_docs.running import only_near

from holdfast.testing.shells import environment

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SOURCES = sorted(EXAMPLES.glob("*.py"))
LINES = 200
"""An example is read from top to bottom, in one go."""

SAYS: dict[str, list[str]] = {
    "coding_agent.py": [
        "kept   I add a function for discounts.",
        "undone This directory is a mess: I clean it up.",
        "undone `sum_up` is a better name.",
        "orders: 2",
        "discounts: True",
    ],
    "travel_agent.py": [
        "  attempt 1: I have cancelled everything. - rolled back",
        "  a person takes over: {…'destination': 'NYC', 'escalated_to': 'a person', …'UA123'}",
        "rollbacks: 4, which is critical",
    ],
    "compare_models.py": [
        "careful-1: 1.0",
        "merged: changed guide.md, added run/model",
        "left: ['writer']",
    ],
    "compliance_job.py": [
        "90 days, 21 snapshots kept, 3 of them pinned",
        "the record is whole: True",
        "checked without the vault: True",
        "one word changed, found at trace …",
    ],
    "served_agent.py": [
        "ann: done, 'All is well.'",
        "eve: undone: that is no report, '(nothing yet)'",
        "told: task.completed of bob",
        "told: task.failed of eve",
        "a delivery that nobody signed: 400 Bad Request",
    ],
    "many_tenants.py": [
        "bolt reads acme's files: refused, permission_denied",
        "bolt restores acme's snapshot: refused, snapshot_not_found",
        "the operator reads acme's files: refused, permission_denied",
        "bolt takes more than its quota: refused, quota_exceeded",
        """the operator brought it back: ["acme's secret plan"]""",
        "corp, whose key was revoked: refused, authentication_failed",
        "bolt: 16 of 1000000 bytes",
    ],
}
"""What each of them prints, among other things; `…` is anything."""


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets nobody speak to another machine."""
    monkeypatch.setattr(socket.socket, "connect", only_near(socket.socket.connect))
    kept = environment(Path.home())
    for name in [name for name in os.environ if name.startswith("HOLDFAST_")]:
        if name not in kept:
            monkeypatch.delenv(name)


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.name)
def test_an_example_runs_and_says_what_it_did(
    source: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    runpy.run_path(str(source), run_name="__main__")
    printed = capsys.readouterr().out
    for line in SAYS[source.name]:
        pattern = ".+".join(re.escape(part) for part in line.split("…"))
        assert re.search(f"^{pattern}$", printed, re.MULTILINE), f"{line!r} is not in:\n{printed}"
    assert list(tmp_path.iterdir()) == [], "it has left something behind"


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.name)
def test_an_example_is_one_readable_file(source: Path) -> None:
    text = source.read_text("utf-8")
    tree = ast.parse(text)
    assert ast.get_docstring(tree)
    assert len(text.splitlines()) <= LINES
    assert "main" in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    others = {path.stem for path in SOURCES}
    imported = {
        node.module or "" if isinstance(node, ast.ImportFrom) else node.names[0].name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
    }
    assert not imported & others


def test_the_readme_lists_every_example() -> None:
    text = (EXAMPLES / "README.md").read_text("utf-8")
    assert set(re.findall(r"\]\((\w+\.py)\)", text)) == {path.name for path in SOURCES}
    assert set(SAYS) == {path.name for path in SOURCES}
