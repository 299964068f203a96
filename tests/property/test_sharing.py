"""What tenants share: whatever they ask for, give back and give up, nothing is lost."""

import asyncio
from collections import Counter
from dataclasses import dataclass, field

from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.server.sharing import Shares

TENANTS = ("greedy", "modest", "third", "")


@dataclass(eq=False)
class Asked:
    """A request for some of it."""

    tenant: str
    amount: int
    task: "asyncio.Task[None]"
    others: int = 0
    """Grants to other tenants while it waited."""
    rivals: int = 0
    """Tenants that waited when it came."""


@dataclass
class World:
    """Tenants at their shares, one step at a time."""

    shares: Shares
    waiting: list[Asked] = field(default_factory=list[Asked])
    holding: list[Asked] = field(default_factory=list[Asked])

    async def ask(self, tenant: str, amount: int) -> None:
        task = asyncio.create_task(self.shares.take(tenant, amount))
        rivals = {each.tenant for each in self.waiting} - {tenant}
        self.waiting.append(Asked(tenant, amount, task, rivals=len(rivals)))
        await self.settle()

    async def give_back(self, number: int) -> None:
        if self.holding:
            done = self.holding.pop(number % len(self.holding))
            self.shares.give_back(done.tenant, done.amount)
            await self.settle()

    async def give_up(self, number: int, *, when: int) -> None:
        """Cancels who waits: 1 just before something comes free, 2 just after."""
        if not self.waiting:
            return
        gone = self.waiting.pop(number % len(self.waiting))
        done = self.holding.pop() if when and self.holding else None
        if when == 1:
            gone.task.cancel()
        if done is not None:
            self.shares.give_back(done.tenant, done.amount)
        gone.task.cancel()
        await asyncio.gather(gone.task, return_exceptions=True)
        assert gone.task.cancelled()
        await self.settle()

    async def settle(self) -> None:
        """Lets everything run that can, and looks at what came of it."""
        for _ in range(3):
            await asyncio.sleep(0)
        granted = [each for each in self.waiting if each.task.done()]
        self.waiting = [each for each in self.waiting if not each.task.done()]
        self.holding += granted
        for each in self.waiting:
            each.others += sum(other.tenant != each.tenant for other in granted)
        self.check()

    def check(self) -> None:
        held = Counter[str]()
        for each in self.holding:
            held[each.tenant] += each.amount
        assert self.shares.free == self.shares.total - held.total() >= 0
        assert all(self.shares.taken_by(tenant) == held[tenant] for tenant in TENANTS)
        first = {each.tenant: each for each in reversed(self.waiting)}
        for tenant, asked in first.items():
            # Nobody waits for what it could have.
            assert held[tenant] + asked.amount > self.shares.free


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("ask"), st.sampled_from(TENANTS), st.integers(1, 3)),
        st.tuples(st.just("give back"), st.integers(0, 99), st.just(0)),
        st.tuples(st.just("give up"), st.integers(0, 99), st.integers(0, 2)),
    ),
    max_size=60,
)

GIVE_UP = ("give up", 0, 0)


async def play(world: World, steps: list[tuple[str, object, int]], *, most: int) -> None:
    for step, which, how in steps:
        if step == "ask":
            await world.ask(str(which), min(how, most))
        elif isinstance(which, int) and step == "give back":
            await world.give_back(which)
        elif isinstance(which, int):
            await world.give_up(which, when=how)


@given(total=st.integers(1, 9), steps=STEPS)
@example(total=3, steps=[*[("ask", "greedy", 1)] * 3, ("give up", 0, 1), ("ask", "modest", 1)])
@example(total=3, steps=[*[("ask", "greedy", 1)] * 3, ("give up", 0, 2), ("ask", "modest", 1)])
@example(total=7, steps=[*(("ask", "greedy", n) for n in (3, 2)), GIVE_UP, ("ask", "greedy", 1)])
@example(total=7, steps=[*(("ask", "greedy", n) for n in (3, 2, 1)), GIVE_UP])
def test_nothing_is_lost_whoever_asks_gives_back_and_gives_up(
    total: int, steps: list[tuple[str, object, int]]
) -> None:
    async def run() -> None:
        world = World(Shares(total))
        await play(world, steps, most=total)
        while world.waiting or world.holding:
            await world.give_back(0)
            if world.waiting and not world.holding:
                await world.give_up(0, when=0)
        assert world.shares.free == total
        assert world.shares.take_at_once("anybody", total)

    asyncio.run(run())


@given(total=st.integers(1, 9), steps=STEPS)
def test_who_has_nothing_waits_for_one_turn_of_each_other_tenant_at_the_most(
    total: int, steps: list[tuple[str, object, int]]
) -> None:
    async def run() -> None:
        world = World(Shares(total))
        await play(world, steps, most=1)
        await world.ask("newcomer", 1)
        mine = next(each for each in [*world.waiting, *world.holding] if each.tenant == "newcomer")
        while mine in world.waiting:
            # All the others ask for more all the time.
            for tenant in TENANTS:
                await world.ask(tenant, 1)
            await world.give_back(0)
            assert mine.others <= mine.rivals
        for each in [*world.waiting]:
            each.task.cancel()
        await asyncio.gather(*(each.task for each in world.waiting), return_exceptions=True)

    asyncio.run(run())


@given(total=st.integers(2, 40), most=st.none() | st.integers(1, 40), wanted=st.integers(1, 100))
def test_one_tenant_alone_gets_half_or_the_most_it_may_and_the_next_one_is_served_at_once(
    total: int, most: int | None, wanted: int
) -> None:
    shares = Shares(total, most=most)
    got = sum(shares.take_at_once("greedy") for _ in range(wanted))
    assert got == min(wanted, (total + 1) // 2, most or wanted)
    assert shares.take_at_once("modest")
