"""Makes small mistakes in the engine, one at a time, and says which of them no test notices.

    python bench/mutants.py [--only engine/timeline/undo.py]… [--tests tests/unit]… [--seconds 600]
                            [--most 12] [--seed 1] [--on-postgres]

A line for each module says how many mistakes were made, how many were noticed, and the score: the
share that was. Those that were not are shown below. With `--most`, so many are made in each module;
if the time is over before all were made, a line says how many are left. Which come first depends on
the seed.

The tests run once, and what each of them calls is written down. For a mistake in a function those
run that call it, the quickest first, in a forked process in which the function has another code:
nothing is copied or written, and nothing is imported again. That is why this is our own and not
mutmut or cosmic-ray. The one runs a rewritten copy of the sources, in which our tests of sources
fail; the other writes mistakes into the working tree and starts pytest anew for each. Neither ends
when a time is over.

What is not seen: code that runs while modules are loaded, and processes that a test starts, which
read the sources as they are.
"""

import argparse
import gc
import importlib
import json
import os
import random
import signal
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory
from types import CodeType, FrameType, FunctionType

import pytest
from mutations import Mutant, mutants_of

SOURCES = Path(__file__).resolve().parents[1] / "src/holdfast"
ROOMS = ("engine", "workspace")
TESTS = ("tests/unit", "tests/contract", "tests/property", "tests/faults")
PYTEST = ["-q", "-x", "-p", "no:randomly", "-p", "no:cacheprovider", "-p", "no:xdist"]
MOST_TESTS = 300
"""Of those that call a function, so many of the quickest: who survives these survives."""
SLOWER, PATIENCE_S = 4, 20
"""A mistake may make the tests take so many times as long, and so much longer, before it counts
as noticed: it made an endless loop."""

SAID = 2000
"""Characters of what pytest says that are repeated where it went wrong."""

NOTICED, ENDLESS, SURVIVED, UNCALLED, UNMADE = (
    "noticed",
    "endless",
    "survived",
    "uncalled",
    "unmade",
)

Place = tuple[str, str, int]
"""A function: its file, its qualified name and its first line."""


@dataclass(eq=False)
class Calls:
    """A plugin that writes down which test calls which functions, and how long each takes."""

    files: set[str]
    tests: dict[Place, set[str]] = field(default_factory=lambda: defaultdict(set))
    seconds: dict[str, float] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)
    told: str = ""
    """The end of what pytest said."""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        called = set[CodeType]()

        def note(frame: FrameType, event: str, _: object) -> None:
            if event == "call":
                called.add(frame.f_code)

        begun = time.perf_counter()
        threading.setprofile(note)
        sys.setprofile(note)
        try:
            return (yield)
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
            self.seconds[item.nodeid] = time.perf_counter() - begun
            for code in called:
                if code.co_filename in self.files:
                    place = (code.co_filename, code.co_qualname, code.co_firstlineno)
                    self.tests[place].add(item.nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.append(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.failed.append(report.nodeid)

    def leave_out_failed(self) -> None:
        """Forgets tests that notice what is not there."""
        if self.failed:
            print(f"left out, since they fail without a mistake: {', '.join(self.failed)}")
        for tests in self.tests.values():
            tests.difference_update(self.failed)


def main() -> int:
    given = arguments()
    modules = given.only or sorted(
        path.relative_to(given.sources).as_posix()
        for room in ROOMS
        for path in (given.sources / room).rglob("*.py")
    )
    os.chdir(given.sources.parents[1])
    sys.path.insert(0, str(given.sources.parent))
    os.environ.setdefault("HYPOTHESIS_PROFILE", "dev")
    # Or every process would compile what it imports.
    sys.dont_write_bytecode = False
    end = time.monotonic() + given.seconds
    files = {name: given.sources / name for name in modules}
    for path in files.values():
        importlib.import_module(module_name(path, given.sources))
    chosen = [] if given.on_postgres else ["-m", "not postgres"]
    calls = look_at_calls({str(path) for path in files.values()}, [*chosen, *given.tests])
    if not calls.seconds:
        print(f"no test runs\n{calls.told}")
        return 2
    calls.leave_out_failed()
    outcomes, survivors = dict[str, Counter[str]](), set[str]()
    waiting = dict[str, list[Mutant]]()
    for name, path in files.items():
        outcomes[name] = Counter()
        waiting[name] = list(mutants_of(path.read_text("utf-8")))
        random.Random(f"{given.seed} {name}").shuffle(waiting[name])
        del waiting[name][given.most :]
    left = 0
    # In turns: a module of many mistakes takes no time from another.
    for round_ in zip_longest(*([(name, each) for each in made] for name, made in waiting.items())):
        for name, mutant in filter(None, round_):
            if time.monotonic() > end:
                left += 1
                continue
            outcome = tried(mutant, files[name], calls)
            outcomes[name][outcome] += 1
            if outcome == SURVIVED:
                survivors.add(f"{name}:{mutant.at}: {mutant.function}: {mutant.told}")
            elif outcome == UNCALLED:
                survivors.add(f"{name}:{mutant.line}: {mutant.function}: no test calls it")
    report(outcomes, survivors, left)
    return 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--only", action="append", metavar="MODULE", help="such as engine/timeline/undo.py"
    )
    parser.add_argument("--tests", action="append", metavar="PATH", help=f"instead of {TESTS}")
    parser.add_argument("--seconds", type=float, default=600, help="when to stop, from the start")
    parser.add_argument("--most", type=int, default=sys.maxsize, help="mistakes in each module")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--on-postgres", action="store_true", help="run those tests as well")
    parser.add_argument("--sources", type=Path, default=SOURCES, help="the package")
    given = parser.parse_args()
    given.sources = given.sources.resolve()
    given.tests = given.tests or TESTS
    return given


def module_name(path: Path, sources: Path) -> str:
    inside = path.relative_to(sources.parent)
    return ".".join(inside.with_suffix("").parts).removesuffix(".__init__")


def look_at_calls(files: set[str], options: list[str]) -> Calls:
    """Runs all tests in a process of their own, and returns who called what."""
    with TemporaryDirectory() as folder:
        said, noted = Path(folder, "said"), Path(folder, "noted")
        child = os.fork()
        if child == 0:
            calls = Calls(files)
            be_quiet(said)
            pytest.main([*(each for each in PYTEST if each != "-x"), *options], plugins=[calls])
            places = [[*place, sorted(tests)] for place, tests in calls.tests.items()]
            noted.write_text(json.dumps([places, calls.seconds, calls.failed]))
            sys.stdout.flush()
            os._exit(0)
        os.waitpid(child, 0)
        places, seconds, failed = json.loads(noted.read_text())
        tests = {(file, name, line): set(found) for file, name, line, found in places}
        return Calls(files, tests, seconds, failed, said.read_text()[-SAID:])


def tried(mutant: Mutant, path: Path, calls: Calls) -> str:
    """Makes a mistake, runs the tests that could notice it, and says whether one did."""
    place = (str(path), mutant.function, mutant.line)
    tests = sorted(calls.tests.get(place, ()), key=calls.seconds.__getitem__)[:MOST_TESTS]
    if not tests:
        return UNCALLED
    code = code_of(compile(mutant.make(), str(path), "exec"), place)
    patience = PATIENCE_S + SLOWER * sum(calls.seconds[test] for test in tests)
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)  # What a test starts ends with it.
        be_quiet()
        if not put(code, place):
            os._exit(255)
        os._exit(int(pytest.main([*PYTEST, *tests])))
    return wait(child, patience)


def code_of(module: CodeType, place: Place) -> CodeType:
    """Returns the code of one function of a compiled module."""
    waiting = [module]
    while waiting:
        code = waiting.pop()
        if (code.co_qualname, code.co_firstlineno) == place[1:]:
            return code
        waiting += (each for each in code.co_consts if isinstance(each, CodeType))
    raise LookupError(place)


def put(code: CodeType, place: Place) -> bool:
    """Gives a function another code, whoever holds it; says whether that can be done."""
    found = False
    for each in gc.get_objects():
        if isinstance(each, FunctionType):
            old = each.__code__
            if (old.co_filename, old.co_qualname, old.co_firstlineno) == place:
                try:
                    each.__code__ = code
                except ValueError:  # It no longer needs a name from around it.
                    return False
                found = True
    return found


def wait(child: int, patience: float) -> str:
    end = time.monotonic() + patience
    while time.monotonic() < end:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            code = os.waitstatus_to_exitcode(status)
            return {0: SURVIVED, 255: UNMADE}.get(code, NOTICED)
        time.sleep(0.01)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return ENDLESS


def be_quiet(said: Path = Path(os.devnull)) -> None:
    """Leaves what is said elsewhere, by whomever."""
    for number, path in enumerate((Path(os.devnull), said, said)):
        os.dup2(os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND), number)


def report(outcomes: dict[str, Counter[str]], survivors: set[str], left: int) -> None:
    print(f"{'module':40} {'made':>5} {'noticed':>8} {'survived':>9} {'uncalled':>9} {'score':>6}")
    total = sum(outcomes.values(), Counter[str]())
    for name, found in [*outcomes.items(), ("all", total)]:
        noticed = found[NOTICED] + found[ENDLESS]
        made = noticed + found[SURVIVED] + found[UNCALLED]
        score = f"{noticed / made:6.0%}" if made else "     -"
        print(f"{name:40} {made:5} {noticed:8} {found[SURVIVED]:9} {found[UNCALLED]:9} {score}")
    if left:
        print(f"the time was over: {left} more were not made")
    for survivor in sorted(survivors):
        print(survivor)


if __name__ == "__main__":
    sys.exit(main())
