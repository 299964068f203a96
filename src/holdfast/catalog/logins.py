"""The part of a transaction that is about programs which wait for a person to sign them in.

Found by the hash of what a program asks by, or of what a person types; decided once, taken once.
"""

from datetime import datetime

from holdfast.catalog import rows
from holdfast.catalog.driver import Driver
from holdfast.instants import to_us
from holdfast.model.keys import Login


class LoginQueries:
    """Rows of programs that wait."""

    __slots__ = ()

    _db: Driver

    def add_login(self, login: Login) -> bool:
        """Adds one; says whether its code was nobody else's."""
        return self._db.run("add_login", **rows.LOGIN.write(login)) > 0

    def count_logins(self, *, address: str) -> tuple[int, int]:
        """Returns how many there are, decided or not, and how many of an address."""
        row = self._db.one("count_logins", address=address)
        return (0, 0) if row is None else (int(row[0]), int(row[1]))

    def find_login(self, device_hash: bytes) -> Login | None:
        """Returns one by what the program asks by."""
        return rows.LOGIN.find(self._db.one("find_login", device_hash=device_hash))

    def find_login_by_code(self, user_hash: bytes) -> Login | None:
        """Returns one by what a person types."""
        return rows.LOGIN.find(self._db.one("find_login_by_code", user_hash=user_hash))

    def decide_login(self, decided: Login) -> bool:
        """Writes down what was decided; says whether nobody had before."""
        written = rows.LOGIN.write(decided)
        for name in ("user_hash", "client", "address", "created_at"):
            del written[name]
        return self._db.run("decide_login", **written) > 0

    def take_login(self, device_hash: bytes) -> Login | None:
        """Removes one that was decided, and returns it; None if somebody else was first."""
        return rows.LOGIN.find(self._db.one("take_login", device_hash=device_hash))

    def purge_logins(self, *, before: datetime) -> int:
        """Removes those that are no newer than that; returns how many."""
        return self._db.run("purge_logins", before=to_us(before))
