"""What a newcomer is shown: it runs as a program of its own, and keeps its claims."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import holdfast
from holdfast import demo
from holdfast.testing.shells import read_terminal

COMMAND = [sys.executable, "-m", "holdfast.demo"]


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> subprocess.CompletedProcess[str]:
    """One run, as somebody who has just installed it would start it."""
    folder = tmp_path_factory.mktemp("demo")
    environment = {**os.environ, "TMPDIR": str(folder), "PYTHONIOENCODING": "ascii"}
    start = time.monotonic()
    done = subprocess.run(
        COMMAND, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert time.monotonic() - start < 60
    assert list(folder.iterdir()) == [], "the demo left something behind"
    return done


def test_the_demo_ends_well(played: subprocess.CompletedProcess[str]) -> None:
    assert played.stderr == ""
    assert played.returncode == 0
    assert "FAILED" not in played.stdout


@pytest.mark.parametrize(
    "claim",
    [
        r"snapshot snap-\w+ holds them all \([\d.]+ ms\)",
        r"diff: 2000 removed, 2 changed \([\d.]+ ms\)",
        r"restored and proven \([\d.]+ ms\)",
        r"the files are back",
        r"so is the plan",
        r"the mess is kept too, as snap-\w+",
        r"undo: the mess is there again \([\d.]+ ms\)",
        r"redo: all is well again \([\d.]+ ms\)",
        r"forked 2002 entries, copied none \([\d.]+ ms\)",
        r"merged summary\.md into later work \([\d.]+ ms\)",
        r"a contradiction is refused, with nothing applied",
        r"verify: \d+ objects hash to their names \([\d.]+ ms\)",
    ],
)
def test_the_demo_keeps_its_claim(played: subprocess.CompletedProcess[str], claim: str) -> None:
    assert re.search(rf"^  ok  {claim}$", played.stdout, re.MULTILINE)


def test_the_timeline_tells_the_story(played: subprocess.CompletedProcess[str]) -> None:
    kinds = re.findall(r"^      \d  (\w+)", played.stdout, re.MULTILINE)
    assert kinds == ["snapshot", "safety", "restore", "undo", "redo", "safety", "merge"]


def test_a_pipe_gets_no_escape_codes(played: subprocess.CompletedProcess[str]) -> None:
    assert "\033" not in played.stdout
    assert played.stdout.isascii()


def test_a_terminal_gets_headings() -> None:
    ours, theirs = pty.openpty()
    with subprocess.Popen(COMMAND, stdout=theirs) as process:
        os.close(theirs)
        shown = read_terminal(ours)
    assert process.returncode == 0
    assert b"\033[1mHoldfast" in shown


def test_a_claim_that_does_not_hold_ends_the_demo(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        demo._claim("the sky is green", holds=False)
    assert ended.value.code == 1
    assert "FAILED  the sky is green" in capsys.readouterr().out


def test_a_story_is_served_and_removed_again(tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path), "HOLDFAST_DATABASE_URL": "postgresql://x"}
    command = [Path(sys.executable).with_name("holdfast"), "demo", "--serve", "--json"]
    with subprocess.Popen(
        [*command, "--port", "0"], env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        told = json.loads(process.stdout.readline())
        keys = json.loads(Path(told["credentials"]).read_text())
        with holdfast.Client(keys["api_key"], url=told["url"], namespace="shop-backend") as agent:
            newest, *_ = agent.timeline(limit=1)
            assert newest.label == "Clean up old fixtures"
            assert newest.number > 200
            assert [task.name for task in agent.tasks.list(status="running")] == [
                "Speed up search ranking"
            ]
            went_back = agent.restore("@-1")
            assert went_back.verified
            assert agent.files.read_text("data/fixtures/orders-000.csv").startswith("order")
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
    assert list(tmp_path.iterdir()) == []
