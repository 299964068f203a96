"""A travel agent whose model hallucinates: roll back, ask again, and at last call a person.

Each change of a session's state is a version, so there is always one to go back to. The agent
checks what its model wants before anything is booked. If it makes no sense it rolls back and
tries a stricter prompt; after three attempts it hands the conversation to a person, with the
state as it was when all was well.

A script plays the model, so that this runs offline and always the same way.
"""

import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import holdfast

State = dict[str, Any]
Model = Callable[[str, State], State]

PROMPTS = (
    "You are a travel agent.",
    "You are a travel agent. Never change the destination.",
    "You are a travel agent. Change nothing but the field that was asked for.",
)


def scripted(answers: list[State]) -> Model:
    """Returns a model that gives these answers, one after the other, whatever it is asked."""
    left: Iterator[State] = iter(answers)

    def ask(_prompt: str, _state: State) -> State:
        return next(left)

    return ask


def makes_sense(before: State, after: State) -> bool:
    """Says whether a new state still is about the trip that was asked for."""
    return after.get("destination") == before["destination"] and after.get("date") is not None


def ask_until_it_makes_sense(
    agent: holdfast.Namespace, session_id: str, question: str, *, model: Model
) -> bool:
    """Asks with one prompt after the other; says whether any of the answers was good."""
    good = agent.sessions.get(session_id)
    for attempt, prompt in enumerate(PROMPTS, start=1):
        wanted = model(prompt, good.state)
        agent.sessions.add_turn(
            session_id, question, wanted["says"], state_after=wanted["state"], reasoning=prompt
        )
        if makes_sense(good.state, agent.sessions.get(session_id).state):
            print(f"  attempt {attempt}: fine, {wanted['state']}")
            return True
        print(f"  attempt {attempt}: {wanted['says']} - rolled back")
        # State and words: the next attempt must not read what the last one made up.
        agent.sessions.rollback(
            session_id, version=good.version, conversation=True, reason=f"attempt {attempt}"
        )
    return False


def escalate(agent: holdfast.Namespace, session_id: str, *, why: str) -> None:
    """Hands a conversation to a person, as it was when all was well."""
    agent.sessions.update_state(session_id, {"escalated_to": "a person"}, reasoning=why)
    agent.snapshot(f"escalated: {session_id}", reason=why, pin=True)
    print("  a person takes over:", agent.sessions.get(session_id).state)


def main() -> None:
    """Plays a conversation that recovers, and one that does not."""
    trip = {"destination": "NYC", "date": "2031-03-15"}
    gone = {"says": "I have cancelled everything.", "state": {"destination": None, "date": None}}
    elsewhere = {"says": "Paris is nicer.", "state": {"destination": "Paris", "date": "2031-03-15"}}
    booked = {"says": "Booked UA123.", "state": {**trip, "flight": "UA123"}}

    with tempfile.TemporaryDirectory() as folder, holdfast.open(folder) as hf:
        agent = hf.namespace("travel-agent")

        print("a flight:")
        talk = agent.sessions.create("travel-agent", initial_state=trip)
        model = scripted([gone, booked])
        ask_until_it_makes_sense(agent, talk.id, "Book the flight.", model=model)

        print("a hotel:")
        model = scripted([gone, elsewhere, gone])
        if not ask_until_it_makes_sense(agent, talk.id, "Book a hotel.", model=model):
            escalate(agent, talk.id, why="three attempts went wrong")

        print("what happened, version by version:")
        for version in agent.sessions.history(talk.id):
            print(f"  {version.number} {version.kind:8} {version.state}")

        health = agent.health()
        print(f"rollbacks: {health.rollbacks}, which is {health.level}")


if __name__ == "__main__":
    main()
