"""JSON bodies: read with care, since anybody may have written them.

What is no UTF-8, no JSON, or nested beyond reason does not fit. Reason ends well before the
interpreter does: an answer that shows what was stored nests it a few levels deeper, and has to
be possible, too.
"""

from typing import Any, Final, cast

from litestar import Request

from holdfast.server.problems import Unfit

DEEPEST: Final = 200
"""Lists and objects in one another."""

MOST_INSIDE: Final = 200_000
"""Lists and objects in all: what takes a tenth of a second to decode."""


class JsonRequest(Request[Any, Any, Any]):
    """A request whose body is JSON, if it is anything."""

    async def json(self) -> Any:  # noqa: ANN401 - any JSON
        """Returns what the body says; raises `Unfit`."""
        body = await self.body()
        inside = body.count(b"[") + body.count(b"{")
        if inside > MOST_INSIDE:
            # Before it is decoded: until it is, this process answers nobody else.
            raise Unfit(f"the body holds more than {MOST_INSIDE} lists and objects")
        try:
            found = await super().json()
        except UnicodeDecodeError as exc:
            raise Unfit("the body is not UTF-8") from exc
        except RecursionError as exc:
            raise _too_deep() from exc
        # Nobody looks at a body that cannot be so deep.
        if inside > DEEPEST and _is_too_deep(found):
            raise _too_deep()
        return found


def _is_too_deep(found: object) -> bool:
    level, depth = [found], 0
    while level:
        if depth > DEEPEST:
            return True
        level = [part for each in level for part in _parts(each)]
        depth += 1
    return False


def _parts(value: object) -> list[object]:
    if isinstance(value, dict):
        inside = list(cast("dict[str, object]", value).values())
    elif isinstance(value, list):
        inside = cast("list[object]", value)
    else:
        return []
    return [part for part in inside if isinstance(part, dict | list)]


def _too_deep() -> Unfit:
    return Unfit(f"the body is nested more than {DEEPEST} levels deep")
