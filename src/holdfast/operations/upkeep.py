"""Looking after all that a workspace has: collecting and verifying."""

from dataclasses import KW_ONLY
from typing import Annotated

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
