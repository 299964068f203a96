"""The part of a transaction that is about answers that a repeated request gets again."""

from datetime import datetime
from typing import Protocol

from holdfast.model_replies import Reply, ReplyPlace


class ReplyRows(Protocol):
    """Rows of replies."""

    def add_reply(self, place: ReplyPlace, reply: Reply) -> bool:
        """Adds a request that is seen for the first time; False if it was seen before."""
        ...

    def find_reply(self, place: ReplyPlace) -> Reply | None: ...
    def set_reply(self, place: ReplyPlace, reply: Reply, *, seen: datetime) -> bool:
        """Replaces a reply; False if its lease is not the one that was seen."""
        ...

    def delete_reply(self, place: ReplyPlace, *, seen: datetime) -> bool:
        """Removes a reply; False if its lease is not the one that was seen."""
        ...

    def purge_replies(self, *, before: datetime) -> int:
        """Removes what is older for good; returns how many replies that were."""
        ...
