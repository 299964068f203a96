"""Sessions of ADK as values of the store: an event is appended once, and nothing is rewritten.

What is kept of an app, under four names of the store:

- `app` and `users`: what sessions share, each key of a state a value of its own, so that whoever
  changes one takes nothing of another's back;
- `sessions`: of each its own state, how many events there are, and its revision;
- `events`: each under the number that it has in its session.

An event and the changes of states that it brings are one transaction, which happens only while the
session is the one that was read: of two who append to the same session one is told that it is
stale, and nothing of it is stored. An event that comes again, since its answer was lost, is found
to be there.
"""

import json
from typing import Any, Final, NamedTuple
from urllib.parse import unquote
from uuid import uuid4

from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event
from google.adk.platform import time as platform_time
from google.adk.sessions import BaseSessionService, Session, State
from google.adk.sessions.base_session_service import GetSessionConfig, ListSessionsResponse
from pydantic_core import to_jsonable_python

from holdfast import ABSENT, StoreValue
from holdfast.errors import Damaged, NotAsExpected
from holdfast.integrations.adk.names import joined
from holdfast.integrations.calling import Place, aside, within

ATTEMPTS: Final = 64
"""How often a step is tried that others got ahead of. Each failure is another's success."""

TOGETHER: Final = 4096
"""Events that are deleted together with their session: what a request takes, and more than most
sessions have."""

_DIGITS: Final = 16

Items = list[tuple[str, str, Any]]


class Places(NamedTuple):
    """Where in the store what an app has is kept."""

    app: str
    users: str
    sessions: str
    events: str

    @classmethod
    def of(cls, app_name: str) -> "Places":
        """Returns the places of an app."""
        return cls(*(f"adk/{joined(app_name)}/{name}" for name in cls._fields))


class HoldfastSessionService(BaseSessionService):
    """Sessions in a namespace, whose snapshots hold them beside its files."""

    def __init__(self, agent: Place) -> None:
        self._store = within(agent).store

    async def create_session(
        self,
        *,
        app_name: str,
        user_id: str,
        state: dict[str, Any] | None = None,
        session_id: str | None = None,
    ) -> Session:
        """Makes a session; raises `AlreadyExistsError`."""
        name = (session_id or "").strip() or str(uuid4())
        return await aside(self._create, app_name, user_id, name, state or {})

    async def get_session(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        config: GetSessionConfig | None = None,
    ) -> Session | None:
        """Returns a session with its events, or with those that `config` means; None without it."""
        name, meant = session_id.strip(), config or GetSessionConfig()
        return await aside(self._get, app_name, user_id, name, meant)

    async def list_sessions(
        self, *, app_name: str, user_id: str | None = None
    ) -> ListSessionsResponse:
        """Returns sessions without their events, the one that was active last comes last."""
        return await aside(self._list, app_name, user_id)

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Deletes a session with its events; snapshots still hold it."""
        await aside(self._delete, app_name, user_id, session_id.strip())

    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        """Returns what all sessions of a user share."""
        states = await aside(self._user_states, Places.of(app_name), user_id)
        return states.get(joined(user_id), {})

    async def append_event(self, session: Session, event: Event) -> Event:
        """Appends an event, with the changes of states that it brings.

        Raises `StaleSessionError` if others appended since the session was read.
        """
        if event.partial:
            return event
        self._apply_temp_state(session, event)
        event = self._trim_temp_delta_state(event)
        revision, updated = await aside(self._append, session, event)
        session.last_update_time = updated
        session._storage_update_marker = revision  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - where ADK's own services keep it
        if any(each.id == event.id and each == event for each in session.events):
            return event
        return self._commit_event_to_session(session, event)

    # The rest is done in threads.

    def _create(self, app_name: str, user_id: str, name: str, state: dict[str, Any]) -> Session:
        places, now = Places.of(app_name), platform_time.get_time()
        record = {
            "revision": uuid4().hex,
            # What another session of this name has left, or is about to, is not taken for its own.
            "life": uuid4().hex,
            "events": 0,
            "last_event": None,
            "created": now,
            "updated": now,
            "state": "{}",
        }
        items: Items = []
        _change_states(places, user_id, record, state, items)
        key = joined(user_id, name)
        try:
            self._store.set_many(
                [*items, (places.sessions, key, record)], expected=[(places.sessions, key, ABSENT)]
            )
        except NotAsExpected as error:
            message = f"Session with id {name} already exists."
            raise AlreadyExistsError(message) from error
        return self._session(app_name, user_id, name, record, [])

    def _get(
        self, app_name: str, user_id: str, name: str, config: GetSessionConfig
    ) -> Session | None:
        places, key = Places.of(app_name), joined(user_id, name)
        before = None
        while (record := self._store.get(places.sessions, key)) is not None:
            texts = self._texts(places, record, config)
            if texts is None:
                # It was deleted meanwhile, and perhaps made anew.
                if record["revision"] == before:
                    message = f"events of the session {name!r} are missing"
                    raise Damaged(message)
                before = record["revision"]
                continue
            events = [Event.model_validate_json(text) for text in texts]
            since = config.after_timestamp
            if since is not None:
                events = [event for event in events if event.timestamp >= since]
            if config.num_recent_events is not None:
                events = events[max(0, len(events) - config.num_recent_events) :]
            return self._session(app_name, user_id, name, record, events)
        return None

    def _texts(
        self, places: Places, record: dict[str, Any], config: GetSessionConfig
    ) -> list[str] | None:
        """Returns a session's events, or the last of them; None if they are not there any more."""
        count = record["events"]
        most = count if config.after_timestamp is not None else config.num_recent_events
        most = count if most is None else min(most, count)
        if not most:
            return []
        found = self._store.items(
            places.events,
            f"{record['life']}/",
            after=_event_key(record, count),
            limit=most,
            reverse=True,
        )
        return [text for _, text in reversed(found)] if len(found) == most else None

    def _list(self, app_name: str, user_id: str | None) -> ListSessionsResponse:
        places = Places.of(app_name)
        found = self._store.items(places.sessions, _prefix_of(user_id))
        shared, users = self._app_state(places), self._user_states(places, user_id)
        sessions = [
            _to_session(app_name, *_names_of(key), record, events=[], shared=shared, users=users)
            for key, record in found
        ]
        sessions.sort(key=lambda each: (each.last_update_time, each.user_id, each.id))
        return ListSessionsResponse(sessions=sessions)

    def _delete(self, app_name: str, user_id: str, name: str) -> None:
        places, key = Places.of(app_name), joined(user_id, name)
        for _ in range(ATTEMPTS):
            found = self._store.find(places.sessions, key)
            if found is None:
                return
            numbers = range(found.value["events"])
            some = numbers[:TOGETHER]
            events = [(places.events, _event_key(found.value, number)) for number in some]
            try:
                self._store.set_many(
                    [],
                    delete=[(places.sessions, key), *events],
                    expected=[(places.sessions, key, found.tag or ABSENT)],
                )
            except NotAsExpected:
                continue
            if len(numbers) > len(some):
                # Nobody reaches the others any more: another session has another life.
                self._store.delete_prefix(places.events, f"{found.value['life']}/")
            return
        raise StaleSessionError(_STALE)

    def _append(self, session: Session, event: Event) -> tuple[str, float]:
        """Appends an event; returns the revision of the session, and when it was updated."""
        places, key = Places.of(session.app_name), joined(session.user_id, session.id)
        text = event.model_dump_json(exclude_none=True)
        for _ in range(ATTEMPTS):
            found = self._store.find(places.sessions, key)
            if found is None:
                message = f"Session {session.id} not found."
                raise SessionNotFoundError(message)
            if self._is_there(places, found.value, event, text):
                return found.value["revision"], found.value["updated"]
            _check_current(session, found)
            record: dict[str, Any] = {
                **found.value,
                "revision": uuid4().hex,
                "events": found.value["events"] + 1,
                "last_event": event.id,
                "updated": event.timestamp,
            }
            items: Items = [(places.events, _event_key(record, found.value["events"]), text)]
            _change_states(places, session.user_id, record, event.actions.state_delta, items)
            items.append((places.sessions, key, record))
            try:
                self._store.set_many(items, expected=[(places.sessions, key, found.tag or ABSENT)])
            except NotAsExpected:
                continue
            return record["revision"], record["updated"]
        raise StaleSessionError(_STALE)

    def _is_there(self, places: Places, record: dict[str, Any], event: Event, text: str) -> bool:
        """Says whether an event was the last that was appended: then its answer was lost."""
        if record["last_event"] != event.id or not record["events"]:
            return False
        return self._store.get(places.events, _event_key(record, record["events"] - 1)) == text

    def _session(
        self, app_name: str, user_id: str, name: str, record: dict[str, Any], events: list[Event]
    ) -> Session:
        places = Places.of(app_name)
        shared, users = self._app_state(places), self._user_states(places, user_id)
        return _to_session(
            app_name, user_id, name, record, events=events, shared=shared, users=users
        )

    def _app_state(self, places: Places) -> dict[str, Any]:
        return {key: json.loads(text) for key, text in self._store.items(places.app)}

    def _user_states(self, places: Places, user_id: str | None) -> dict[str, dict[str, Any]]:
        """Returns the states of users, by their names as keys have them."""
        states: dict[str, dict[str, Any]] = {}
        for key, text in self._store.items(places.users, _prefix_of(user_id)):
            user, _, name = key.partition("/")
            states.setdefault(user, {})[name] = json.loads(text)
        return states


_STALE: Final = "The session was changed since it was read: read it again."


def _check_current(session: Session, found: StoreValue) -> None:
    """Raises `StaleSessionError` for a session that others have appended to since."""
    marker = session._storage_update_marker  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - where ADK's own services keep it
    if marker is not None:
        is_current = marker == found.value["revision"]
    else:
        # Of a session that somebody put together, the time is known, and what it ends with.
        last = session.events[-1].id if session.events else None
        is_newer = found.value["updated"] > session.last_update_time
        is_current = not is_newer or (last is not None and last == found.value["last_event"])
    if not is_current:
        raise StaleSessionError(_STALE)


def _change_states(
    places: Places, user_id: str, record: dict[str, Any], delta: dict[str, Any], items: Items
) -> None:
    """Puts what changes of a session's own state into its record, and the rest into `items`."""
    own = json.loads(record["state"])
    for key, value in _jsonable(delta).items():
        if key.startswith(State.APP_PREFIX):
            name = key.removeprefix(State.APP_PREFIX)
            items.append((places.app, name, json.dumps(value)))
        elif key.startswith(State.USER_PREFIX):
            name = f"{joined(user_id)}/{key.removeprefix(State.USER_PREFIX)}"
            items.append((places.users, name, json.dumps(value)))
        elif not key.startswith(State.TEMP_PREFIX):
            own[key] = value
    record["state"] = json.dumps(own)


def _jsonable(state: dict[str, Any]) -> dict[str, Any]:
    """Returns a state as JSON can hold it; what it cannot, as text."""
    return to_jsonable_python(
        state, bytes_mode="base64", inf_nan_mode="constants", serialize_unknown=True
    )


def _event_key(record: dict[str, Any], number: int) -> str:
    return f"{record['life']}/{number:0{_DIGITS}}"


def _prefix_of(user_id: str | None) -> str | None:
    """Returns how the keys of a user begin; None for those of all."""
    return None if user_id is None else f"{joined(user_id)}/"


def _names_of(key: str) -> tuple[str, str]:
    user, _, name = key.partition("/")
    return unquote(user), unquote(name)


def _to_session(
    app_name: str,
    user_id: str,
    name: str,
    record: dict[str, Any],
    *,
    events: list[Event],
    shared: dict[str, Any],
    users: dict[str, dict[str, Any]],
) -> Session:
    state = json.loads(record["state"])
    state |= {f"{State.APP_PREFIX}{key}": value for key, value in shared.items()}
    own = users.get(joined(user_id), {})
    state |= {f"{State.USER_PREFIX}{key}": value for key, value in own.items()}
    session = Session(
        id=name,
        app_name=app_name,
        user_id=user_id,
        state=state,
        events=events,
        last_update_time=record["updated"],
    )
    session._storage_update_marker = record["revision"]  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - as above
    return session
