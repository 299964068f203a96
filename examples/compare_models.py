"""Two models, one task: fork the agent's world, let each work in its own, keep the better one.

A fork costs the same for ten files and for a million, and what happens in one is not seen in the
other. So both models start from the same moment, with the same files, store and conversation,
and neither can spoil anything for the other or for the users of the original.

Two functions play the models, so that this runs offline and always the same way.
"""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import holdfast

TEXT = "The the service starts on port 80. Is is stops with ctrl-c.\n"

Model = Callable[[str], str]


@dataclass(frozen=True)
class Result:
    """What a model made of the task."""

    model: str
    fork: holdfast.Namespace
    score: float


def careful(text: str) -> str:
    """A model that repairs what is wrong, and leaves the rest."""
    return text.replace("The the", "The").replace("Is is stops", "It stops")


def verbose(text: str) -> str:
    """A model that repairs some of it, and talks."""
    return "Certainly! Here is your text:\n" + text.replace("The the", "The")


MODELS: dict[str, Model] = {"careful-1": careful, "verbose-2": verbose}


def score(text: str) -> float:
    """Judges a text, from 0 to 1: no doubled words, nothing that was not asked for."""
    words = text.lower().split()
    doubled = sum(one == other for one, other in pairwise(words))
    return max(0.0, 1.0 - 0.3 * doubled - (0.5 if "certainly" in words[0] else 0.0))


def attempt(origin: holdfast.Namespace, name: str, *, at: holdfast.SnapshotInfo) -> Result:
    """Lets one model work in a fork of its own."""
    fork = origin.fork(f"try-{name}", at=at)
    better = MODELS[name](fork.files.read_text("guide.md"))
    fork.files.write("guide.md", better)
    fork.store.set("run", "model", name)
    fork.snapshot(f"what {name} made of it")
    return Result(name, fork, score(better))


def main() -> None:
    """Compares two models, and merges what the better one did."""
    with tempfile.TemporaryDirectory() as folder, holdfast.open(folder) as hf:
        writer = hf.namespace("writer")
        writer.files.write("guide.md", TEXT)
        start = writer.snapshot("before the rewrite")

        results = sorted(
            (attempt(writer, name, at=start) for name in MODELS), key=lambda each: -each.score
        )
        for result in results:
            print(f"{result.model}: {result.score:.1f}")

        best = results[0]
        merged = writer.merge(best.fork)
        print("merged:", ", ".join(f"{each.change} {each.name}" for each in merged.changes))
        print(writer.text_diff("guide.md", start, "@"), end="")

        for result in results:
            hf.delete_namespace(result.fork.name)
        print("left:", hf.namespaces())


if __name__ == "__main__":
    main()
