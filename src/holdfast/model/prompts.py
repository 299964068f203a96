"""A prompt: what somebody asked of a coding agent, and the task that it is on a timeline.

Which conversation a task belongs to is in its metadata, under a name that nobody else uses by
accident. As in `model`: frozen, without behaviour beyond what follows from their fields.
"""

from typing import Annotated, Final

import msgspec

from holdfast.model.tasks import TaskRun, TaskStatus

LAST_NUMBER: Final = 2**31
_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=256)]


class Conversation(msgspec.Struct, frozen=True):
    """One talk with one agent, as the agent itself calls it."""

    agent: _Name
    session: _Name


class _About(msgspec.Struct, frozen=True, kw_only=True):
    agent: _Name
    session: _Name
    number: Annotated[int, msgspec.Meta(ge=1, le=LAST_NUMBER)]
    id: _Name | None = None


class _Metadata(msgspec.Struct, frozen=True):
    prompt: _About = msgspec.field(name="holdfast.prompt")


_decode: Final = msgspec.json.Decoder(_Metadata).decode


class Prompt(msgspec.Struct, frozen=True, kw_only=True):
    """One prompt of a conversation."""

    conversation: Conversation
    number: int
    """Which of the conversation it is, from 1 on."""
    id: str | None = None
    """What the agent calls it, if it does."""
    task: TaskRun
    """What it is on the timeline: `name` is how it begins."""

    @property
    def is_open(self) -> bool:
        """Whether the agent may still be at it."""
        return self.task.status is TaskStatus.RUNNING


def metadata_of(conversation: Conversation, *, number: int, id: str | None) -> str:  # noqa: A002 - what it is called everywhere
    """Returns what the task of a prompt says of it."""
    about = _About(agent=conversation.agent, session=conversation.session, number=number, id=id)
    return msgspec.json.encode(_Metadata(about)).decode()


def prompt_of(task: TaskRun) -> Prompt | None:
    """Returns the prompt that a task is; None for any other task."""
    try:
        about = _decode(task.metadata).prompt
    except msgspec.MsgspecError:
        return None
    talk = Conversation(about.agent, about.session)
    return Prompt(conversation=talk, number=about.number, id=about.id, task=task)
