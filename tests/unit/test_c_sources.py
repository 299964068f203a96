"""The C sources under sanitizers: for some rounds in every test run, and a fault would be found.

`bench/soak_c_sources.py` plays for as long as one likes.
"""

import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

BENCH = Path(__file__).resolve().parents[2] / "bench"


@pytest.fixture
def soak(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCH))
    return import_module("soak_c_sources")


@pytest.fixture
def sanitized(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCH))
    module = import_module("sanitized")
    try:
        module.find_library()
    except module.CannotSanitize as problem:
        pytest.skip(str(problem))
    return module


def test_every_source_is_played(soak: Any) -> None:
    sources = {path.stem for path in (BENCH.parent / "src").rglob("*.c")}
    assert sources == {f"_{name}" for name in soak.find_parts()}
    assert all((BENCH / f"play_{name}.py").exists() for name in soak.find_parts())


@pytest.mark.usefixtures("sanitized")
def test_a_few_rounds_of_every_source_give_no_report(tmp_path: Path) -> None:
    played = subprocess.run(
        [sys.executable, BENCH / "soak_c_sources.py", "--rounds=3", "--seed=1"],
        env={"PATH": "/usr/bin:/bin", "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert played.returncode == 0, played.stderr
    assert played.stdout.count("no report") == 5


SOURCE = """
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
char *kept;
int planted(const unsigned char *data, uint64_t size, int round)
{
    if (round < 45)
        return 0;
    %s
}
"""
PLAYER = """
import ctypes
from collections import Counter
from pathlib import Path
from exact_memory import exact_memory

planted = ctypes.CDLL(str(Path(__file__).with_name("planted.so"))).planted
planted.argtypes = [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_int]
rounds = 0

def play(rng, folder):
    global rounds
    rounds += 1
    with exact_memory() as memory:
        planted(memory.hold(rng.randbytes(8)), 8, rounds)
    return Counter(called=1)
"""
FAULTS = {
    "return data[size];": "heap-buffer-overflow",
    "return INT_MAX - 44 + round;": "signed integer overflow",
    "kept = malloc(4096); kept[0] = 1; return 0;": "bytes more after",
    "return *kept;": "null pointer",
}


@pytest.mark.parametrize(("fault", "said"), FAULTS.items())
def test_a_fault_is_found_and_its_round_is_named(
    sanitized: Any, soak: Any, tmp_path: Path, fault: str, said: str
) -> None:
    (tmp_path / "src" / "holdfast").mkdir(parents=True)
    (tmp_path / "src" / "planted.c").write_text(SOURCE % fault)
    (tmp_path / "src" / "play_planted.py").write_text(PLAYER)
    part = sanitized.load_hatch_build().Part(
        source="src/planted.c",
        headers=None,
        target=lambda: "planted.so",
        flags=lambda: (),
        fallback="",
    )
    sanitized.build(tmp_path, part)
    with pytest.raises(soak.Failed) as caught:
        soak.play_block(tmp_path, "planted", seed=1000, rounds=240, seconds=60)
    report = (tmp_path / "planted.report").read_text()
    assert said in report
    if "bytes more" not in said:  # which is known at the end alone
        assert "seed 1044:" in str(caught.value)
        assert "--seed 1044 --rounds 1" in report
