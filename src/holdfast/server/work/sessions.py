"""Ends sessions: looks every second for those whose time is over."""

from typing import Final

from holdfast.engine.vault import Holdfast
from holdfast.server.work.loops import Job

EVERY_S: Final = 1.0


def make_job(vault: Holdfast) -> Job:
    """Returns the job."""

    def look() -> float:
        return 0.0 if vault.end_lapsed_sessions() else EVERY_S

    return look
