"""A fortnight of a small team's agents, made up: what there is to look at before there is anything.

`tell(folder)` fills a vault with it: an agent that works on a shop's code, with two forks of it,
one at a support desk that often turns back, and one that keeps notes. It ends a few minutes before
now, after a task that went wrong and with another under way. Told twice, it is the same.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from heapq import heappop, heappush
from pathlib import Path
from random import Random
from typing import Final

import holdfast

DAYS: Final = 14
TODAY: Final = timedelta(hours=6, minutes=30)
"""How long before now the last day's work began, whatever the time is."""

TASKS_A_DAY: Final = 13
TASKS_TODAY: Final = 17
FORKED_BEFORE: Final = 60
RELEASED_BEFORE: Final = 12
"""How many of the shop's tasks come after that."""

FAILS: Final = 11, 6
UNDONE: Final = 37, 20
"""Of so many tasks, which one."""

MODULES: Final = (
    *("cart", "coupons", "shipping", "refunds", "search", "prices", "taxes", "addresses"),
    *("payments", "inventory", "emails", "labels", "invoices", "customers", "ranking", "db"),
)
VERBS: Final = ("Fix", "Test", "Review", "Document", "Rewrite", "Simplify", "Harden", "Log")
TOPICS: Final = {
    "cart": ("cart totals", "guest carts"),
    "coupons": ("coupon rounding", "coupon expiry"),
    "shipping": ("shipping labels", "shipping zones"),
    "refunds": ("the refund path", "partial refunds"),
    "search": ("colour search", "search synonyms"),
    "prices": ("price changes", "prices in yen"),
    "taxes": ("EU tax rates", "tax rounding"),
    "addresses": ("address checks", "foreign addresses"),
    "payments": ("payment retries", "payment webhooks"),
    "inventory": ("inventory sync", "reserved stock"),
    "emails": ("email templates", "order emails"),
    "invoices": ("invoice numbers", "invoice export"),
}
"""What each verb goes with: a fortnight has hardly a task twice."""
PARTS: Final = (
    *("subtotal", "discount", "surcharge", "deposit"),
    *("allowance", "balance", "credit", "forecast"),
)
FAILURES: Final = (
    (AssertionError, "3 of 44 tests failed"),
    (TimeoutError, "the tests did not end within 10 minutes"),
    (ImportError, "the build needs a package that is not installed"),
    (RuntimeError, "the model stopped in the middle of an edit"),
)
ODD_NAMES: Final = (
    "attachments/<img src=x onerror=alert(1)>.txt",
    "attachments/invoice\u202egpj.exe",
    "attachments/two\nlines.txt",
    "attachments/x[1].txt",
    "attachments/*",
    "attachments/" + "very-long-" * 20 + "name.txt",
    "attachments/\u540d\u524d \U0001f41a.txt",
)
QUESTIONS: Final = (
    (
        "Where is my order?",
        "It left the warehouse this morning.",
        {"mood": "calm", "topic": "delivery"},
        "They ask for the first time, and politely.",
    ),
    (
        "I was charged twice.",
        "One of the two was a reservation, and is gone tomorrow.",
        {"mood": "worried", "topic": "payment"},
        "Their statement shows both amounts.",
    ),
    (
        "The coupon does not work.",
        "It is for orders above 20 euros.",
        {"mood": "annoyed", "topic": "coupons", "refund": 5},
        "The order is 50 cents short: a voucher costs less than losing them.",
    ),
    (
        "Can I change the address?",
        "Yes, until it is packed.",
        {"mood": "calm", "topic": "delivery"},
        "It is not packed before noon.",
    ),
    (
        "MY PARCEL IS EMPTY!",
        "I am sorry. A new one is on its way.",
        {"mood": "angry", "topic": "returns", "refund": 40},
        "The customer writes in capitals.",
    ),
)
FINDINGS: Final = (
    "growth slows where the water is warm",
    "storms take the young plants first",
    "harvesting above the holdfast lets it grow again",
    "urchins are the limit, not light",
    "the oldest beds are the densest",
)


def tell(folder: Path, *, now: datetime | None = None, seed: int = 7) -> None:
    """Makes a vault in an empty folder, and fills it; takes some seconds."""
    end = now or datetime.now(UTC)
    clock = _Clock(end - timedelta(days=DAYS + 1))
    with holdfast.open(folder, clock=clock) as vault:
        story = _Story(vault, clock, end, Random(seed))  # noqa: S311 - a story is no secret
        story.tell(story.notes(), story.desk(), story.shop())
        # Nobody is there: what is in a story calls nobody.
        vault.webhooks.create(
            "http://127.0.0.1:9/team",
            events=("snapshot.restored", "task.failed"),
            description="tells the team where an agent went back",
        )
        vault.webhooks.create(
            "http://127.0.0.1:9/builds",
            description="builds what is kept; nobody listens there, so that one sees a failure",
        )


class _Clock:
    """Stands where it was put; moves on by a moment with each look, as time does."""

    def __init__(self, start: datetime) -> None:
        self.now = start

    def __call__(self) -> datetime:
        self.now += timedelta(milliseconds=1)
        return self.now

    def reach(self, instant: datetime) -> None:
        """Moves on to an instant, unless it is there already: it never goes back."""
        self.now = max(self.now, instant)

    def rest(self, seconds: int) -> None:
        """Moves on by what work takes."""
        self.now += timedelta(seconds=seconds)


class _Story:
    def __init__(
        self, vault: holdfast.Holdfast, clock: _Clock, end: datetime, random: Random
    ) -> None:
        self._vault, self._clock, self._end, self._random = vault, clock, end, random
        self._titles = list[tuple[str, str]]()

    def tell(self, *parts: Iterator[datetime]) -> None:
        """Tells parts at once; each says until when it waits."""
        waiting = [(next(part), number) for number, part in enumerate(parts)]
        while waiting:
            instant, number = heappop(waiting)
            self._clock.reach(instant)
            following = next(parts[number], None)
            if following is not None:
                heappush(waiting, (following, number))

    def notes(self) -> Iterator[datetime]:
        """Tells of an agent whose work goes well."""
        agent = self._vault.namespace("research-notes").acting_as("notes-agent")
        session = agent.sessions.create(
            "notes-agent", user_id="mira", initial_state={"topic": "kelp", "sources": []}
        )
        sources: list[str] = []
        for number, instant in enumerate(self._instants(3, today=4), start=1):
            yield instant
            with agent.task(f"Read source {number}"):
                self._clock.rest(60 + number * 7 % 90)
                sources = [*sources, f"source-{number:02}"][-12:]
                agent.files.write(f"notes/source-{number:02}.md", _note(number))
                agent.files.write("summary.md", "".join(_note(n) for n in range(1, number + 1)))
                agent.store.set("reading", "last", number)
                agent.sessions.update_state(
                    session.id,
                    {"sources": sources},
                    reasoning=f"Source {number} is worth keeping: {_finding(number)}.",
                )

    def desk(self) -> Iterator[datetime]:
        """Tells of one that answers customers, and often takes it back."""
        agent = self._vault.namespace("support-desk").acting_as("desk-agent")
        angry = ""
        for number, instant in enumerate(self._instants(1, today=9), start=1):
            yield instant
            with agent.task(f"Answer ticket {4400 + number}"):
                question, answer, seen, why = QUESTIONS[number % len(QUESTIONS)]
                session = agent.sessions.create(
                    "desk-agent",
                    user_id=f"customer-{number:02}",
                    initial_state={"ticket": 4400 + number, "mood": "unknown", "refund": 0},
                )
                if seen["mood"] == "angry":
                    angry = session.id
                self._clock.rest(20 + number * 11 % 50)
                agent.sessions.add_turn(session.id, input=question, output=answer)
                agent.sessions.update_state(session.id, seen, reasoning=why)
                agent.files.write(f"tickets/{4400 + number}.md", f"{question}\n\n{answer}\n")
            if "refund" in seen:
                agent.sessions.rollback(
                    session.id, -1, reason="it had promised a refund that nobody allowed"
                )
        yield self._end - timedelta(minutes=50)
        for attempt in range(4):  # it turns in circles
            self._clock.rest(40)
            agent.sessions.update_state(
                angry, {"refund": 100 - 10 * attempt}, reasoning="A refund will calm them."
            )
            agent.sessions.rollback(angry, 0, reason="above what is allowed")
        agent.sessions.fork(angry, include_turns=True)
        agent.files.write_many((name, "from a customer\n") for name in ODD_NAMES)
        agent.snapshot("what customers sent", reason="<script>alert('kept as text')</script>")

    def shop(self) -> Iterator[datetime]:
        """Tells of one that changes a program: mostly well."""
        agent = self._vault.namespace("shop-backend").acting_as("claude-code")
        yield self._end - timedelta(days=DAYS, hours=12)
        agent.files.write_many(self._program())
        agent.store.set("prices", "currency", "EUR")
        agent.snapshot("imported from the old server")
        session = agent.sessions.create(
            "claude-code", user_id="mira", initial_state={"goal": "the summer release", "done": []}
        )
        instants = list(self._instants(TASKS_A_DAY, today=TASKS_TODAY))
        for number, instant in enumerate(instants):
            yield instant
            left = len(instants) - number
            if left == FORKED_BEFORE:
                self._forks(agent)
            elif left == RELEASED_BEFORE:
                by_hand = agent.acting_as("Mira")
                by_hand.snapshot("before the release", pin=True)
            title, module = self._title()
            failure = self._random.choice(FAILURES) if _is(number, FAILS) else None
            self._work(agent, session.id, title, module, number, failure=failure)
            if failure and number % 2 == 0:
                agent.restore("@-1", reason=f"\u201c{title}\u201d failed")
            elif _is(number, UNDONE):
                agent.undo()
        yield from self._last_hour(agent)

    def _work(
        self,
        agent: holdfast.Namespace,
        session_id: str,
        title: str,
        module: str,
        number: int,
        *,
        failure: tuple[type[Exception], str] | None,
    ) -> None:
        with suppress(AssertionError, TimeoutError, ImportError, RuntimeError), agent.task(title):
            self._clock.rest(self._random.randrange(35, 420))
            agent.files.write(f"src/shop/{module}.py", _code(module, number))
            for more in range(self._random.randrange(3)):
                agent.files.write(f"tests/test_{module}_{more}.py", _test(module, number))
            if number % 4 == 0:
                agent.store.set("prices", f"item-{number % 9}", {"cents": 100 + number})
            if failure:
                kind, text = failure
                raise kind(text)
            if number % 5 == 0:
                done = agent.sessions.get(session_id).state["done"]
                agent.sessions.update_state(
                    session_id,
                    {"done": [*done, title][-6:]},
                    reasoning=f"The tests of {module} pass: \u201c{title}\u201d is done.",
                )

    def _forks(self, agent: holdfast.Namespace) -> None:
        agent.acting_as("Mira").fork("cheap-model").snapshot("the same with a smaller model")
        fork = agent.fork("try-redis").acting_as("claude-code")
        for number in range(9):
            with fork.task(f"Cache {MODULES[number]} in redis"):
                self._clock.rest(50 + 9 * number)
                fork.files.write(f"src/shop/cache/{MODULES[number]}.py", _code("cache", number))
        agent.acting_as("operator").merge(fork)

    def _last_hour(self, agent: holdfast.Namespace) -> Iterator[datetime]:
        yield self._end - timedelta(minutes=24)
        with agent.task("Translate order emails"):
            self._clock.rest(170)
            for language in ("de", "fr", "ja", "pt"):
                agent.files.write(f"src/shop/templates/order.{language}.txt", _letter(language))
        yield self._end - timedelta(minutes=12)
        with suppress(FileNotFoundError), agent.task("Clean up old fixtures"):
            self._clock.rest(95)
            agent.files.delete("data/fixtures", recursive=True)
            agent.files.write("src/shop/cart.py", '"""Cart of the shop."""\n\nTODO = True\n')
            agent.files.write(".git/hooks/pre-commit", "#!/bin/sh\nexec make fixtures\n")
            agent.store.set("prices", "currency", "USD")
            raise FileNotFoundError("data/fixtures/orders-000.csv: 31 of 44 tests failed")
        yield self._end - timedelta(minutes=4)
        agent.tasks.start("Speed up search ranking")
        agent.files.write("src/shop/ranking.py", _code("ranking", 999))
        agent.files.write("src/shop/search.py", _code("search", 999))

    def _program(self) -> Iterator[tuple[str, str]]:
        for module in MODULES:
            yield f"src/shop/{module}.py", _code(module, 0)
            yield f"tests/test_{module}.py", _test(module, 0)
        for number in range(120):
            rows = "".join(f"{number},{row},{row * 7 % 100}\n" for row in range(30))
            yield f"data/fixtures/orders-{number:03}.csv", f"order,row,count\n{rows}"
        yield "README.md", "# The shop\n\nWhat runs behind it.\n"
        yield "Makefile", "test:\n\tpython -m pytest\n"

    def _title(self) -> tuple[str, str]:
        if not self._titles:
            self._titles = [
                (f"{verb} {topic}", module)
                for module, topics in TOPICS.items()
                for topic in topics
                for verb in VERBS
            ]
            self._random.shuffle(self._titles)
        return self._titles.pop()

    def _instants(self, a_day: int, *, today: int) -> Iterator[datetime]:
        """Returns when something is done: in working hours, and lately so that it ends now."""
        midnight = self._end.replace(hour=0, minute=0, second=0, microsecond=0)
        today_from = self._end - TODAY
        for day in range(DAYS, 0, -1):
            start = midnight - timedelta(days=day) + timedelta(hours=8)
            spread = self._spread(start, timedelta(hours=12), a_day)
            yield from (instant for instant in spread if instant < today_from)
        yield from self._spread(today_from, TODAY - timedelta(minutes=30), today)

    def _spread(self, start: datetime, length: timedelta, count: int) -> Sequence[datetime]:
        return sorted(start + length * self._random.random() for _ in range(count))


def _is(number: int, which: tuple[int, int]) -> bool:
    every, offset = which
    return number % every == offset


def _code(module: str, revision: int) -> str:
    parts = "".join(
        f"def {part}(items: list[dict], rate: Decimal = Decimal({revision % 30})) -> Decimal:\n"
        f'    """Returns the {part} that {module} needs."""\n'
        "    total = sum(Decimal(item['price']) * item['count'] for item in items)\n"
        f"    if total > {800 + 13 * (number + revision % 5)}:\n"
        "        total -= total * rate / 100\n"
        "    return total.quantize(Decimal('0.01'))\n\n\n"
        for number, part in enumerate(PARTS[: 6 + revision % 3])
    )
    return f'"""{module.capitalize()} of the shop."""\n\nfrom decimal import Decimal\n\n\n{parts}'


def _test(module: str, revision: int) -> str:
    return (
        f"from shop.{module} import subtotal\n\n\ndef test_{module}() -> None:\n"
        f"    assert subtotal([{{'price': '{revision}.50', 'count': 2}}]) > 0\n"
    )


def _finding(number: int) -> str:
    return FINDINGS[number % len(FINDINGS)]


def _note(number: int) -> str:
    return f"## Source {number}\n\nOf kelp it says that {_finding(number)}.\n\n"


def _letter(language: str) -> str:
    greeting = {"de": "Guten Tag", "fr": "Bonjour", "ja": "\u3053\u3093\u306b\u3061\u306f"}
    return f"{greeting.get(language, 'Bom dia')},\n\n#%ORDER%\n"
