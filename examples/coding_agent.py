"""A coding agent that wrecks its directory, and is undone.

It works in a real directory, with tools that really write, delete and run things. After every
step the project's own tests decide: what breaks them is taken back, byte for byte, files that
nobody had thought of included.

A list of plans plays the model, so that this runs offline and always the same way.
"""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import holdfast

CART = """\
def total(prices):
    return sum(prices)
"""
DISCOUNT = """

def discounted(prices, percent):
    return total(prices) * (1 - percent / 100)
"""
TEST = """\
import unittest

from cart import total


class Total(unittest.TestCase):
    def test_sum(self):
        self.assertEqual(total([1, 2]), 3)
"""


@dataclass(frozen=True)
class Plan:
    """What a model answers: the words, and the call of a tool."""

    says: str
    tool: Callable[[Path], None]


def add_a_discount(project: Path) -> None:
    """A good idea."""
    (project / "cart.py").write_text(CART + DISCOUNT)


def clean_up(project: Path) -> None:
    """A bad one: what is in no repository goes, too."""
    shutil.rmtree(project / "data")
    for path in project.glob("*.py"):
        path.write_text("# tidy\n")


def rename_a_function(project: Path) -> None:
    """One that looks harmless, and breaks whoever calls it."""
    cart = project / "cart.py"
    cart.write_text(cart.read_text().replace("def total(", "def sum_up("))


SCRIPT = (
    Plan("I add a function for discounts.", add_a_discount),
    Plan("This directory is a mess: I clean it up.", clean_up),
    Plan("`sum_up` is a better name.", rename_a_function),
)


class TestsFailed(Exception):
    """The project's tests do not pass."""


def run_tests(project: Path) -> None:
    """Runs the project's own tests; raises if they fail, or if there are none."""
    command = [sys.executable, "-B", "-m", "unittest", "-q"]
    done = subprocess.run(command, cwd=project, capture_output=True, check=False)
    if done.returncode != 0 or b"Ran 0 tests" in done.stderr:
        raise TestsFailed


def work(project: holdfast.Workspace, plan: Plan) -> bool:
    """Does one step; says whether it was kept."""
    try:
        with project.task(plan.says, rollback_on_failure=True):
            plan.tool(project.path)
            run_tests(project.path)
    except TestsFailed:
        return False
    return True


def main() -> None:
    """Lets the agent do three things, and shows what came of them."""
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder, "shop")
        (project / "data").mkdir(parents=True)
        (project / "data" / "orders.csv").write_text("id,total\n1,10\n2,20\n")
        (project / "cart.py").write_text(CART)
        (project / "test_cart.py").write_text(TEST)

        with (
            holdfast.open(Path(folder, "vault")) as hf,
            hf.workspace(project) as workspace,
        ):
            workspace.snapshot("as it was handed over", pin=True)
            for plan in SCRIPT:
                kept = work(workspace, plan)
                print("kept  " if kept else "undone", plan.says)

            orders = (project / "data" / "orders.csv").read_text()
            print("orders:", len(orders.splitlines()) - 1)
            print("discounts:", "discounted" in (project / "cart.py").read_text())

            print("timeline:")
            for snapshot in reversed(workspace.namespace.timeline()):
                print(" ", snapshot.kind, snapshot.label or "")


if __name__ == "__main__":
    main()
