"""Builds the C sources with what finds their mistakes, and runs programs on that build.

AddressSanitizer and UndefinedBehaviorSanitizer end a process at the first byte that is not its
own, and at the first thing that C does not define. The sources are compiled into a copy of the
package, with the flags that `hatch_build.py` has for each, and with system calls that fail now and
then (`faulty_calls.h`). Python itself is not compiled so: the sanitizer's library is loaded before
it, and its objects come from `malloc`, so that each has an end that is watched.
"""

import os
import shutil
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent

FLAGS = (
    *("-std=c11", "-g", "-O1", "-shared", "-fPIC", "-fno-omit-frame-pointer"),
    *("-fsanitize=address,undefined", "-fno-sanitize-recover=all"),
)
FAULTY = ("-include", str(HERE / "faulty_calls.h"))
REPORTED = 99
"""How a process ends that a sanitizer has ended."""


class CannotSanitize(Exception):
    """Says in one line why there are no sanitizers here."""


def load_hatch_build() -> ModuleType:
    """Returns the module that says which sources there are, and how each is compiled."""
    spec = spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    if spec is None or spec.loader is None:
        raise CannotSanitize("hatch_build.py is not there")
    module = module_from_spec(spec)
    sys.modules[spec.name] = module  # where its dataclasses look for it
    spec.loader.exec_module(module)
    return module


def find_parts() -> dict[str, object]:
    """Returns the parts of `hatch_build.py` by the name of their source, such as `core`."""
    return {Path(part.source).stem.strip("_"): part for part in load_hatch_build().PARTS}


def build(folder: Path, part: object) -> None:
    """Compiles one part into a copy of the package in a folder."""
    building = load_hatch_build()
    package = folder / "src" / "holdfast"
    if not package.exists():
        ignored = shutil.ignore_patterns("*.so", "__pycache__", ".compiling-*")
        shutil.copytree(ROOT / "src" / "holdfast", package, ignore=ignored)
    try:
        building.compile_part(folder, part, flags=(*FLAGS, *FAULTY))
    except building.CannotCompile as problem:
        raise CannotSanitize(str(problem)) from problem


def find_library() -> str:
    """Returns where the compiler has the library of the sanitizer."""
    building = load_hatch_build()
    try:
        compiler = building.find_compiler()
    except building.CannotCompile as problem:
        raise CannotSanitize(str(problem)) from problem
    for name in ("libasan.so", f"libclang_rt.asan-{os.uname().machine}.so"):
        asked = [*compiler, f"-print-file-name={name}"]
        found = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
        if Path(found).is_absolute() and Path(found).exists():
            return found
    raise CannotSanitize(f"{compiler[0]} has no AddressSanitizer")


def start(
    folder: Path, *arguments: str, hash_seed: int = 0, report: Path
) -> "subprocess.Popen[str]":
    """Starts Python on the build in a folder; what it says of its end goes to the report."""
    asan = (
        # Python itself leaves much behind at its end: what stays is measured while it runs.
        "detect_leaks=0:detect_stack_use_after_return=1:strict_string_checks=1"
        # Sizes that nobody has are refused, as without it; what was freed stays watched for long.
        f":allocator_may_return_null=1:quarantine_size_mb=64:exitcode={REPORTED}"
    )
    environ = os.environ | {
        "LD_PRELOAD": find_library(),
        "ASAN_OPTIONS": asan,
        "UBSAN_OPTIONS": f"print_stacktrace=1:halt_on_error=1:exitcode={REPORTED}",
        "PYTHONMALLOC": "malloc",
        "PYTHONHASHSEED": str(hash_seed),
        "PYTHONPATH": os.pathsep.join([str(folder / "src"), str(HERE)]),
    }
    with report.open("w") as file:
        return subprocess.Popen(
            [sys.executable, "-X", "dev", *arguments],
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=file,
            text=True,
        )
