"""How many requests a key may make, counted for all servers and workers of a vault together.

Promises, whichever servers answer:

1. In any 60 seconds a key makes no more requests than its limit says.
2. They do not come in one second: what may be made at once fills up steadily, to as much as the key
   gets in a few seconds.

Both stand in the catalog, by the database's clock: how much is left of what may be made at once,
and how many were taken in each second of the last minute. Whoever answers requests takes some
ahead, a second's worth or a few, and gives back what it did not need within a second. So what
counts for a minute is a second more than that.
"""

import math
from dataclasses import dataclass, field
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

TAKEN_S: Final = 1.0
"""How long what was taken ahead may be used."""

COUNTED_S: Final = MINUTE_S + math.ceil(TAKEN_S)
"""How many seconds before this one count: a request may be made a second after it was taken."""

LONGEST_S: Final = COUNTED_S + 1
"""After so long without a request a key has all of them again."""

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


class Grant(NamedTuple):
    """Requests that were taken, and the second in which they were."""

    amount: int
    second: int


@dataclass(slots=True)
class Allowance(Bucket):
    """The same for who may make no more in any minute than in the one before."""

    made: dict[int, int] = field(default_factory=dict[int, int])
    """How many in each second that counts."""

    @property
    def free(self) -> int:
        """How many may be made at once, as of when it was last looked at."""
        return max(0, min(math.floor(self.left), self.limit - sum(self.made.values())))

    def fill(self, now: float) -> None:
        """Adds what has come since it was last looked at, and lets go of what counts no more."""
        if now < self.at:
            self.rebase(now)
        is_another_second = math.floor(now) != math.floor(self.at)
        Bucket.fill(self, now)
        if is_another_second:
            first = math.floor(now) - COUNTED_S
            self.made = {second: count for second, count in self.made.items() if second >= first}

    def rebase(self, now: float) -> None:
        """Goes by a clock that says so now, as of when it was last looked at."""
        by = math.ceil(now - self.at)
        self.made = {second + by: count for second, count in self.made.items()}
        self.at = now

    def spend(self, count: int) -> Grant:
        """Counts requests of this second, as many of these as may be made; returns them."""
        granted = Grant(min(count, self.free), math.floor(self.at))
        self.left -= granted.amount
        if granted.amount:
            self.made[granted.second] = self.made.get(granted.second, 0) + granted.amount
        return granted

    def give_back(self, unused: Grant) -> bool:
        """Counts requests no more that were not made; says whether their second still counts."""
        self.left = min(burst_of(self.limit), self.left + unused.amount)
        is_counted = unused.second in self.made
        if is_counted:
            self.made[unused.second] -= unused.amount
        return is_counted

    def seconds_until(self, count: float) -> float:
        """Returns how long it takes until so many may be made at once."""
        wait_s = Bucket.seconds_until(self, count)
        over = sum(self.made.values()) + count - self.limit
        for second in sorted(self.made):
            if over <= 0:
                break
            over -= self.made[second]
            wait_s = max(wait_s, second + LONGEST_S - self.at)
        return wait_s


def burst_of(limit: int) -> int:
    """Returns how many requests may be made at once, where so many may be made in a minute."""
    return min(limit, max(LEAST_BURST, limit * BURST_S // MINUTE_S))


class Taken(NamedTuple):
    """What was taken of a key's requests."""

    granted: Grant
    allowance: Allowance
    """What there is beside it, by the database's clock."""


def take(
    context: Context, key_id: str, *, limit: int, wanted: int, unused: Grant | None = None
) -> Taken:
    """Takes so many requests of a key, or what there is; what is unused is given back before."""
    with context.catalog.write() as transaction:
        row = transaction.lock_rate(key_id)
        now = row.now / _MICRO
        allowance = Allowance(limit, burst_of(limit), now)
        if row.left is not None and row.at is not None:
            allowance.left, allowance.at = row.left / _MICRO, row.at / _MICRO
        allowance.fill(now)
        last = math.floor(now)
        # None of later ones: a clock that was set back keeps nobody out.
        allowance.made = transaction.requests_between(key_id, last - COUNTED_S, last)
        if unused is not None and allowance.give_back(unused):
            transaction.add_requests(key_id, unused.second, -unused.amount)
        granted = allowance.spend(wanted)
        if granted.amount:
            transaction.add_requests(key_id, granted.second, granted.amount)
        transaction.set_rate(key_id, left=round(allowance.left * _MICRO))
    return Taken(granted, allowance)


def share_of(limit: int) -> int:
    """Returns how many requests are taken ahead."""
    return math.ceil(max(limit / MINUTE_S, burst_of(limit) / PARTS))


def purge(context: Context) -> None:
    """Forgets keys that have all of theirs again, as they do after a minute."""
    with context.catalog.write() as transaction:
        transaction.purge_rates(idle_us=2 * MINUTE_S * _MICRO)
