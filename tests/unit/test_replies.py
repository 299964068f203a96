"""Replies: a request under a name is done by one, once, and answered the same for a day."""

import json
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from threading import Barrier, Thread

import pytest

from holdfast.blobs.memory import MemoryBlobStore
from holdfast.catalog.sqlite import SqliteCatalog
from holdfast.engine.context import Context
from holdfast.engine.replies import KEPT, LEASE, Replies
from holdfast.errors import RequestReused, RequestRunning
from holdfast.model_replies import Reply, ReplyPlace
from holdfast.testing.clocks import Watch

SECOND = timedelta(seconds=1)
PLACE = ReplyPlace("key-1", "POST", "/v1/tasks", "once")
ASKED, OTHER = b"what was asked", b"something else"


@pytest.fixture
def replies(tmp_path: Path, watch: Watch) -> Iterator[Replies]:
    with closing(SqliteCatalog(tmp_path)) as catalog:
        yield Replies(Context.of(catalog, MemoryBlobStore(), clock=watch))


def keep(replies: Replies, mine: Reply) -> None:
    replies.keep(PLACE, mine, status=201, media_type="application/json", body=b"{}")


def test_an_answer_is_given_again_for_a_day(replies: Replies, watch: Watch) -> None:
    keep(replies, replies.claim(PLACE, ASKED))
    watch.wait(KEPT - SECOND)
    again = replies.claim(PLACE, ASKED)
    assert (again.status, again.media_type, again.body) == (201, "application/json", b"{}")
    watch.wait(SECOND)
    assert replies.claim(PLACE, ASKED).status is None


def test_a_long_answer_takes_little_room_and_comes_back_as_it_was(
    replies: Replies, tmp_path: Path
) -> None:
    body = json.dumps({"state": {str(n): "much of the same" for n in range(5000)}}).encode()
    mine = replies.claim(PLACE, ASKED)
    replies.keep(PLACE, mine, status=200, media_type="application/json", body=body)
    assert replies.claim(PLACE, ASKED).body == body
    with closing(SqliteCatalog(tmp_path)) as catalog, catalog.read() as transaction:
        kept = transaction.find_reply(PLACE)
    assert kept is not None
    assert len(kept.body) < len(body) / 5


def test_a_name_is_for_one_request(replies: Replies) -> None:
    mine = replies.claim(PLACE, ASKED)
    with pytest.raises(RequestReused):
        replies.claim(PLACE, OTHER)
    keep(replies, mine)
    with pytest.raises(RequestReused):
        replies.claim(PLACE, OTHER)


def test_a_request_that_is_being_answered_is_not_done_twice(replies: Replies, watch: Watch) -> None:
    replies.claim(PLACE, ASKED)
    watch.wait(LEASE - SECOND)
    with pytest.raises(RequestRunning):
        replies.claim(PLACE, ASKED)


def test_the_request_of_a_worker_that_died_can_be_done_again(
    replies: Replies, watch: Watch
) -> None:
    dead = replies.claim(PLACE, ASKED)
    watch.wait(LEASE)
    mine = replies.claim(PLACE, ASKED)
    assert mine.status is None
    # It was not dead after all, only slow: what it says now counts no more.
    replies.keep(PLACE, dead, status=200, media_type="text/plain", body=b"late")
    replies.release(PLACE, dead)
    keep(replies, mine)
    assert replies.claim(PLACE, ASKED).status == 201


def test_a_lease_can_be_prolonged_for_as_long_as_it_is_held(replies: Replies, watch: Watch) -> None:
    mine = replies.claim(PLACE, ASKED)
    for _ in range(3):
        watch.wait(LEASE - SECOND)
        mine = replies.renew(PLACE, mine)
        with pytest.raises(RequestRunning):
            replies.claim(PLACE, ASKED)
    watch.wait(LEASE)
    theirs = replies.claim(PLACE, ASKED)
    assert replies.renew(PLACE, mine) == mine
    keep(replies, theirs)
    assert replies.claim(PLACE, ASKED).status == 201


def test_what_came_to_nothing_can_be_tried_again_with_another_body(replies: Replies) -> None:
    replies.release(PLACE, replies.claim(PLACE, ASKED))
    assert replies.claim(PLACE, OTHER).status is None


def test_old_replies_are_purged(replies: Replies, watch: Watch) -> None:
    keep(replies, replies.claim(PLACE, ASKED))
    watch.wait(KEPT)
    assert replies.purge() == 0
    watch.wait(SECOND)
    assert replies.purge() == 1
    assert replies.claim(PLACE, OTHER).status is None


def test_of_many_that_claim_a_request_at_once_one_does_it(replies: Replies) -> None:
    ready, claimed, waits = Barrier(8), list[Reply](), list[bool]()

    def claim() -> None:
        ready.wait()
        try:
            claimed.append(replies.claim(PLACE, ASKED))
        except RequestRunning:
            waits.append(True)

    threads = [Thread(target=claim) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(claimed), len(waits)) == (1, 7)
