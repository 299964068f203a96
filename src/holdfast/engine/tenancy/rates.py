"""How many requests a key may make, counted for all servers and workers of a vault together.

What a key may make fills up steadily, to as much as it gets in a few seconds: a minute's requests
cannot come in one of its seconds. How much is left stands in the catalog, by the database's clock.
Whoever answers requests takes some of it ahead, a second's worth or a few, and gives back what it
did not need: so no more are made than one server alone would let through.
"""

import math
from dataclasses import dataclass
from typing import Final, NamedTuple

from holdfast.engine.core.context import Context

MINUTE_S: Final = 60
BURST_S: Final = 10
LEAST_BURST: Final = 30
"""What a key may make at once is what it gets in so many seconds, or so many requests; never more
than in a minute."""

PARTS: Final = 10
"""A tenth of what a key may make at once is taken ahead, or what it gets in a second: more would
lie with one server while another has none, less is asked for too often."""

_MICRO: Final = 1_000_000


@dataclass(slots=True)
class Bucket:
    """The requests that somebody may make: so many a minute, and so many at once."""

    limit: int
    left: float
    at: float
    """When so many were left."""

    @property
    def per_second(self) -> float:
        """How many come back in a second."""
        return self.limit / MINUTE_S

    def fill(self, now: float) -> None:
        """Adds what has come since it was last looked at; a clock may go back."""
        came = max(0.0, now - self.at) * self.per_second
        self.left, self.at = min(burst_of(self.limit), self.left + came), now

    def seconds_until(self, count: float) -> float:
        """Returns how long it takes until so many may be made at once."""
        return max(0.0, count - self.left) / self.per_second


def burst_of(limit: int) -> int:
    """Returns how many requests may be made at once, where so many may be made in a minute."""
    return min(limit, max(LEAST_BURST, limit * BURST_S // MINUTE_S))


class Taken(NamedTuple):
    """What was taken of a key's requests."""

    granted: int
    left: float
    """What there was beside it."""


def take(context: Context, key_id: str, *, limit: int, wanted: int) -> Taken:
    """Takes so many requests of a key, or what there is; gives some back that were not made.

    `wanted` is less than 0 for these.
    """
    with context.catalog.write() as transaction:
        row = transaction.lock_rate(key_id)
        bucket = Bucket(limit, burst_of(limit), row.now / _MICRO)
        if row.left is not None and row.at is not None:
            bucket.left, bucket.at = row.left / _MICRO, row.at / _MICRO
            bucket.fill(row.now / _MICRO)
        granted = min(wanted, max(0, math.floor(bucket.left)))
        bucket.left = min(burst_of(limit), bucket.left - granted)
        transaction.set_rate(key_id, left=round(bucket.left * _MICRO))
    return Taken(granted, bucket.left)


def share_of(limit: int) -> int:
    """Returns how many requests are taken ahead."""
    return math.ceil(max(limit / MINUTE_S, burst_of(limit) / PARTS))


def purge(context: Context) -> None:
    """Forgets keys that have all of theirs again, as they do after a minute."""
    with context.catalog.write() as transaction:
        transaction.purge_rates(idle_us=2 * MINUTE_S * _MICRO)
