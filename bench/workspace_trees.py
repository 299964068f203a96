"""Directories to measure with: the same bytes on every machine, at every run.

A tree is made from a seed, so that two runs and two machines compare. Most of it is text that
compresses about as well as source does; some files are noise, as pictures and archives are.
`Tree.edit` moves it on by one version, `Tree.reset` brings it back to how it was made, and
`Tree.expect` says whether somebody else has brought it back.

Not here: who captures the tree (`workspace_peers.py`, `workspace_ours.py`).
"""

import os
import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from blake3 import blake3

EDITS = 10
"""How many places one version changes."""

FILES_A_FOLDER = 12
NOISE_EVERY = 12  # one file in so many does not compress
WORDS = (
    *("self", "path", "value", "node", "index", "entry", "state", "result", "config", "item"),
    *("key", "name", "size", "count", "offset", "buffer", "reader", "writer", "handler", "token"),
    *("request", "response", "session", "user", "error", "message", "field", "parent", "child"),
    *("left", "right", "first", "last", "start", "stop", "begin", "end", "open", "close", "load"),
)
SHAPES = (
    "    def {a}_{b}(self, {c}):\n",
    "        return self.{a}.{b}({c})\n",
    "        if {a} is None or {b} < {n}:\n",
    "    {a}_{b} = {n}\n",
    "            {a}.{b}[{c}] = {n}\n",
    "# The {a} of a {b} is kept until its {c} is gone.\n",
    "        for {a} in sorted({b}_{c}):\n",
    "\n",
    "raise {a}Error({n}, {b!r})\n",
    "import {a}.{b}.{c}\n",
)


@dataclass(frozen=True)
class Spec:
    """What a tree is made of."""

    name: str
    title: str
    files: int
    spread: Callable[[random.Random], int]  # the size in bytes of one file of text
    noise: Callable[[random.Random], int] | None = None
    big: bool = False


def _source(mean: int) -> Callable[[random.Random], int]:
    # Log-normal, as the sizes of source files are: most small, a few very long.
    return lambda rng: min(int(rng.lognormvariate(0, 1.1) * mean * 0.55), mean * 40) + 64


def _small(rng: random.Random) -> int:
    return rng.randrange(200, 1500)


MB = 1_000_000
BIG_FILES = (
    ("logs/events.log", 312 * MB),
    ("data/table.bin", 300 * MB),
    ("logs/trace.jsonl", 200 * MB),
    ("data/model.bin", 212 * MB),
)

SPECS = {
    spec.name: spec
    for spec in (
        Spec("2k", "2 k files", 2000, _source(8400), _source(24_000)),
        Spec("3k", "3 k files", 3000, _source(6000), _source(12_000)),
        Spec("50k", "50 k files", 50_000, _source(10_100), _source(30_000)),
        Spec("big", "A few big files", len(BIG_FILES), _small, big=True),
        Spec("250k", "250 k small files", 250_000, _small),
    )
}

MIDDLE = Spec("12k", "12 k files", 12_000, _source(8400), _source(24_000))
"""Between the others, for whoever compares commands."""


@dataclass
class Tree:
    """One tree on disk, with what is needed to bring it back."""

    spec: Spec
    path: Path
    pristine: Path  # originals of what was edited, one file each
    names: list[str]
    total_bytes: int = 0
    edited: dict[str, Path] = field(default_factory=dict[str, Path])

    @property
    def is_big(self) -> bool:
        return self.spec.big

    def choose(self, version: int) -> list[str]:
        """Returns which files a version changes."""
        rng = random.Random(f"{self.spec.name}/edit/{version}")
        # Nobody puts a line into a picture; into the middle of a table somebody does.
        names = [name for name in self.names if not name.endswith(".png")]
        return sorted(rng.sample(names, min(EDITS, len(names))))

    def edit(self, version: int) -> list[str]:
        """Changes ten places, and returns in which files."""
        chosen = self.choose(version)
        for number, name in enumerate(chosen):
            if name not in self.edited:
                kept = self.pristine / str(len(self.edited))
                shutil.copyfile(self.path / name, kept)
                self.edited[name] = kept
            if not self.is_big:
                _insert(self.path / name, f"# edit {version}.{number}\n".encode())
        if self.is_big:
            self._edit_inside(version)
        return chosen

    def _edit_inside(self, version: int) -> None:
        rng = random.Random(f"{self.spec.name}/inside/{version}")
        for number in range(EDITS):
            path = self.path / self.names[number % len(self.names)]
            with path.open("r+b") as file:
                file.seek(rng.randrange(path.stat().st_size - 64))
                file.write(rng.randbytes(64))
        _insert(self.path / self.names[2], f"# inserted {version}\n".encode())

    def reset(self) -> None:
        """Brings back the bytes that the tree was made with."""
        for name, kept in self.edited.items():
            shutil.copyfile(kept, self.path / name)

    def digests(self, names: list[str]) -> dict[str, bytes]:
        return {name: digest_of(self.path / name) for name in names}

    def expect(self, wanted: dict[str, bytes], *, of: str) -> None:
        """Fails unless these files hold these bytes: a rollback that brought nothing back."""
        found = self.digests(list(wanted))
        wrong = [name for name, digest in wanted.items() if found[name] != digest]
        assert not wrong, f"{of} did not bring back {wrong}"

    def expect_copy(self, target: Path, *, of: str) -> None:
        """Fails unless `target` is this tree: every file there, and a sample byte for byte."""
        found = sum(len(files) for _, _, files in os.walk(target))
        assert found == len(self.names), f"{of} restored {found} of {len(self.names)} files"
        rng = random.Random(5)
        for name in rng.sample(self.names, min(100, len(self.names))):
            assert digest_of(target / name) == digest_of(self.path / name), f"{of}: {name}"


def make_tree(spec: Spec, folder: Path) -> Tree:
    """Writes the tree of a specification below `folder`, which need not exist."""
    tree = Tree(spec, folder / "tree", folder / "pristine", [])
    tree.pristine.mkdir(parents=True)
    tree.path.mkdir()
    for name in ("logs", "data") if spec.big else ():
        (tree.path / name).mkdir()
    for name, blocks in _big_files() if spec.big else _many_files(spec, tree.path):
        tree.names.append(name)
        descriptor = os.open(tree.path / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        for block in blocks:
            tree.total_bytes += os.write(descriptor, block)
        os.close(descriptor)
    return tree


def _many_files(spec: Spec, root: Path) -> Iterator[tuple[str, list[bytes]]]:
    folder = ""
    for number in range(spec.files):
        if number % FILES_A_FOLDER == 0:
            part = number // FILES_A_FOLDER
            folder = f"area{part % 13:02d}/part{part // 13 % 29:02d}/unit{part:05d}"
            (root / folder).mkdir(parents=True)
        rng = random.Random(f"{spec.name}/{number}")
        if spec.noise and number % NOISE_EVERY == 7:
            yield f"{folder}/image{number:06d}.png", [rng.randbytes(spec.noise(rng))]
        else:
            body = _text(rng, spec.spread(rng))
            yield f"{folder}/module{number:06d}.py", [f'"""Module {number}."""\n'.encode() + body]


def _big_files() -> Iterator[tuple[str, Iterator[bytes]]]:
    for name, size in BIG_FILES:
        yield name, _blocks(name, size)


def _blocks(name: str, size: int) -> Iterator[bytes]:
    rng = random.Random(name)
    for _ in range(size // MB):
        yield rng.randbytes(MB) if name.endswith(".bin") else _text(rng, MB)


def _text(rng: random.Random, size: int) -> bytes:
    # A line is 32 bytes in the mean: enough of them in almost every case, then cut to size.
    return b"".join(rng.choices(_lines(), k=size // 27 + 4))[:size]


@cache
def _lines() -> list[bytes]:
    # As many different lines as make zstd find about what it finds in source: a fourth is left.
    rng = random.Random("lines")
    lines: list[bytes] = []
    for _ in range(40_000):
        a, b, c = rng.choices(WORDS, k=3)
        shape = rng.choice(SHAPES)
        lines.append(shape.format(a=a, b=b, c=c, n=rng.randrange(10_000)).encode())
    return lines


def _insert(path: Path, line: bytes) -> None:
    """Puts a line into the middle of a file, and writes the rest of it again behind it."""
    with path.open("r+b") as file:
        middle = path.stat().st_size // 2
        file.seek(middle)
        rest = file.read()
        file.seek(middle)
        file.write(line + rest)


def digest_of(path: Path) -> bytes:
    return blake3().update_mmap(path).digest()
