"""Which moment a request reads: what is there now, or what a snapshot shows."""

from typing import Annotated

from msgspec import Meta

from holdfast.engine.namespace import Moment, Namespace

At = Annotated[
    str | None,
    Meta(description="A snapshot: what is read is as it was then, and not as it is now."),
]


def seen(agent: Namespace, at: str | None) -> Namespace | Moment:
    """Returns the namespace as it is now, or as a snapshot shows it."""
    return agent if at is None else agent.at(at)
