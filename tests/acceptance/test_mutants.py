"""The tool that makes mistakes, on a module of which it is known which mistakes are noticed."""

import os
import subprocess
import sys
from pathlib import Path

TOOL = Path(__file__).parents[2] / "bench/mutants.py"

SOURCE = """
from contextlib import contextmanager

class Account:
    def __init__(self, held):
        self.held = held

    def take(self, amount):
        if amount > self.held:
            raise ValueError("not so much")
        self.held -= amount
        return self.held

@contextmanager
def lent(account, amount):
    account.held += amount
    yield account
    account.held -= amount

def forgotten(account):
    return account.held
"""
TESTS = """
import pytest
from toy.engine.accounts import Account, lent

def test_what_is_taken_is_gone():
    assert Account(5).take(2) == 3

def test_no_more_is_taken_than_there_is():
    with pytest.raises(ValueError):
        Account(5).take(6)

def test_what_is_lent_is_there():
    with lent(Account(5), 1) as account:
        assert account.held == 6
"""


def run(place: Path, *options: str) -> list[str]:
    package = place / "src/toy"
    for folder in (package, package / "engine"):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "__init__.py").touch()
    (package / "engine/accounts.py").write_text(SOURCE)
    (place / "test_accounts.py").write_text(TESTS)
    command = [sys.executable, TOOL, "--sources", package, "--tests", "test_accounts.py"]
    command += ["--only", "engine/accounts.py", *options]
    # To load plugins takes most of what pytest takes, and it runs for each mistake.
    environ = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(
        command, check=True, capture_output=True, text=True, cwd=place, env=environ
    )
    return done.stdout.splitlines()


def test_what_no_test_notices_is_named(tmp_path: Path) -> None:
    _, found, total, *survivors = run(tmp_path)
    # Five where something is taken, two in each line of what is lent, one that nobody asks for.
    assert found.split() == ["engine", "10", "6", "3", "1", "60%"]
    assert total.split()[1:] == found.split()[1:]
    assert survivors == [
        "engine/accounts.py:18: lent: account.held -= amount -> account.held += amount",
        "engine/accounts.py:18: lent: account.held -= amount -> pass",
        "engine/accounts.py:20: forgotten: no test calls it",
        "engine/accounts.py:9: Account.take: amount > self.held -> amount >= self.held",
    ]


def test_a_seed_chooses_the_same_mistakes_whoever_is_there_to_make_them(tmp_path: Path) -> None:
    _, found, *_ = once = run(tmp_path, "--most", "5", "--seed", "7")
    assert found.split()[:2] == ["engine", "5"]
    assert run(tmp_path, "--most", "5", "--seed", "7", "--jobs", "2", "--only", "engine") == once


def test_what_tests_call_is_kept_and_a_new_test_is_looked_at(tmp_path: Path) -> None:
    kept = tmp_path / "calls.json"
    _, found, *_ = run(tmp_path, "--calls", str(kept))
    known = kept.read_text()
    assert run(tmp_path, "--calls", str(kept))[1] == found
    assert kept.read_text() == known  # With the seconds that each took then.
    more = "def test_nothing_is_forgotten():\n    assert forgotten(Account(2)) == 2\n"
    asked = f"from toy.engine.accounts import Account, forgotten\n\n{more}"
    (tmp_path / "test_more.py").write_text(asked)
    _, found, *_ = run(tmp_path, "--calls", str(kept), "--tests", "test_more.py")
    assert found.split() == ["engine", "10", "7", "3", "0", "70%"]


def test_it_stops_when_the_time_is_over(tmp_path: Path) -> None:
    _, found, *rest = run(tmp_path, "--seconds", "0")
    assert found.split() == ["all", "0", "0", "0", "0", "-"]
    assert rest == ["the time was over: 10 more were not made"]
