"""A client tells a server paths as UTF-8, or where something is read, as bytes.

What would be changed under a path that is no UTF-8 is refused before anything is sent.
"""

from collections.abc import Callable
from typing import Any

import pytest

import holdfast
from holdfast.errors import InvalidPath, Unreachable

CHANGES: dict[str, Callable[[holdfast.Client, Any], object]] = {
    "write": lambda c, path: c.files.write(path, b""),
    "write_many": lambda c, path: c.files.write_many([("a", b""), (path, b"")]),
    "mkdir": lambda c, path: c.files.mkdir(path),
    "symlink": lambda c, path: c.files.symlink("a", path),
    "move": lambda c, path: c.files.move("a", path),
    "delete": lambda c, path: c.files.delete(path),
    "diff": lambda c, path: c.diff(paths=["a", path]),
    "restore": lambda c, path: c.restore("@", paths=[path]),
}
READS: dict[str, Callable[[holdfast.Client, Any], object]] = {
    "read": lambda c, path: c.files.read(path),
    "stat": lambda c, path: c.files.stat(path),
    "list": lambda c, path: c.files.list(path),
    "list by prefix": lambda c, path: c.files.list(prefix=path),
    "text_diff": lambda c, path: c.text_diff(path),
}
NOT_UTF_8 = [b"\xff", b"d/\xc3", "\udcff"]
HALF = "half \ud800"


def refused(call: Callable[[holdfast.Client, Any], object], path: object) -> type[Exception]:
    """Returns what a call with a path raises; nobody listens: what is sent is `Unreachable`."""
    with (
        holdfast.Client("key", url="http://127.0.0.1:9", namespace="ns", retries=0) as client,
        pytest.raises((InvalidPath, Unreachable)) as raised,
    ):
        call(client, path)
    return raised.type


@pytest.mark.parametrize("path", [*NOT_UTF_8, HALF])
@pytest.mark.parametrize("name", CHANGES)
def test_nothing_is_changed_under_a_path_that_is_not_utf_8(name: str, path: object) -> None:
    assert refused(CHANGES[name], path) is InvalidPath


@pytest.mark.parametrize("name", READS)
def test_what_is_not_utf_8_is_asked_for_as_bytes(name: str) -> None:
    assert {refused(READS[name], path) for path in NOT_UTF_8} == {Unreachable}
    assert refused(READS[name], HALF) is InvalidPath
