"""The catalog as a request under a name has it: its reply is kept with what it did, or neither is.

What a request does last is not committed where its transaction ends, but once the answer is made:
the reply goes into the same transaction. So whoever asks again after a crash finds the answer if
and only if the thing was done. Until then the transaction is what the request reads with, and
sees its own work. Whatever it does after all in another one commits the first as it is.

Which transactions those are is up to the use cases: they open them with `Context.work`.
"""

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from datetime import timedelta

from holdfast.catalog.port import Catalog, Lease
from holdfast.catalog.transaction import Transaction
from holdfast.errors import Busy, RequestRunning
from holdfast.model.replies import Reply
from holdfast.model.upkeep import Load, Loss


class Replying:
    """A catalog for one request, which is worked on in one thread at a time."""

    def __init__(self, catalog: Catalog, put: Callable[[Transaction, Reply], bool]) -> None:
        """Takes what puts an answer into a transaction.

        It says False if there is another, or has the transaction end with `Busy`.
        """
        self._catalog, self._put = catalog, put
        self._until_answered: ExitStack | None = None
        self._open: Transaction | None = None
        self._undoing: list[Callable[[], None]] = []
        self._has_reply = False
        self.is_kept = False
        """Whether the answer is in the catalog, with what was done for it."""
        self.has_acted = False
        """Whether more was done than to read."""

    @contextmanager
    def answering(self) -> Generator[None]:
        """Holds what is done last open for as long as the block lasts, which makes the answer.

        If that fails, it is not done. Raises `RequestRunning` if somebody else has answered the
        request, or taken it over.
        """
        try:
            with ExitStack() as self._until_answered:
                yield
        except Exception as exc:
            self._until_answered = self._open = None
            for act in self._undoing:
                act()
            if self._has_reply and isinstance(exc, Busy):
                raise RequestRunning from exc
            raise
        finally:
            self._until_answered = self._open = None
        self.is_kept = self._has_reply

    def keep(self, done: Reply) -> None:
        """Keeps the answer with what is held open; leaves it to the caller where nothing is."""
        if self._open is None:
            return
        self._has_reply = True
        if not self._put(self._open, done):
            raise RequestRunning

    def commit(self) -> None:
        """Commits what is held open: something else is about to be done."""
        self.has_acted = True
        if self._until_answered is not None:
            self._open = None
            self._until_answered.pop_all().close()
            self._undoing.clear()

    def if_undone(self, act: Callable[[], None]) -> None:
        """Does something should what is held open be undone after all."""
        if self._open is not None:
            self._undoing.append(act)

    @contextmanager
    def work(self) -> Generator[Transaction]:
        """Opens a write transaction that will be held open, if an answer is being made."""
        self.commit()
        with ExitStack() as stack:
            transaction = stack.enter_context(self._catalog.write())
            yield transaction
            if self._until_answered is not None:
                self._until_answered.push(stack.pop_all())
                self._open = transaction

    def read(self) -> AbstractContextManager[Transaction]:
        """Opens a read transaction, or reads with what is held open."""
        return self._catalog.read() if self._open is None else nullcontext(self._open)

    def ask(self) -> AbstractContextManager[Transaction]:
        """Opens a read transaction for a single question, or asks what is held open."""
        return self._catalog.ask() if self._open is None else nullcontext(self._open)

    def write(self) -> AbstractContextManager[Transaction]:
        """Opens a write transaction that is committed where it ends."""
        self.commit()
        return self._catalog.write()

    # The rest is the catalog's own.

    @property
    def writer(self) -> str:
        """The catalog's name as a writer."""
        return self._catalog.writer

    @property
    def kind(self) -> str:
        """What the rows are in."""
        return self._catalog.kind

    @property
    def keep_deleted(self) -> timedelta:
        """How long bytes outlive their rows."""
        return self._catalog.keep_deleted

    def is_alive(self, writer: str) -> bool:
        """Says whether a writer is still there."""
        return self._catalog.is_alive(writer)

    def lock(self, name: str) -> AbstractContextManager[Lease]:
        """Holds a lock between all users of the catalog."""
        self.commit()
        return self._catalog.lock(name)

    def free_bytes(self) -> int | None:
        """Returns the room that there is."""
        return self._catalog.free_bytes()

    def reclaim(self) -> None:
        """Gives back what deleted rows and dead writers left."""
        self.commit()
        self._catalog.reclaim()

    def tend_log(self) -> None:
        """Does to the log what is due."""
        self._catalog.tend_log()

    def load(self) -> Load:
        """Returns how busy the catalog's connections are."""
        return self._catalog.load()

    def scrub(self) -> None:
        """Leaves nothing of rows that are gone."""
        self.commit()
        self._catalog.scrub()

    def make_room(self) -> None:
        """Gives up what is kept aside for collecting."""
        self.commit()
        self._catalog.make_room()

    def check_current(self) -> None:
        """Raises `CatalogReplaced` if other files lie where the catalog is open."""
        self._catalog.check_current()

    def find_loss(self) -> Loss | None:
        """Returns what was acknowledged and is missing."""
        return self._catalog.find_loss()

    def find_index_faults(self) -> list[str]:
        """Returns where indexes and rows do not agree."""
        return self._catalog.find_index_faults()

    def rebuild_indexes(self) -> dict[str, int]:
        """Makes indexes anew of the rows."""
        return self._catalog.rebuild_indexes()

    def accept_loss(self) -> None:
        """Takes note that somebody knows what is missing."""
        self._catalog.accept_loss()

    def close(self) -> None:
        """Leaves the catalog open: it is that of others, too."""
