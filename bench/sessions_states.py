"""The states that `bench_sessions.py` keeps: objects of text that a seed chooses.

One key in a hundred changes at each step, at least one. Text is made of a few thousand words, so
that it compresses as text does, and no value comes twice.
"""

import random
from dataclasses import dataclass
from typing import Any, Final

State = dict[str, Any]

_RNG: Final = random.Random(7433)
_LETTERS: Final = "etaoinshrdlucmfwypvbgk"
WORDS: Final = ["".join(_RNG.choices(_LETTERS, k=_RNG.randint(2, 9))) for _ in range(4000)]

MESSAGE_CHARS: Final = 150
"""Of the text alone: with its role and id a message has 200 bytes."""


@dataclass(frozen=True)
class Shape:
    """How large a state is, and of what parts."""

    name: str
    keys: int
    value_chars: int

    @property
    def changed(self) -> int:
        return max(self.keys // 100, 1)

    def state(self, seed: object = 0) -> State:
        rng = random.Random(f"{self.name} {seed}")
        return {key_of(number): text(rng, self.value_chars) for number in range(self.keys)}

    def changes(self, seed: object) -> State:
        rng = random.Random(f"{self.name} {seed}")
        chosen = rng.sample(range(self.keys), self.changed)
        return {key_of(number): text(rng, self.value_chars) for number in chosen}


SHAPES: Final = (
    Shape("1 KB", 10, 85),
    Shape("10 KB", 100, 85),
    Shape("100 KB", 200, 485),
    Shape("1 MB", 1000, 1000),
)


def key_of(number: int) -> str:
    return f"field_{number:04d}"


def text(rng: random.Random, chars: int) -> str:
    return " ".join(rng.choices(WORDS, k=chars // 4 + 1))[:chars]


def message(number: int) -> State:
    """Returns a message of a conversation, about 200 bytes as JSON."""
    rng = random.Random(f"message {number}")
    role = "assistant" if number % 2 else "user"
    return {"role": role, "id": f"message-{number:05d}", "content": text(rng, MESSAGE_CHARS)}
