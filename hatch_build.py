"""Compiles the C sources of the package where a compiler is at hand.

What is compiled lies beside its source, in a wheel as in an editable install; the client in C is
installed as the command itself, and the script in Python beside it. Nothing depends on any of it:
without a compiler, or if compiling fails, one line says so and Python does the same work.
"""

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FLAGS = ("-std=c11", "-O2", "-shared", "-fPIC")
PROGRAM_FLAGS = ("-std=c11", "-O2")
SCRIPT, COMMAND, IN_PYTHON = "scripts/holdfast", "holdfast", "holdfast-python"


class CannotCompile(Exception):
    """Says why in one line."""


@dataclass(frozen=True)
class Part:
    """A source, what it becomes, and what does its work where it cannot be compiled."""

    source: str
    headers: str | None
    """The folder of what it includes, if it does."""
    target: Callable[[], str]
    flags: Callable[[], tuple[str, ...]]
    fallback: str
    is_program: bool = False
    """Whether it is started, not loaded: then it is no file of the package."""


class CustomBuildHook(BuildHookInterface[Any]):
    """Adds what was compiled to what is built, and its platform to the tag of a wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Runs before hatchling collects the files; `version` is `standard` or `editable`."""
        if self.target_name != "wheel":
            return
        built = dict[Part, Path]()
        for part in PARTS:
            try:
                built[part] = compile_part(Path(self.root), part)
            except (CannotCompile, OSError) as problem:
                self.app.display_warning(f"{part.fallback}: {problem}")
        build_data["shared_scripts"].update(scripts_of(built.get(THIN)))
        if not built or version == "editable":
            return
        for part, path in built.items():
            if not part.is_program:
                build_data["artifacts"].append(f"/{path.relative_to(self.root)}")
        build_data["pure_python"] = False
        if STORE_CORE in built:
            build_data["infer_tag"] = True
        else:
            # Of a platform but of no interpreter: the other parts do not know Python.
            platform = self.build_config.builder.get_best_matching_tag().split("-")[-1]
            build_data["tag"] = f"py3-none-{platform}"


def scripts_of(client: Path | None) -> dict[str, str]:
    """Returns which file is installed under which name, with the client in C or without.

    The script's first line is replaced by installers: that is how the client finds its Python.
    """
    if client is None:
        return {SCRIPT: COMMAND}
    return {str(client): COMMAND, SCRIPT: IN_PYTHON}


def compile_part(root: Path, part: Part, *, flags: tuple[str, ...] | None = None) -> Path:
    """Returns the library or program, compiled anew and put in place whole."""
    if flags is None:
        flags = PROGRAM_FLAGS if part.is_program else FLAGS
    source = root / part.source
    target = source.parent / part.target()
    digest = digest_of(source, *sorted((root / part.headers).iterdir() if part.headers else ()))
    with tempfile.TemporaryDirectory(dir=source.parent, prefix=".compiling-") as work:
        output = Path(work, target.name)
        command = [*find_compiler(), *flags, *part.flags(), f'-DSOURCE_DIGEST="{digest}"']
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


def digest_of(*sources: Path) -> str:
    """Returns what tells a library that was compiled from other sources."""
    return sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()


def find_compiler() -> list[str]:
    """Returns the command that compiles C: `$CC` if it is set, or the first one found."""
    chosen = os.environ.get("CC")
    for candidate in [chosen] if chosen else ["cc", "gcc", "clang"]:
        command = shlex.split(candidate)
        if command and shutil.which(command[0]):
            return command
    raise CannotCompile(f"there is no {chosen or 'C compiler'}")


def library_name(part: str) -> str:
    """Returns what `holdfast.workspace.library.library_name` returns; a test compares them."""
    if os.name != "posix":
        raise CannotCompile("this is not a POSIX system")
    machine = os.uname()
    bits = 64 if sys.maxsize > 2**32 else 32
    return f"_{part}-{machine.sysname.lower()}-{machine.machine}-{bits}.so"


def program_name(part: str) -> str:
    """Returns what a program is called until it is installed."""
    if sys.platform != "linux":
        raise CannotCompile("it is written for Linux")
    return library_name(part).removesuffix(".so")


def store_core_name() -> str:
    """Returns the name under which this interpreter, and no other, imports the core."""
    if sys.implementation.name != "cpython" or os.name != "posix":
        raise CannotCompile("it is written for CPython on POSIX systems")
    return f"_core{sysconfig.get_config_var('EXT_SUFFIX')}"


def store_core_flags() -> tuple[str, ...]:
    """Returns where Python's headers are, and what a linker needs to leave its symbols open."""
    include = Path(sysconfig.get_path("include"))
    if not (include / "Python.h").exists():
        raise CannotCompile(f"there is no Python.h in {include}")
    later = ("-undefined", "dynamic_lookup") if sys.platform == "darwin" else ()
    return (f"-I{include}", *later)


STAT_CHECK = Part(
    source="src/holdfast/workspace/_statcheck.c",
    headers=None,
    target=lambda: library_name("statcheck"),
    flags=lambda: ("-pthread",),
    fallback="The stat check stays in Python",
)
CREATING = Part(
    source="src/holdfast/workspace/_creating.c",
    headers=None,
    target=lambda: library_name("creating"),
    flags=lambda: (),
    fallback="Files are created from Python",
)
RESTING = Part(
    source="src/holdfast/workspace/_resting.c",
    headers=None,
    target=lambda: library_name("resting"),
    flags=lambda: (),
    fallback="Leases are asked for from Python",
)
STORE_CORE = Part(
    source="src/holdfast/store/_core.c",
    headers="src/holdfast/store/headers",
    target=store_core_name,
    flags=store_core_flags,
    fallback="The core of the store stays in Python",
)
THIN = Part(
    source="src/holdfast/cli/_thin.c",
    headers=None,
    target=lambda: program_name("thin"),
    flags=lambda: (),
    fallback="The command starts in Python",
    is_program=True,
)
PARTS = (STAT_CHECK, CREATING, RESTING, STORE_CORE, THIN)
