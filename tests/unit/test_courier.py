"""The courier: how many at once, what it makes of odd answers, and that it ends what it began."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.engine.vault import Holdfast
from holdfast.errors import Unavailable
from holdfast.model.webhooks import Delivery, DeliveryState, Webhook
from holdfast.server.outbound import Sender
from holdfast.server.work.delivery import AT_ONCE, OF_ONE, Courier
from holdfast.wiring import open_vault

PATIENCE_S = 20.0


class FakeSender(Sender):
    """Answers as a test says, and connects to nobody."""

    def __init__(self, answer: Callable[[str], int]) -> None:
        super().__init__()
        self._answer = answer

    def post(self, url: str, body: bytes, headers: dict[str, str]) -> int:
        assert body
        assert headers
        return self._answer(url)


@pytest.fixture
def vault(tmp_path: Path) -> Iterator[Holdfast]:
    with open_vault(tmp_path / "vault") as opened:
        opened.events.listen()
        yield opened


def hook_of(vault: Holdfast, name: str) -> Webhook:
    return vault.webhooks.create(f"https://{name}.example/", events=["file.*"])


def write(vault: Holdfast, number: int) -> None:
    vault.namespace("alice").files.write_many((f"{each}", "x") for each in range(number))


def log(vault: Holdfast, hook: Webhook) -> list[Delivery]:
    return [*vault.webhooks.deliveries(hook.id, limit=1000)]


def test_all_that_is_due_is_delivered_in_one_round(vault: Holdfast) -> None:
    hooks = [hook_of(vault, f"h{number}") for number in range(3)]
    write(vault, 40)
    got = Counter[str]()

    def answer(url: str) -> int:
        got[url] += 1
        return 200

    assert Courier(vault.outbox(), FakeSender(answer)).deliver() > 0
    assert got == {hook.url: 40 for hook in hooks}
    assert {each.state for each in log(vault, hooks[0])} == {DeliveryState.DELIVERED}


def test_one_webhook_holds_two_threads_and_others_the_rest(vault: Holdfast) -> None:
    slow, quick = hook_of(vault, "slow"), hook_of(vault, "quick")
    write(vault, 30)
    held, most, now = threading.Semaphore(0), list[int](), Counter[str]()
    lock, done = threading.Lock(), threading.Event()

    def answer(url: str) -> int:
        with lock:
            now[url] += 1
            most.append(now[slow.url])
        if url == slow.url:
            held.acquire(timeout=PATIENCE_S)
        with lock:
            now[url] -= 1
            now["quick"] += url == quick.url
            if now["quick"] == 30:
                done.set()
        return 200

    courier = Courier(vault.outbox(), FakeSender(answer))
    thread = threading.Thread(target=courier.deliver)
    thread.start()
    assert done.wait(PATIENCE_S)  # While nobody has answered for the slow one.
    assert max(most) == OF_ONE < AT_ONCE
    held.release(30)
    thread.join(PATIENCE_S)
    assert {each.state for each in log(vault, slow)} == {DeliveryState.DELIVERED}


def test_an_answer_that_we_fail_at_is_an_attempt_that_failed(vault: Holdfast) -> None:
    hook = hook_of(vault, "odd")
    write(vault, 1)

    def answer(_url: str) -> int:
        raise KeyError("what nobody thought of")

    Courier(vault.outbox(), FakeSender(answer)).deliver()
    tried = log(vault, hook)[0]
    assert (tried.state, tried.attempts) == (DeliveryState.PENDING, 1)
    assert tried.error == "the answer could not be read: KeyError"


def test_what_was_begun_when_the_server_stops_is_finished_and_no_more(vault: Holdfast) -> None:
    hook = hook_of(vault, "a")
    write(vault, 10)
    stopping, never = threading.Event(), threading.Event()

    def answer(_url: str) -> int:
        stopping.set()
        never.wait(0.3)  # A receiver that takes its time.
        return 200

    courier = Courier(vault.outbox(), FakeSender(answer), is_stopping=stopping.is_set)
    courier.deliver()
    states = Counter(each.state for each in log(vault, hook))
    assert 1 <= states[DeliveryState.DELIVERED] <= OF_ONE
    assert sum(states.values()) == 10


def test_what_could_not_be_written_down_is_said_and_tried_again(
    vault: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook_of(vault, "a")
    write(vault, 1)
    outbox = vault.outbox()
    real, failed = outbox.record, list[int]()

    def record(*arguments: object) -> None:
        if not failed:
            failed.append(1)
            raise Unavailable("the database is away")
        real(*arguments)  # pyright: ignore[reportArgumentType] - passed on as it came

    monkeypatch.setattr(outbox, "record", record)
    courier = Courier(outbox, FakeSender(lambda _url: 200))
    with pytest.raises(Unavailable):
        courier.deliver()
    # It is claimed still: nothing is due, and nothing is stuck.
    assert courier.deliver() > 0
