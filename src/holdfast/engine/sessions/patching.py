"""What leads from one JSON value to another, as JSON Patch (RFC 6902) and as text."""

from typing import Any, cast

import msgspec

Patch = list[dict[str, Any]]


def make_patch(old: Any, new: Any, *, at: str = "") -> Patch:
    """Returns the operations that turn one value into the other."""
    if _is_equal(old, new):
        return []
    if isinstance(old, dict) and isinstance(new, dict):
        return _patch_object(cast("dict[str, Any]", old), cast("dict[str, Any]", new), at)
    if isinstance(old, list) and isinstance(new, list):
        return _patch_list(cast("list[Any]", old), cast("list[Any]", new), at)
    return [{"op": "replace", "path": at, "value": new}]


def to_text(old: dict[str, Any], patch: Patch) -> str:
    """Returns a patch for people: a line for each thing that went, came or changed."""
    lines = list[str]()
    for operation in patch:
        path, value = operation["path"], operation.get("value")
        if operation["op"] != "add":
            lines.append(f"- {path}: {_shown(_find(old, path))}")
        if operation["op"] != "remove":
            lines.append(f"+ {path}: {_shown(value)}")
    return "\n".join(lines)


def _patch_object(old: dict[str, Any], new: dict[str, Any], at: str) -> Patch:
    patch = [{"op": "remove", "path": f"{at}/{_escape(k)}"} for k in old if k not in new]
    for key, value in new.items():
        where = f"{at}/{_escape(key)}"
        if key in old:
            patch += make_patch(old[key], value, at=where)
        else:
            patch.append({"op": "add", "path": where, "value": value})
    return patch


def _patch_list(old: list[Any], new: list[Any], at: str) -> Patch:
    """Compares from both ends: what lies between was replaced, and the rest came or went."""
    start, shorter = 0, min(len(old), len(new))
    while start < shorter and _is_equal(old[start], new[start]):
        start += 1
    end = 0
    while end < shorter - start and _is_equal(old[-1 - end], new[-1 - end]):
        end += 1
    old_stop, new_stop = len(old) - end, len(new) - end
    patch: Patch = []
    common = min(old_stop, new_stop)
    for index in range(start, common):
        patch += make_patch(old[index], new[index], at=f"{at}/{index}")
    # From the back, so that the numbers of those before stay true.
    patch += [{"op": "remove", "path": f"{at}/{i}"} for i in range(old_stop - 1, common - 1, -1)]
    patch += [{"op": "add", "path": f"{at}/{i}", "value": new[i]} for i in range(common, new_stop)]
    return patch


def _is_equal(old: Any, new: Any) -> bool:
    # Python takes True for 1 and 1 for 1.0, JSON does not.
    return old == new and msgspec.json.encode(old, order="sorted") == msgspec.json.encode(
        new, order="sorted"
    )


def _escape(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


def _find(value: Any, path: str) -> Any:
    for step in path.split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        value = _part(value, key)
    return value


def _part(value: Any, key: str) -> Any:
    return value[key if isinstance(value, dict) else int(key)]


def _shown(value: Any) -> str:
    return msgspec.json.encode(value).decode()
