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
from holdfast.engine.core.context import Context
from holdfast.engine.journal.replies import KEPT, LEASE, Replies, reply_of
from holdfast.errors import RequestReused, RequestRunning
from holdfast.model.replies import Asked, Reply, ReplyPlace
from holdfast.testing.clocks import Watch

SECOND = timedelta(seconds=1)
PLACE = ReplyPlace("key-1", "POST", "/v1/tasks", "once")
ASKED, OTHER = b"what was asked", b"something else"


@pytest.fixture
def replies(tmp_path: Path, watch: Watch) -> Iterator[Replies]:
    with closing(SqliteCatalog(tmp_path)) as catalog:
        with catalog.write() as transaction:
            tenant = transaction.add_tenant("default", public_id="t", now=watch())
        yield Replies(Context.of(catalog, MemoryBlobStore(), clock=watch), tenant.id)


def claim(replies: Replies, fingerprint: bytes) -> Asked:
    asked = replies.look(PLACE, fingerprint)
    return replies.claim(asked) if asked.answer is None else asked


def answer(replies: Replies, fingerprint: bytes = ASKED) -> Reply | None:
    return replies.look(PLACE, fingerprint).answer


def keep(replies: Replies, mine: Asked, status: int = 201, body: bytes = b"{}") -> None:
    replies.keep(mine, reply_of(mine.mine, status=status, media_type="application/json", body=body))


def test_an_answer_is_given_again_for_a_day(replies: Replies, watch: Watch) -> None:
    keep(replies, claim(replies, ASKED))
    watch.wait(KEPT - SECOND)
    again = answer(replies)
    assert again is not None
    assert (again.status, again.media_type, again.body) == (201, "application/json", b"{}")
    watch.wait(SECOND)
    assert answer(replies) is None


def test_a_name_that_is_a_day_old_is_for_another_request(replies: Replies, watch: Watch) -> None:
    keep(replies, replies.look(PLACE, ASKED))
    watch.wait(KEPT)
    keep(replies, replies.look(PLACE, OTHER), status=200)
    found = answer(replies, OTHER)
    assert found is not None
    assert found.status == 200


def test_of_two_answers_the_first_is_kept(replies: Replies) -> None:
    first, second = replies.look(PLACE, ASKED), replies.look(PLACE, ASKED)
    keep(replies, first)
    keep(replies, second, status=200)
    found = answer(replies)
    assert found is not None
    assert found.status == 201


def test_a_long_answer_takes_little_room_and_comes_back_as_it_was(
    replies: Replies, tmp_path: Path
) -> None:
    body = json.dumps({"state": {str(n): "much of the same" for n in range(5000)}}).encode()
    keep(replies, claim(replies, ASKED), body=body)
    found = answer(replies)
    assert found is not None
    assert found.body == body
    with closing(SqliteCatalog(tmp_path)) as catalog, catalog.read() as transaction:
        kept = transaction.find_reply(PLACE)
    assert kept is not None
    assert len(kept.body) < len(body) / 5


def test_a_name_is_for_one_request(replies: Replies) -> None:
    mine = claim(replies, ASKED)
    with pytest.raises(RequestReused):
        claim(replies, OTHER)
    keep(replies, mine)
    with pytest.raises(RequestReused):
        claim(replies, OTHER)


def test_a_request_that_is_being_answered_is_not_done_twice(replies: Replies, watch: Watch) -> None:
    claim(replies, ASKED)
    watch.wait(LEASE - SECOND)
    with pytest.raises(RequestRunning):
        claim(replies, ASKED)


def test_the_request_of_a_worker_that_died_can_be_done_again(
    replies: Replies, watch: Watch
) -> None:
    dead = claim(replies, ASKED)
    watch.wait(LEASE)
    mine = claim(replies, ASKED)
    assert mine.is_claimed
    # It was not dead after all, only slow: what it says now counts no more.
    keep(replies, dead, status=200, body=b"late")
    replies.release(dead)
    keep(replies, mine)
    found = answer(replies)
    assert found is not None
    assert found.status == 201


def test_a_lease_can_be_prolonged_for_as_long_as_it_is_held(replies: Replies, watch: Watch) -> None:
    mine = claim(replies, ASKED)
    for _ in range(3):
        watch.wait(LEASE - SECOND)
        assert replies.renew(mine)
        with pytest.raises(RequestRunning):
            claim(replies, ASKED)
    watch.wait(LEASE)
    theirs = claim(replies, ASKED)
    assert not replies.renew(mine)
    keep(replies, theirs)
    assert answer(replies) is not None


def test_what_came_to_nothing_can_be_tried_again_with_another_body(replies: Replies) -> None:
    replies.release(claim(replies, ASKED))
    assert claim(replies, OTHER).is_claimed


def test_old_replies_are_purged(replies: Replies, watch: Watch) -> None:
    keep(replies, claim(replies, ASKED))
    watch.wait(KEPT)
    assert replies.purge() == 0
    watch.wait(SECOND)
    assert replies.purge() == 1
    assert claim(replies, OTHER).is_claimed


def test_of_many_that_claim_a_request_at_once_one_does_it(replies: Replies) -> None:
    ready, claimed, waits = Barrier(8), list[Asked](), list[bool]()

    def race() -> None:
        ready.wait()
        try:
            claimed.append(claim(replies, ASKED))
        except RequestRunning:
            waits.append(True)

    threads = [Thread(target=race) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(claimed), len(waits)) == (1, 7)
