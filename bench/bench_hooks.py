"""What a coding agent waits for: hooks of a session, with the process that stays and without.

    make bench ONLY=hooks
    python bench/bench_hooks.py --files 5000 --prompts 40

Each hook is a process of its own, started as agents do, by a shell; the lines take turns, so that
a busy moment meets all of them. `bare` is an interpreter that does nothing, started the same way:
what a hook cannot be faster than before it is a program in C. Milliseconds on the clock; `cpu` is
the processor time of the hook's own processes, which a busy machine stretches less, the least of
all tries.
"""

import argparse
import json
import os
import resource
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

COMMAND = Path(sys.executable).with_name("holdfast")
BARE, BUDGET_MS = "bare interpreter", 25


class Session:
    """An agent's talk in a directory."""

    def __init__(self, folder: Path, *, files: int, is_watched: bool) -> None:
        self.project, self.vault = folder / "project", folder / "vault"
        for number in range(files):
            path = self.project / f"{number % 100}" / f"{number}.txt"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{number}\n" * 20)
        self.samples: dict[str, list[float]] = {}
        self.spent: dict[str, float] = {}
        where = ["-C", str(self.project), "--data", str(self.vault)]
        self.hook = shlex.join([str(COMMAND), "hook", "run", "claude-code", *where])
        subprocess.run([COMMAND, "init", "-q", *where], check=True, stdout=subprocess.DEVNULL)
        if is_watched:
            subprocess.run(
                [COMMAND, "watch", "--background", "-q", *where],
                check=True,
                stdout=subprocess.DEVNULL,
            )
        self.stop = [COMMAND, "watch", "--stop", "-q", *where]

    def tell(self, line: str, event: str, turn: int, **more: str) -> None:
        said = {"session_id": "bench", "prompt_id": f"p{turn}", "hook_event_name": event, **more}
        self.sample(line, self.hook, json.dumps(said).encode())

    def sample(self, line: str, command: str, given: bytes = b"") -> None:
        start, before = time.perf_counter(), spent_ms()
        done = subprocess.run(
            ["/bin/sh", "-c", command], check=False, input=given, capture_output=True
        )
        self.samples.setdefault(line, []).append((time.perf_counter() - start) * 1000)
        self.spent[line] = min(self.spent.get(line, 1e9), spent_ms() - before)
        if done.returncode or done.stdout or done.stderr:
            raise SystemExit(f"a hook failed: {done}")

    def play(self, prompts: int) -> None:
        for number in range(prompts):
            self.sample(BARE, shlex.join([sys.executable, "-c", ""]))
            self.tell("prompt", "UserPromptSubmit", number, prompt=f"do thing {number}")
            self.tell("tool, nothing changed", "PreToolUse", number, tool_name="Bash")
            for each in range(10):
                (self.project / "0" / f"{each * 100}.txt").write_text(f"{number} {each}\n")
            self.tell("tool, ten files changed", "PostToolUse", number, tool_name="Bash")
            self.tell("end", "Stop", number)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--files", type=int, default=2000)
    parser.add_argument("--prompts", type=int, default=25)
    wanted = parser.parse_args()
    os.environ["HOLDFAST_STAY"] = "0"  # Where nobody watches, a process of its own is measured.
    print(f"{wanted.files:,} files, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    for is_watched in (True, False):
        with tempfile.TemporaryDirectory() as folder:
            session = Session(Path(folder), files=wanted.files, is_watched=is_watched)
            try:
                session.play(wanted.prompts if is_watched else max(5, wanted.prompts // 5))
            finally:
                subprocess.run(session.stop, check=False, capture_output=True)
        tell("with" if is_watched else "without", session.samples, session.spent)


def spent_ms() -> float:
    """Returns the processor time of all processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (used.ru_utime + used.ru_stime) * 1000


def tell(word: str, samples: dict[str, list[float]], spent: dict[str, float]) -> None:
    head = f"{'median':>9}{'p95':>9}{'worst':>9}{'cpu':>9}"
    print(f"\n{word + ' the process that stays':<32}{head}")
    everything = [each for line, found in samples.items() if line != BARE for each in found]
    for line, found in {**samples, "all hooks": everything}.items():
        found.sort()
        p95 = found[min(len(found) - 1, round(len(found) * 0.95))]
        cpu = f"{spent[line]:>9.1f}" if line in spent else ""
        print(f"{line:<32}{statistics.median(found):>9.1f}{p95:>9.1f}{found[-1]:>9.1f}{cpu}")
    if word == "with":
        bare = statistics.median(samples[BARE])
        over = statistics.median(everything) - bare
        print(
            f"{'':<32}{over:>9.1f} more than a bare interpreter; the budget is {BUDGET_MS} in all"
        )


if __name__ == "__main__":
    main()
