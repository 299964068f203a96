"""What a server says of itself while the place of its packs is away: it goes on, and says so."""

import pytest

from holdfast.errors import HoldfastError, StorageDenied, Unavailable
from holdfast.server.readiness import AGAIN_S, ASKS_S, AWAY_S, Packs
from holdfast.server.routes.info import ServerHealth, describe


class Place:
    """A place of packs, and its clock: each question takes a quarter of a second."""

    def __init__(self) -> None:
        self.now, self.answers = 100.0, 0
        self.problem: HoldfastError | None = None

    def ask(self) -> None:
        self.now += 0.25
        if self.problem is not None:
            raise self.problem

    def note(self) -> None:
        self.answers += 1


@pytest.fixture
def place() -> Place:
    return Place()


@pytest.fixture
def packs(place: Place) -> Packs:
    return Packs(place.ask, note=place.note, clock=lambda: place.now)


def look(packs: Packs | None) -> ServerHealth:
    return describe(0.002, packs)


def test_a_server_whose_packs_are_on_its_own_disk_stands_on_its_catalog_alone() -> None:
    said = look(None)
    assert (said.status, said.services.keys()) == ("healthy", {"catalog"})
    assert said.services["catalog"].latency_ms == 2


def test_packs_that_are_away_for_long_make_a_server_degraded_and_not_unready(
    place: Place, packs: Packs
) -> None:
    assert look(packs).status == "healthy"  # It was opened a moment ago.
    assert packs.look() == ASKS_S
    assert look(packs).services["packs"].latency_ms == 250
    place.problem = Unavailable("no answer")
    assert packs.look() == AGAIN_S
    assert look(packs).status == "healthy"
    place.problem = StorageDenied("the bucket", reason="the keys are of yesterday")
    place.now += AWAY_S
    assert packs.look() == AGAIN_S
    said = look(packs)
    assert (said.status, said.services["packs"].status) == ("degraded", "away")
    assert said.services["catalog"].status == "healthy"
    assert place.answers == 1
    place.problem = None
    assert packs.look() == ASKS_S
    assert (look(packs).status, place.answers) == ("healthy", 2)


def test_a_place_that_never_answers_is_away_as_well(place: Place, packs: Packs) -> None:
    packs.look()
    place.now += AWAY_S + 1  # And the next question has not come back.
    assert look(packs).status == "degraded"
