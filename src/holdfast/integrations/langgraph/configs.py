"""What a config of LangGraph says of a checkpoint; one that says something else is an error."""

from collections.abc import Mapping
from typing import Any, NamedTuple, cast
from uuid import UUID

from langchain_core.runnables import RunnableConfig

from holdfast.errors import InvalidValue, NotFound, SnapshotNotFound, shorten


class Named(NamedTuple):
    """The checkpoint that a config names, or the thread whose newest is meant."""

    thread_id: Any
    """As the config says it."""
    checkpoint_ns: str
    checkpoint_id: str | None

    @property
    def thread(self) -> str:
        """The id of the thread as text; raises `InvalidValue` for what is no id."""
        return thread_name(self.thread_id)


def named_in(config: RunnableConfig) -> Named:
    """Returns what a config names; raises `InvalidValue` if that is no thread.

    In one look: a step of a graph asks three times for all of it.
    """
    said = configured(config)
    if "thread_id" not in said:
        raise InvalidValue("the config names no thread: it needs a thread_id")
    checkpoint_ns, checkpoint_id = said.get("checkpoint_ns"), said.get("checkpoint_id")
    if checkpoint_ns.__class__ is not str:
        checkpoint_ns = _checked("checkpoint_ns", checkpoint_ns)
    if checkpoint_id.__class__ is not str:
        checkpoint_id = _checked("checkpoint_id", checkpoint_id)
    return Named(said["thread_id"], checkpoint_ns or "", checkpoint_id or None)


def configured(config: RunnableConfig | None) -> Mapping[str, Any]:
    """Returns what a config says; raises `InvalidValue` for what is no config."""
    if config is None:
        return {}
    # A plain one, as nearly all are, takes a tenth of the time.
    plain: Any = config
    if plain.__class__ is dict and (given := plain.get("configurable")).__class__ is dict:
        return given
    said: Any = config.get("configurable") or {} if isinstance(config, Mapping) else None  # pyright: ignore[reportUnnecessaryIsInstance] - of untyped callers
    if not isinstance(said, Mapping):
        raise InvalidValue("a config is a dict, and what is configurable in it is one as well")
    return cast("Mapping[str, Any]", said)


def thread_name(thread_id: object) -> str:
    """Returns the id of a thread as text; raises `InvalidValue` for what is no id."""
    if thread_id.__class__ is str:
        return cast("str", thread_id)
    if isinstance(thread_id, bool) or not isinstance(thread_id, str | int | UUID):
        message = f"thread_id is text, not {type(thread_id).__name__}"
        raise InvalidValue(message)
    return str(thread_id)


def thread_of(config: RunnableConfig) -> Any:
    """Returns the id of the thread that a config names, as it says it."""
    said = configured(config)
    if "thread_id" not in said:
        raise InvalidValue("the config names no thread: it needs a thread_id")
    return said["thread_id"]


def ns_of(config: RunnableConfig | None) -> str | None:
    """Returns the `checkpoint_ns` that a config names, or None."""
    return _text(config, "checkpoint_ns")


def id_of(config: RunnableConfig | None) -> str | None:
    """Returns the checkpoint that a config names, or None."""
    return _text(config, "checkpoint_id") or None


def checkpoint_of(config: RunnableConfig) -> str:
    """Returns the checkpoint that a config names; raises `InvalidValue` if it names none."""
    checkpoint_id = id_of(config)
    if checkpoint_id is None:
        raise InvalidValue("the config names no checkpoint: it needs a checkpoint_id")
    return checkpoint_id


def config_of(thread_id: object, checkpoint_ns: str, checkpoint_id: str) -> RunnableConfig:
    """Returns the config that names a checkpoint."""
    return {
        "configurable": {
            "thread_id": thread_id,
            "checkpoint_ns": checkpoint_ns,
            "checkpoint_id": checkpoint_id,
        }
    }


def _text(config: RunnableConfig | None, name: str) -> str | None:
    return _checked(name, configured(config).get(name))


def _checked(name: str, said: object) -> str | None:
    if said is not None and not isinstance(said, str):
        message = f"{name} is text, not {type(said).__name__}"
        raise InvalidValue(message)
    return said


class CheckpointWithoutSnapshot(SnapshotNotFound):
    """A checkpoint that no snapshot on the timeline was taken with.

    `nearest` is the config of the newest one before it that has a snapshot; None if there is none
    among those that were looked at.
    """

    hint = (
        "A run that was killed between a checkpoint and its snapshot leaves one without, and a "
        "snapshot may have expired: restore the checkpoint that `nearest` names, if there is one."
    )

    def __init__(self, checkpoint_id: str, *, nearest: RunnableConfig | None) -> None:
        before = "and none of those looked at before it has one"
        if nearest is not None:
            before = f"the nearest before it with one is {shorten(checkpoint_of(nearest))}"
        NotFound.__init__(self, f"checkpoint {shorten(checkpoint_id)} has no snapshot, {before}")
        self.snapshot_id, self.nearest = checkpoint_id, nearest
