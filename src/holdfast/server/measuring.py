"""Metrics beside those of requests: what the catalog is busy with, and what waits to be done.

`/metrics` shows what was last measured, and asks nobody: whoever may look at it could otherwise
keep a database busy. Each worker measures by itself; what it counts is added up over all of them,
and what the catalog knows is the same for all.
"""

import math
import time
from collections.abc import Callable
from typing import Final

from prometheus_client import Counter, Gauge

from holdfast.engine.vault import Holdfast
from holdfast.errors import HoldfastError
from holdfast.instruments import TALLIES
from holdfast.server.work.loops import Job

EVERY_S: Final = 1.0
ASKS_S: Final = 15.0
"""How often the worker's own numbers are taken over, and how often the catalog is asked."""

_SUM: Final = "livesum"
_LAST: Final = "livemostrecent"
_LEAST: Final = "livemin"

USED: Final = Gauge(
    "holdfast_catalog_used",
    "Connections to the database that are in use; with SQLite, whether somebody writes.",
    multiprocess_mode=_SUM,
)
MOST: Final = Gauge(
    "holdfast_catalog_most", "How many of these there can be.", multiprocess_mode=_SUM
)
WAITING: Final = Gauge(
    "holdfast_catalog_waiting", "Threads that wait for one.", multiprocess_mode=_SUM
)
WAITS: Final = Counter("holdfast_catalog_waits", "How often somebody had to wait for one.")
WAITED: Final = Counter("holdfast_catalog_wait_seconds", "How long all of these have waited.")
RETRIES: Final = Counter(
    "holdfast_retries", "Units of work that were done again, as another writer was faster."
)
BUCKET: Final = Counter("holdfast_bucket_requests", "Requests to the bucket.", ("kind",))
BUCKET_BYTES: Final = Counter(
    "holdfast_bucket_bytes", "Bytes of packs, read and written.", ("way",)
)
CACHE: Final = Counter(
    "holdfast_cache_reads", "Reads of what may be kept of the bucket here.", ("outcome",)
)
DUE: Final = Gauge(
    "holdfast_deliveries_due",
    "Deliveries to webhooks that are due, up to 10,000.",
    multiprocess_mode=_LAST,
)
DUE_SINCE: Final = Gauge(
    "holdfast_deliveries_due_timestamp_seconds",
    "Since when the first of them is; 0 for none.",
    multiprocess_mode=_LAST,
)
COLLECTED: Final = Gauge(
    "holdfast_collected_timestamp_seconds",
    "When bytes were last given back in all of the vault; 0 for never.",
    multiprocess_mode=_LAST,
)
INLINE: Final = Gauge(
    "holdfast_inline_bytes",
    "Bytes of packs that are in the catalog, until they are moved to where packs are.",
    multiprocess_mode=_LAST,
)

REPLICAS: Final = Gauge(
    "holdfast_replicas", "Replicas that the database sends its log to.", multiprocess_mode=_LAST
)
REPLICA_LAG: Final = Gauge(
    "holdfast_replica_lag_bytes",
    "How much of the log the last of them has still to keep; NaN where nobody can say.",
    multiprocess_mode=_LAST,
)
PACKS_ANSWERED: Final = Gauge(
    "holdfast_packs_answered_timestamp_seconds",
    "When the bucket, or wherever else packs are, last answered; 0 for packs beside the rows.",
    multiprocess_mode=_LEAST,
)

_COUNTERS: Final[dict[str, Counter]] = {
    "retries": RETRIES,
    "cache_hits": CACHE.labels("hit"),
    "cache_misses": CACHE.labels("miss"),
    **{f"bucket_{kind}": BUCKET.labels(kind) for kind in ("get", "put", "head", "list", "delete")},
    "bucket_read_bytes": BUCKET_BYTES.labels("read"),
    "bucket_written_bytes": BUCKET_BYTES.labels("written"),
}
"""What shows each tally; made at once, so that what never happened is shown as 0."""


class Measuring:
    """Takes over what is counted, and asks the catalog now and then."""

    def __init__(self, vault: Holdfast, clock: Callable[[], float] = time.monotonic) -> None:
        self._vault, self._clock = vault, clock
        self._seen = dict.fromkeys(_COUNTERS, 0)
        self._waits, self._waited_s, self._asks_at = 0, 0.0, clock()

    def measure(self) -> float:
        """Measures; returns the seconds until the next time."""
        self._take_over()
        if self._clock() >= self._asks_at:
            self._asks_at = self._clock() + ASKS_S
            self._ask()
        return EVERY_S

    def _take_over(self) -> None:
        for name, count in TALLIES.read().items():
            _COUNTERS[name].inc(count - self._seen[name])
            self._seen[name] = count
        load = self._vault.load()
        USED.set(load.used)
        MOST.set(load.most)
        WAITING.set(load.waiting)
        WAITS.inc(load.waits - self._waits)
        WAITED.inc(max(0.0, load.waited_s - self._waited_s))
        self._waits, self._waited_s = load.waits, load.waited_s

    def _ask(self) -> None:
        try:
            found = self._vault.measure()
        except HoldfastError:
            return  # Others tell of a catalog that is away; what was counted is shown all the same.
        DUE.set(found.deliveries)
        for gauge, at in ((DUE_SINCE, found.deliveries_since), (COLLECTED, found.collected_at)):
            gauge.set(0 if at is None else at.timestamp())
        INLINE.set(found.inline_bytes)
        REPLICAS.set(found.replicas)
        lag = found.replica_lag_bytes
        REPLICA_LAG.set(math.nan if lag is None else lag)


def measuring(vault: Holdfast) -> Job:
    """Returns the job that measures."""
    return Measuring(vault).measure
