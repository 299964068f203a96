"""What every client of a form has in common: it is opened, used in a block, and closed."""

from types import TracebackType
from typing import Self

from holdfast.sdk.calls import Async, Group, Sync


class Waiting(Group[Sync]):
    """A client whose methods wait for the answer."""

    @classmethod
    def from_env(cls) -> Self:
        """Makes a client of what the environment says."""
        return cls()  # pyright: ignore[reportCallIssue] - of a client, which needs nothing more

    def close(self) -> None:
        """Lets go of the connections, also of clients for other namespaces that share them."""
        self.sender.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        self.close()


class Awaiting(Group[Async]):
    """A client whose methods are coroutines."""

    @classmethod
    def from_env(cls) -> Self:
        """Makes a client of what the environment says."""
        return cls()  # pyright: ignore[reportCallIssue] - of a client, which needs nothing more

    async def close(self) -> None:
        """Lets go of the connections, also of clients for other namespaces that share them."""
        await self.sender.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        await self.close()
