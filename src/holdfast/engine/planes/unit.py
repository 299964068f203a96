"""One unit of work: the one way in which something is written that may have to be written again.

    def write(stage: Stage) -> T:
        ...                                     # add objects
        stage.seal()                            # all bytes are on disk, none is named
        with handle.context.work() as transaction:
            head = handle.lock(transaction)     # writers of one namespace take turns
            ...                                 # look, check quotas, write rows
            stage.record(transaction)           # named, if the transaction commits
            ...                                 # tell of it: a trace, an event

    done = carry_out(handle, write)

The transaction is also the one that a request under a name keeps its reply in (`core/replying.py`).
The batch is kept as that one is, or withdrawn.

It is done again, from an empty batch on, if the collector took something in between that it was to
use again, if another writer was faster, or if the database asks one of two to step back. And it is
done anew where it needed something of a bucket while its transaction was open (`fetching.py`).
"""

import time
from collections.abc import Callable
from functools import partial
from typing import Final, TypeVar

from holdfast.engine.core.recent import Mistaken
from holdfast.engine.objects.stage import Stage, Withdrawn
from holdfast.engine.planes.handle import Handle
from holdfast.errors import Busy
from holdfast.fetching import anew
from holdfast.instruments import TALLIES

ATTEMPTS: Final = 5
"""Times a unit is tried before its caller is told `Busy`."""

PATIENCE_S: Final = 5.0
"""After which it is not tried again: who waited so long for others has waited long enough."""

PAUSE_S: Final = 0.002
"""How long the second attempt waits, and the next ones as often longer: others shall get done."""

T = TypeVar("T")

Attempt = Callable[[Stage], T]


def carry_out(
    handle: Handle,
    attempt: Attempt[T],
    *,
    last: Attempt[T] | None = None,
    is_around: bool = False,
) -> T:
    """Does a unit of work in a namespace, and returns what it returns.

    `last` is what is tried the last time, by who would rather work beside others than keep them
    waiting. One that `is_around` another, in whose transaction its batch is named, is done again
    only if that batch has to be made again: all else the other one has tried already.
    """
    stop = time.monotonic() + PATIENCE_S
    for tried in range(1, ATTEMPTS + 1):
        is_last, stage = tried == ATTEMPTS, Stage(handle.context, handle.tenant_id)
        try:
            with stage:
                run = partial(last if is_last and last is not None else attempt, stage)
                if not handle.context.blobs.is_remote:
                    return run()  # Nothing has to be fetched.
                return anew(run, rewrites=True, again=stage.begin_again)
        except Withdrawn as exc:
            if exc.batch not in (None, stage):
                raise
            if is_last:
                raise Busy(str(exc)) from exc
        except Busy as exc:
            if isinstance(exc, Mistaken) and not is_last:
                continue  # There is nobody to wait for.
            if is_last or is_around or (last is None and time.monotonic() > stop):
                raise
        TALLIES.add("retries")
        time.sleep(PAUSE_S * tried)
    raise AssertionError
