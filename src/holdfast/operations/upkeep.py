"""Looking after all that a workspace has: collecting, verifying, and erasing for good."""

from dataclasses import KW_ONLY
from typing import Annotated, Final

from holdfast.model.erasures import Certificate
from holdfast.model.marks import QUERY
from holdfast.model.upkeep import Collected, Verified
from holdfast.operations.operation import WORKSPACE, Operation, Who, Work


class Collect(
    Operation[Collected],
    post=f"{WORKSPACE}/collect",
    who=Who.OPERATOR,
    work=Work.LONG,
    is_slow=True,
):
    """Applies retention, and gives back the bytes that nothing needs any more.

    They are kept for a while, in case the database is set back; with `now` they go at once.
    """

    _: KW_ONLY
    now: Annotated[bool, QUERY] = False


class Verify(
    Operation[Verified],
    post=f"{WORKSPACE}/verify",
    who=Who.OPERATOR,
    work=Work.LONG,
    is_slow=True,
):
    """Hashes everything again, and names what is damaged."""


_ALL: Final = f"{WORKSPACE}/erasures"


class Erase(Operation[Certificate], post=_ALL, who=Who.OPERATOR, work=Work.LONG, is_slow=True):
    """Erases for good, with all bytes that nothing else needs; there is no way back.

    A `namespace`, its session `session_id`, or all that is known to be the user's `user_id`. Forks
    keep what they hold, and are named. `confirm` is the id of the user or session, else the name of
    the namespace. Of several namespaces with this name it is that with the `number`; else the live
    one, or the last deleted.
    """

    _: KW_ONLY
    confirm: str
    namespace: str | None = None
    number: int | None = None
    session_id: str | None = None
    user_id: str | None = None


class ListErasures(Operation[list[Certificate]], get=_ALL, who=Who.OPERATOR, under="erasures"):
    """Returns the certificates of what was erased, newest first."""
