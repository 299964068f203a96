"""The part of a transaction that is about sessions whose id another has by now.

Versions are numbered by the id: those of one session are the numbers from where it got the id to
where it lost it. Its row is kept beside the other's, as it was then, for when a restore brings it
back; and so is what it knew of things. A session is known by its id and by when it began.
"""

from datetime import datetime

from holdfast.catalog.driver import Driver
from holdfast.catalog.hashing import to_seal
from holdfast.catalog.rows import SESSION, get_row
from holdfast.ids import NamespaceId
from holdfast.instants import to_us
from holdfast.model.sessions import SessionRow


class FormerQueries:
    """Rows of sessions that lost their id to another."""

    __slots__ = ()

    _db: Driver

    def add_former(self, session: SessionRow) -> None:
        """Keeps the row of a session, and what it knows of things, when another gets its id."""
        self._db.say("add_former", **SESSION.write(session))
        where = {"namespace_id": session.namespace_id, "session_id": session.id}
        self._db.say("count_entities_out", **where)
        self._db.say("set_entities_aside", **where, began_at=to_us(session.created_at))
        self._db.say("drop_entities", **where)

    def bring_entities_back(self, session: SessionRow) -> None:
        """Gives a session that has its id again what it knew of things; its row is there."""
        where = {"namespace_id": session.namespace_id, "session_id": session.id}
        for query in ("bring_entities_back", "drop_former_entities"):
            self._db.say(query, **where, began_at=to_us(session.created_at))
        self._db.say("count_entities_in", **where)

    def former_sessions(self, namespace_id: NamespaceId, session_id: str) -> list[SessionRow]:
        """Returns the rows of those that had an id before, the last of them last."""
        found = self._db.all("former_sessions", namespace_id=namespace_id, id=session_id)
        return [SESSION.read(row) for row in found]

    def damaged_formers(self, namespace_id: NamespaceId) -> list[str]:
        """Returns the ids of such rows that are not what was written."""
        found = self._db.all("all_former", namespace_id=namespace_id)
        return [str(row[1]) for row in found if row[-1] != to_seal(SESSION.hash_row(row))]

    def find_holder(self, namespace_id: NamespaceId, session_id: str) -> SessionRow | None:
        """Returns the row of a session of any namespace, whether that is live or not."""
        row = self._db.one("find_session_row", namespace_id=namespace_id, id=session_id)
        return None if row is None else SESSION.read(row)

    def drop_former(self, session: SessionRow) -> None:
        """Removes the row of one that had an id before."""
        where = {"namespace_id": session.namespace_id, "id": session.id}
        self._db.say("drop_former", **where, version=session.version)

    def drop_formers(self, namespace_id: NamespaceId, session_id: str) -> int:
        """Removes all that had an id before; returns how many entities they knew."""
        where = {"namespace_id": namespace_id, "session_id": session_id}
        self._db.run("drop_formers", **where)
        return self._db.run("drop_entities_of_formers", **where)

    def drop_versions(self, session: SessionRow) -> None:
        """Removes the versions since a session got its id."""
        where = {"namespace_id": session.namespace_id, "session_id": session.id}
        self._db.say("drop_versions", **where, first=session.first, last=session.version)

    def drop_entities(self, session: SessionRow) -> None:
        """Removes what the session that has an id knows of things."""
        where = {"namespace_id": session.namespace_id, "session_id": session.id}
        self._db.say("count_entities_out", **where)
        self._db.say("drop_entities", **where)

    def drop_former_entities(
        self, namespace_id: NamespaceId, session_id: str, began_at: datetime
    ) -> int:
        """Removes what one knew that had an id before; returns how many entities that were."""
        where = {
            "namespace_id": namespace_id,
            "session_id": session_id,
            "began_at": to_us(began_at),
        }
        count = get_row(self._db.one("count_former_entities", **where), "count")[0]
        self._db.say("drop_former_entities", **where)
        return count
