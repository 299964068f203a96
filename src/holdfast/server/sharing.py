"""Slots and bytes that all tenants share, so that none of them takes what the others need.

A tenant gets more only while at least as much as it would then hold is free: alone it comes to
half of all there is, beside others to half of what they leave. Something is left for whoever comes
next, however long the requests of one tenant take. What does not fit waits, and what comes free
goes to the tenants that wait in turn: a thousand requests of one are before one of another's for a
single turn.
"""

import asyncio
from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final

STRANGERS: Final = "-"
"""The tenant of all who have shown no key."""


@dataclass(eq=False, slots=True)
class _Claim:
    """What somebody waits for."""

    amount: int
    granted: "asyncio.Future[None]"


class Shares:
    """An amount of something, shared by tenants. For the coroutines of one loop."""

    def __init__(self, total: int, *, most: int | None = None) -> None:
        self.total = self.free = total
        self._most = total if most is None else most
        """What one tenant has at once, however much is free."""
        self._held = dict[str, int]()
        self._waiting = dict[str, deque[_Claim]]()
        """Those of each tenant in their order; the tenants in the order of their turns."""

    def taken_by(self, tenant: str) -> int:
        """Returns how much a tenant holds."""
        return self._held.get(tenant, 0)

    def take_at_once(self, tenant: str, amount: int = 1) -> bool:
        """Takes some for a tenant, unless it would have to wait for it."""
        fits = tenant not in self._waiting and self._fits(tenant, amount)
        if fits:
            self._hand_out(tenant, amount)
        return fits

    async def take(self, tenant: str, amount: int = 1) -> None:
        """Takes some for a tenant, which has to give it back; waits for its turn."""
        if self.take_at_once(tenant, amount):
            return
        claim = _Claim(amount, asyncio.get_running_loop().create_future())
        self._waiting.setdefault(tenant, deque()).append(claim)
        try:
            await claim.granted
        except asyncio.CancelledError:
            # What was granted just then would be lost: nobody would give it back.
            if claim.granted.done() and not claim.granted.cancelled():
                self.give_back(tenant, amount)
            else:
                self._withdraw(tenant, claim)
            raise

    def give_back(self, tenant: str, amount: int = 1) -> None:
        """Gives back what a tenant took, and lets those go on who waited for it."""
        left = self._held[tenant] - amount
        if left:
            self._held[tenant] = left
        else:
            del self._held[tenant]
        self.free += amount
        if self._waiting:
            self._pass_on()

    @property
    def is_idle(self) -> bool:
        """Whether nobody has any of it, or waits for some."""
        return not (self._held or self._waiting)

    def _fits(self, tenant: str, amount: int) -> bool:
        return self._held.get(tenant, 0) + amount <= min(self.free, self._most)

    def _hand_out(self, tenant: str, amount: int) -> None:
        self._held[tenant] = self._held.get(tenant, 0) + amount
        self.free -= amount

    def _pass_on(self) -> None:
        """Grants what fits by now, a claim of each tenant at a time."""
        has_granted = True
        while has_granted:
            has_granted = False
            for tenant, claims in list(self._waiting.items()):
                # Who was cancelled just now has not come to withdraw its claim.
                while claims and claims[0].granted.done():
                    claims.popleft()
                if claims and not self._fits(tenant, claims[0].amount):
                    continue
                # To the end of the queue: it is the turn of the others.
                del self._waiting[tenant]
                if claims:
                    claim = claims.popleft()
                    self._hand_out(tenant, claim.amount)
                    claim.granted.set_result(None)
                    has_granted = True
                if claims:
                    self._waiting[tenant] = claims

    def _withdraw(self, tenant: str, claim: _Claim) -> None:
        claims = self._waiting.get(tenant, deque())
        if claim in claims:
            claims.remove(claim)
            # What it stood before may fit where it did not.
            self._pass_on()


class Lines:
    """Turns at what only one can have at a time, of many such things.

    Who waits takes nothing meanwhile that others need. For the coroutines of one loop.
    """

    def __init__(self) -> None:
        self._lines = dict[Hashable, deque[asyncio.Future[None]]]()
        """For each thing that somebody has: who waits for it, in their order."""

    async def take(self, thing: Hashable, *, patience_s: float) -> None:
        """Takes a thing, which has to be given back; raises `TimeoutError`."""
        line = self._lines.get(thing)
        if line is None:
            self._lines[thing] = deque()
            return
        granted = asyncio.get_running_loop().create_future()
        line.append(granted)
        try:
            async with asyncio.timeout(patience_s):
                await granted
        except (asyncio.CancelledError, TimeoutError):
            # What was granted just then would be lost: nobody would give it back.
            if granted.done() and not granted.cancelled():
                self.give_back(thing)
            elif granted in line:
                line.remove(granted)
            raise

    def give_back(self, thing: Hashable) -> None:
        """Gives a thing back, to whoever waits for it."""
        line = self._lines[thing]
        while line:
            granted = line.popleft()
            if not granted.done():  # Who was cancelled just now has not come to leave the line.
                granted.set_result(None)
                return
        del self._lines[thing]


class SharesOfKeys:
    """An amount that tenants share, and the keys of a tenant among each other by the same rule.

    What a tenant comes to alone, half of all there is, is what its keys share: one of them comes to
    half of that, and waits for nobody but itself where it wants more.
    """

    def __init__(self, total: int) -> None:
        self._tenants = Shares(total)
        self._keys = dict[str, Shares]()

    @property
    def total(self) -> int:
        """How much there is."""
        return self._tenants.total

    @property
    def free(self) -> int:
        """How much of it nobody has."""
        return self._tenants.free

    def taken_by(self, tenant: str) -> int:
        """Returns how much all keys of a tenant hold."""
        return self._tenants.taken_by(tenant)

    def take_at_once(self, tenant: str, key: str, amount: int) -> bool:
        """Takes some for a tenant's key, unless it would have to wait for it."""
        keys = self._keys_of(tenant)
        if not keys.take_at_once(key, amount):
            return False
        if not self._tenants.take_at_once(tenant, amount):
            self._give_to_keys(tenant, key, amount)
            return False
        return True

    async def take(self, tenant: str, key: str, amount: int) -> None:
        """Takes some for a tenant's key, which has to give it back; waits for its turn."""
        await self._keys_of(tenant).take(key, amount)
        try:
            await self._tenants.take(tenant, amount)
        except asyncio.CancelledError:
            self._give_to_keys(tenant, key, amount)
            raise

    def give_back(self, tenant: str, key: str, amount: int) -> None:
        """Gives back what a key took, and lets those go on who waited for it."""
        self._tenants.give_back(tenant, amount)
        self._give_to_keys(tenant, key, amount)

    def _keys_of(self, tenant: str) -> Shares:
        return self._keys.setdefault(tenant, Shares(self.total // 2))

    def _give_to_keys(self, tenant: str, key: str, amount: int) -> None:
        keys = self._keys[tenant]
        keys.give_back(key, amount)
        if keys.is_idle:
            del self._keys[tenant]
