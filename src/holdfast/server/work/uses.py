"""Writes down when keys were last used: now and then, not with every request."""

from typing import Final

from holdfast.engine.vault import Holdfast
from holdfast.server.rates import Rates
from holdfast.server.work.loops import Job

EVERY_S: Final = 5.0


def make_job(vault: Holdfast, rates: Rates) -> Job:
    """Returns the job."""

    def record() -> float:
        uses = rates.take_uses()
        if uses:
            vault.record_uses(uses)
        return EVERY_S

    return record
