"""Compiles the stat check, `src/holdfast/workspace/_statcheck.c`, where a compiler is at hand.

The library lies beside its module, in a wheel as in an editable install. Nothing depends on it:
without a compiler, or if compiling fails, one line says so and the package is pure Python.
"""

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from hashlib import sha256
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FOLDER = "src/holdfast/workspace"
FLAGS = ("-std=c11", "-O2", "-shared", "-fPIC", "-pthread")


class CannotCompile(Exception):
    """Says why in one line."""


class CustomBuildHook(BuildHookInterface[Any]):
    """Adds the library to what is built, and its platform to the tag of a wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Runs before hatchling collects the files; `version` is `standard` or `editable`."""
        if self.target_name != "wheel":
            return
        try:
            built = compile_library(Path(self.root, FOLDER))
        except (CannotCompile, OSError) as problem:
            self.app.display_warning(f"The stat check stays in Python: {problem}")
            return
        if version != "editable":
            build_data["artifacts"].append(f"/{FOLDER}/{built.name}")
            build_data["pure_python"] = False
            # Of a platform but of no interpreter: the library does not know Python.
            platform = self.build_config.builder.get_best_matching_tag().split("-")[-1]
            build_data["tag"] = f"py3-none-{platform}"


def compile_library(folder: Path) -> Path:
    """Returns the library, compiled anew and put in place whole."""
    source, target = folder / "_statcheck.c", folder / library_name()
    digest = sha256(source.read_bytes()).hexdigest()
    with tempfile.TemporaryDirectory(dir=folder, prefix=".statcheck-") as work:
        output = Path(work, target.name)
        command = [*find_compiler(), *FLAGS, f'-DSOURCE_DIGEST="{digest}"']
        done = subprocess.run(  # noqa: S603 - the compiler that the person who builds has chosen
            [*command, "-o", str(output), str(source)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        if done.returncode != 0 or not output.exists():
            lines = done.stderr.split("\n")
            raise CannotCompile(f"{command[0]} ended with {done.returncode}: {lines[0]}")
        output.replace(target)
    return target


def find_compiler() -> list[str]:
    """Returns the command that compiles C: `$CC` if it is set, or the first one found."""
    chosen = os.environ.get("CC")
    for candidate in [chosen] if chosen else ["cc", "gcc", "clang"]:
        command = shlex.split(candidate)
        if command and shutil.which(command[0]):
            return command
    raise CannotCompile(f"there is no {chosen or 'C compiler'}")


def library_name() -> str:
    """Returns what `holdfast.workspace.statcheck.library_name` returns; a test compares them."""
    if os.name != "posix":
        raise CannotCompile("this is not a POSIX system")
    machine = os.uname()
    bits = 64 if sys.maxsize > 2**32 else 32
    return f"_statcheck-{machine.sysname.lower()}-{machine.machine}-{bits}.so"
