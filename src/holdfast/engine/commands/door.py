"""Commands for doors that have habits of their own."""

from holdfast.engine.namespace import Namespace
from holdfast.engine.planes.commanding import Manner
from holdfast.engine.tasks.commanding import execute
from holdfast.model.commands import Executed, Hear, unheard
from holdfast.operations.commands import Command


def run_as(
    namespace: Namespace, wanted: Command, manner: Manner, *, hear: Hear = unheard
) -> Executed:
    """Runs a command in a namespace, in some manner."""
    handle = namespace._handle  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - of the engine, as this is
    return execute(handle, wanted, hear, manner)
