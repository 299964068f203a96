"""What `make run` shows a newcomer: it runs as a program of its own, and keeps its claims."""

import os
import pty
import re
import subprocess
import sys
import time

import pytest

from holdfast import demo

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
        shown = b""
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:  # Linux says so when the other side of a terminal is closed.
                break
            if not part:
                break
            shown += part
    os.close(ours)
    assert process.returncode == 0
    assert b"\033[1mHoldfast" in shown


def test_a_claim_that_does_not_hold_ends_the_demo(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        demo._claim("the sky is green", holds=False)
    assert ended.value.code == 1
    assert "FAILED  the sky is green" in capsys.readouterr().out
