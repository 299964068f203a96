"""What is measured beside requests: what is counted is shown, also while a database is away."""

import math
import os
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from prometheus_client import REGISTRY

from holdfast.catalog.turns import Slots
from holdfast.errors import Unavailable
from holdfast.instruments import NAMES, TALLIES
from holdfast.model.upkeep import Load, Measures
from holdfast.server.measuring import ASKS_S, Measuring
from holdfast.server.routes.info import SHARED_METRICS, _forget_dead_workers

NOW = datetime(2026, 11, 18, tzinfo=UTC)


class Vault:
    """A vault that says what it is told to."""

    def __init__(self) -> None:
        self.busy = Load(used=3, most=16, waiting=2, waits=5, waited_s=0.5)
        self.asked = 0
        self.is_away = False

    def load(self) -> Load:
        return self.busy

    def measure(self) -> Measures:
        self.asked += 1
        if self.is_away:
            raise Unavailable("it is away")
        return Measures(
            deliveries=4,
            deliveries_since=NOW,
            inline_packs=1,
            inline_bytes=70 + self.asked,
            looked_after_at=NOW,
            collected_at=None,
            replicas=2,
            replica_lag_bytes=None if self.asked == 1 else 900,
        )


def value(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(name, labels) or 0.0


def test_what_is_counted_is_shown_once_and_the_catalog_is_asked_now_and_then() -> None:
    vault, now = Vault(), [100.0]
    measuring = Measuring(vault, clock=lambda: now[0])  # pyright: ignore[reportArgumentType] - all that is asked of it
    measuring.measure()
    before = value("holdfast_retries_total"), value("holdfast_catalog_waits_total")
    for name in NAMES:
        TALLIES.add(name, 2)
    vault.busy = Load(used=1, most=16, waiting=0, waits=9, waited_s=1.5)
    for _ in range(2):
        measuring.measure()
    assert value("holdfast_retries_total") == before[0] + 2
    assert value("holdfast_catalog_waits_total") == before[1] + 4
    assert value("holdfast_catalog_used") == 1
    assert vault.asked == 1
    assert value("holdfast_deliveries_due_timestamp_seconds") == NOW.timestamp()
    assert value("holdfast_collected_timestamp_seconds") == 0
    # Nobody may look at it: that is not as if nobody was behind.
    assert value("holdfast_replicas") == 2
    assert math.isnan(value("holdfast_replica_lag_bytes"))
    now[0] += ASKS_S
    measuring.measure()
    assert (vault.asked, value("holdfast_inline_bytes")) == (2, 72)
    assert value("holdfast_replica_lag_bytes") == 900
    # While the database is away, what is counted here is shown all the same.
    vault.is_away, now[0] = True, now[0] + ASKS_S
    TALLIES.add("bucket_get")
    gets = value("holdfast_bucket_requests_total", kind="get")
    measuring.measure()
    assert (vault.asked, value("holdfast_inline_bytes")) == (3, 72)
    assert value("holdfast_bucket_requests_total", kind="get") == gets + 1


def test_who_has_to_wait_is_counted_and_for_how_long() -> None:
    slots = Slots(1, wait_s=30)
    first = slots.take()
    waiting = threading.Thread(target=lambda: slots.leave(slots.take()))
    waiting.start()
    wait_until(lambda: slots.load().waiting == 1)
    assert (slots.load().used, slots.load().most, slots.load().waits) == (1, 1, 0)
    slots.leave(first)
    waiting.join(30)
    load = slots.load()
    assert (load.used, load.waiting, load.waits, load.waited_s > 0) == (0, 0, 1, True)
    impatient = Slots(1, wait_s=0.01)
    impatient.take()
    with pytest.raises(Unavailable):
        impatient.take()
    assert (impatient.load().waiting, impatient.load().waits) == (0, 1)


def wait_until(is_so: Callable[[], bool]) -> None:
    pause = threading.Event()
    for _ in range(3000):
        if is_so():
            return
        pause.wait(0.01)
    raise AssertionError


def test_a_worker_whose_number_is_somebody_elses_now_has_nothing_under_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_process: int, _signal: int) -> None:
        raise PermissionError

    monkeypatch.setenv(SHARED_METRICS, str(tmp_path))
    monkeypatch.setattr(os, "kill", refuse)
    (left := tmp_path / "gauge_livesum_4711.db").touch()
    _forget_dead_workers()
    assert not left.exists()
