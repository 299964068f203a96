"""Makes small mistakes in the engine, one at a time, and says which of them no test notices.

    python bench/mutants.py [--only engine/timeline]… [--tests tests/unit]… [--most 12] [--seed 1]
                            [--seconds 600] [--each 20] [--jobs 1] [--calls FILE] [--on-postgres]

A line for each room, which is a folder of modules, says how many mistakes were made, how many were
noticed, and the score: the share that was. Those that were not are shown below. With `--most`, so
many are made in each room; which they are depends on the seed alone. If the time is over before
all were made, a line says how many are left.

The tests are collected once. They run once, and what each of them calls is written down: with
`--calls` into a file, and the next time only tests that are not in it run. For a mistake in a
function those run that call it, in a forked process in which the function has another code, until
one fails: nothing is copied or written, and nothing is imported or collected again. That is why
this is our own and not mutmut or cosmic-ray. The one runs a rewritten copy of the sources, in
which our tests of sources fail; the other writes mistakes into the working tree and starts pytest
anew for each. Neither ends when a time is over.

What is not seen: code that runs while modules are loaded, and processes that a test starts, which
read the sources as they are.
"""

import argparse
import gc
import importlib
import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from itertools import zip_longest
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import NoReturn

import pytest
from mutations import Mutant, mutants_of

SOURCES = Path(__file__).resolve().parents[1] / "src/holdfast"
ROOMS = ("engine", "workspace")
TESTS = ("tests/unit", "tests/contract", "tests/property", "tests/faults")
PYTEST = ["-s", "-p", "no:randomly", "-p", "no:cacheprovider"]
EXAMPLES = 10
"""Inputs that a law is tried with."""

SLOWER, MORE_S, PATIENCE_S = 4, 20, 300
"""A mistake may make the tests compute so many times as long, and so much longer, before it counts
as noticed: it made an endless loop. One that waits for ever gets more patience: the machine may be
busy with something else."""

SAID = 2000
"""Characters of what pytest says that are repeated where it went wrong."""

NOTICED, SURVIVED, UNCALLED, UNMADE = "noticed", "survived", "uncalled", "unmade"
FAILED, CANNOT = 1, 255
"""With these a process ends in which a test failed, or in which a mistake cannot be made."""
ENDED = {0: SURVIVED, FAILED: NOTICED, CANNOT: UNMADE}

Place = tuple[str, str, int]
"""A function: its file, its qualified name and its first line."""


@dataclass
class Calls:
    """Which test calls which functions, and how long it computes."""

    seconds: dict[str, float] = field(default_factory=dict)
    called: dict[str, list[str]] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)

    @cached_property
    def tests(self) -> dict[str, list[str]]:
        """Who calls a function."""
        found = defaultdict[str, list[str]](list)
        for test, functions in self.called.items():
            for function in functions:
                found[function].append(test)
        return found

    def tests_of(self, function: str, each: float) -> list[str]:
        """Returns tests that call a function, so many seconds of them, the quickest first.

        Every file gives one before any gives a second: those of one file look at the same thing.
        """
        of_files = defaultdict[str, list[str]](list)
        for test in self.tests[function]:
            of_files[test.partition("::")[0]].append(test)
        for tests in of_files.values():
            tests.sort(key=self.seconds.__getitem__)
        chosen = list[str]()
        for turn in zip_longest(*of_files.values()):
            for test in sorted(filter(None, turn), key=self.seconds.__getitem__):
                each -= self.seconds[test]
                if chosen and each < 0:
                    break
                chosen.append(test)
        return sorted(chosen, key=self.seconds.__getitem__)


@dataclass
class Work:
    """What a process of its own does."""

    begin: Callable[[], bool]
    """Says whether it can be done."""
    tests: list[str]
    ended: Callable[[int | None, Path], None]
    """Is given what the process ended with, None if it took too long, and where it wrote."""
    patience: float = 3600


@dataclass(eq=False)
class Making:
    """A plugin that runs tests as often as there are mistakes, in place of running them once."""

    given: argparse.Namespace
    calls: Calls = field(default_factory=Calls)
    outcomes: defaultdict[str, Counter[str]] = field(
        default_factory=lambda: defaultdict(Counter[str])
    )
    survivors: set[str] = field(default_factory=set[str])
    left: int = 0
    stops: bool = False
    """Whether this process ends when a test fails."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_load_initial_conftests(self) -> None:
        """Has the same examples tried every time, and few: other tests notice as well."""
        from hypothesis import HealthCheck, settings  # noqa: PLC0415 - pytest has to load it

        of_tests = settings(
            derandomize=True,
            database=None,
            deadline=None,
            max_examples=EXAMPLES,
            suppress_health_check=[HealthCheck.too_slow],
        )
        settings.register_profile("mutants", of_tests)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        if self.stops:
            return (yield)
        called = dict[int, CodeType]()  # By its identity: what equals it takes long to say.

        def note(frame: FrameType, _event: str, _: object) -> None:
            called[id(frame.f_code)] = frame.f_code

        begun = computed()
        threading.settrace(note)
        sys.settrace(note)
        try:
            return (yield)
        finally:
            sys.settrace(None)
            threading.settrace(None)  # type: ignore[arg-type]
            self.calls.seconds[item.nodeid] = computed() - begun
            rooms = tuple(f"{self.given.sources}/{room}/" for room in ROOMS)
            self.calls.called[item.nodeid] = [
                f"{code.co_filename.removeprefix(f'{self.given.sources}/')}:{code.co_qualname}"
                for code in called.values()
                if code.co_filename.startswith(rooms) and code.co_name != "<module>"
            ]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and self.stops:
            os._exit(FAILED)
        if report.failed:
            self.calls.failed.append(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            print(f"not collected: {report.nodeid}\n{report.longreprtext[-SAID:]}", file=sys.stderr)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = {item.nodeid: item for item in session.items}
        for name in modules(self.given):
            importlib.import_module(module_name(name, self.given.sources))
        functions = functions_below(self.given.sources)
        gc.freeze()  # Or every process would copy what it looks at.
        self.look_at_calls(items)
        self.do(self.mistakes(functions), items)
        return True

    def look_at_calls(self, items: dict[str, pytest.Item]) -> None:
        """Runs the tests of which it is not known what they call, each file by itself."""
        kept = Path(self.given.calls) if self.given.calls else None
        if kept and kept.exists():
            self.calls = Calls(*json.loads(kept.read_text()))
        files = defaultdict[str, list[str]](list)
        for test in items:
            if test not in self.calls.seconds:
                files[test.partition("::")[0]].append(test)
        self.do((self.look(tests) for tests in files.values()), items)
        if kept and files:
            known = self.calls.seconds, self.calls.called, self.calls.failed
            kept.write_text(json.dumps(known))
        if self.calls.failed:
            print(f"left out, failing without a mistake: {', '.join(sorted(self.calls.failed))}")
        for test in self.calls.called.keys() - (items.keys() - set(self.calls.failed)):
            del self.calls.called[test]

    def look(self, tests: list[str]) -> Work:
        def begin() -> bool:
            self.calls = Calls()
            return True

        def ended(_: int | None, folder: Path) -> None:
            if not (folder / "calls").exists():
                self.calls.failed += tests
                return
            seconds, called, failed = json.loads((folder / "calls").read_text())
            self.calls.seconds |= seconds
            self.calls.called |= called
            self.calls.failed += failed

        return Work(begin, tests, ended)

    def mistakes(self, functions: dict[Place, list[FunctionType]]) -> Iterator[Work]:
        """Yields mistakes of all rooms, in turns: one of many mistakes takes no time from another.

        Which come first in a room depends on the seed alone.
        """
        rooms = defaultdict[str, list[tuple[str, Mutant]]](list)
        again = set(Path(self.given.again).read_text().splitlines()) if self.given.again else None
        for name in modules(self.given):
            for mutant in mutants_of((self.given.sources / name).read_text("utf-8")):
                if again is None or not again.isdisjoint((told(name, mutant), idle(name, mutant))):
                    rooms[room_of(name)].append((name, mutant))
        for room, made in rooms.items():
            random.Random(f"{self.given.seed} {room}").shuffle(made)
            del made[self.given.most :]
        for turn in zip_longest(*rooms.values()):
            for module, mutant in filter(None, turn):
                tests = self.calls.tests_of(f"{module}:{mutant.function}", self.given.each)
                if time.monotonic() > self.given.end:
                    self.left += 1
                elif tests:
                    yield self.mistake(module, mutant, tests, functions)
                else:
                    self.outcomes[room_of(module)][UNCALLED] += 1
                    self.survivors.add(idle(module, mutant))

    def mistake(
        self,
        module: str,
        mutant: Mutant,
        tests: list[str],
        functions: dict[Place, list[FunctionType]],
    ) -> Work:
        def begin() -> bool:
            self.stops = True
            most = MORE_S + SLOWER * sum(self.calls.seconds[test] for test in tests)
            resource.setrlimit(resource.RLIMIT_CPU, (int(most), int(most)))
            path = str(self.given.sources / module)
            code = code_of(compile(mutant.make(), path, "exec"), mutant)
            return put(code, functions[path, mutant.function, mutant.line])

        def ended(code: int | None, _: Path) -> None:
            outcome = NOTICED if code is None else ENDED.get(code, NOTICED)
            self.outcomes[room_of(module)][outcome] += 1
            if outcome == SURVIVED:
                self.survivors.add(told(module, mutant))

        return Work(begin, tests, ended, PATIENCE_S)

    def do(self, works: Iterator[Work], items: dict[str, pytest.Item]) -> None:
        """Does works in processes of their own, a few at a time."""
        running = dict[int, tuple[Work, float, Path]]()
        waiting = True
        while waiting or running:
            while waiting and len(running) < self.given.jobs:
                work = next(works, None)
                waiting = work is not None
                if work:
                    folder = Path(tempfile.mkdtemp())
                    child = os.fork()
                    if child == 0:
                        self.play(work, [items[test] for test in work.tests], folder)
                    running[child] = work, time.monotonic() + work.patience, folder
            for child, (work, end, folder) in list(running.items()):
                found, status = os.waitpid(child, os.WNOHANG)
                if not found and time.monotonic() < end:
                    continue
                with suppress(ProcessLookupError):  # No test has left anything.
                    os.killpg(child, signal.SIGKILL)
                if not found:
                    os.waitpid(child, 0)
                work.ended(os.waitstatus_to_exitcode(status) if found else None, folder)
                shutil.rmtree(folder, ignore_errors=True)
                del running[child]
            time.sleep(0.01)

    def play(self, work: Work, items: list[pytest.Item], folder: Path) -> NoReturn:
        """Runs tests in this process, which says nothing, and writes into a folder."""
        os.setpgid(0, 0)  # What a test starts ends with it.
        for number, flags in enumerate((os.O_RDONLY, os.O_WRONLY, os.O_WRONLY)):
            os.dup2(os.open(os.devnull, flags), number)
        os.environ["PYTEST_DEBUG_TEMPROOT"] = tempfile.tempdir = str(folder)
        if not work.begin():
            os._exit(CANNOT)
        for item, following in zip(items, [*items[1:], None], strict=True):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        known = self.calls.seconds, self.calls.called, self.calls.failed
        (folder / "calls").write_text("" if self.stops else json.dumps(known))
        os._exit(0)


def main() -> int:
    given = arguments()
    os.chdir(given.sources.parents[1])
    sys.path.insert(0, str(given.sources.parent))
    os.environ["HYPOTHESIS_PROFILE"] = "mutants"
    given.end = time.monotonic() + given.seconds
    chosen = [] if given.on_postgres else ["-m", "not postgres"]
    making = Making(given)
    said = os.dup(1)
    os.dup2(2, 1)  # What pytest says is no part of the answer.
    pytest.main([*PYTEST, "-qq", *chosen, *given.tests], plugins=[making])
    sys.stdout.flush()
    os.dup2(said, 1)
    if not making.calls.seconds:
        print("no test runs")
        return 2
    report(making)
    return 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--only", action="append", metavar="PATH", help="such as engine/timeline, or a module in it"
    )
    parser.add_argument("--tests", action="append", metavar="PATH", help=f"instead of {TESTS}")
    parser.add_argument("--seconds", type=float, default=600, help="when to stop, from the start")
    parser.add_argument(
        "--each", type=float, default=20, help="seconds that tests compute for a mistake"
    )
    parser.add_argument("--most", type=int, default=sys.maxsize, help="mistakes in each room")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--calls", metavar="FILE", help="where to keep what tests call")
    parser.add_argument("--again", metavar="FILE", help="only those of which it has a line")
    parser.add_argument("--on-postgres", action="store_true", help="run those tests as well")
    parser.add_argument("--sources", type=Path, default=SOURCES, help="the package")
    given = parser.parse_args()
    given.sources = given.sources.resolve()
    given.tests = given.tests or TESTS
    return given


def modules(given: argparse.Namespace) -> list[str]:
    paths = [given.sources / each for each in given.only or ROOMS]
    found = [each for path in paths for each in (path.rglob("*.py") if path.is_dir() else [path])]
    return sorted({each.relative_to(given.sources).as_posix() for each in found})


def computed() -> float:
    """Returns the seconds that this process, and those that it waited for, have computed."""
    return sum(os.times()[:4])


def room_of(module: str) -> str:
    return module.rpartition("/")[0]


def module_name(module: str, sources: Path) -> str:
    name = f"{sources.name}/{module}".removesuffix(".py").removesuffix("/__init__")
    return name.replace("/", ".")


def told(module: str, mutant: Mutant) -> str:
    return f"{module}:{mutant.at}: {mutant.function}: {mutant.told}"


def idle(module: str, mutant: Mutant) -> str:
    return f"{module}:{mutant.line}: {mutant.function}: no test calls it"


def code_of(module: CodeType, mutant: Mutant) -> CodeType:
    """Returns the code of one function of a compiled module."""
    waiting = [module]
    while waiting:
        code = waiting.pop()
        if (code.co_qualname, code.co_firstlineno) == (mutant.function, mutant.line):
            return code
        waiting += (each for each in code.co_consts if isinstance(each, CodeType))
    raise LookupError(mutant)


def functions_below(sources: Path) -> dict[Place, list[FunctionType]]:
    """Returns the functions of all modules that are loaded, whoever holds them."""
    found = defaultdict[Place, list[FunctionType]](list)
    gc.unfreeze()  # Or what others have frozen would not be found.
    for each in gc.get_objects():
        if isinstance(each, FunctionType) and each.__code__.co_filename.startswith(str(sources)):
            code = each.__code__
            found[code.co_filename, code.co_qualname, code.co_firstlineno].append(each)
    return found


def put(code: CodeType, functions: list[FunctionType]) -> bool:
    """Gives functions another code; says whether that can be done."""
    try:
        for each in functions:
            each.__code__ = code
    except ValueError:  # It no longer needs a name from around it.
        return False
    return bool(functions)


def report(making: Making) -> None:
    print(f"{'room':24} {'made':>5} {'noticed':>8} {'survived':>9} {'uncalled':>9} {'score':>6}")
    total = sum(making.outcomes.values(), Counter[str]())
    for name, found in [*sorted(making.outcomes.items()), ("all", total)]:
        made = found[NOTICED] + found[SURVIVED] + found[UNCALLED]
        score = f"{found[NOTICED] / made:6.0%}" if made else "     -"
        numbers = f"{found[NOTICED]:8} {found[SURVIVED]:9} {found[UNCALLED]:9}"
        print(f"{name:24} {made:5} {numbers} {score}")
    if making.left:
        print(f"the time was over: {making.left} more were not made")
    for survivor in sorted(making.survivors):
        print(survivor)


if __name__ == "__main__":
    sys.exit(main())
