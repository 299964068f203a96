"""A client tells a server paths as UTF-8: what is none is refused before anything is sent."""

from collections.abc import Callable
from typing import Any

import pytest

import holdfast
from holdfast.errors import InvalidPath

CALLS: dict[str, Callable[[holdfast.Client, Any], object]] = {
    "write": lambda c, path: c.files.write(path, b""),
    "write_many": lambda c, path: c.files.write_many([("a", b""), (path, b"")]),
    "read": lambda c, path: c.files.read(path),
    "stat": lambda c, path: c.files.stat(path),
    "list": lambda c, path: c.files.list(path),
    "list by prefix": lambda c, path: c.files.list(prefix=path),
    "mkdir": lambda c, path: c.files.mkdir(path),
    "symlink": lambda c, path: c.files.symlink("a", path),
    "move": lambda c, path: c.files.move("a", path),
    "delete": lambda c, path: c.files.delete(path),
    "text_diff": lambda c, path: c.text_diff(path),
    "diff": lambda c, path: c.diff(paths=["a", path]),
    "restore": lambda c, path: c.restore("@", paths=[path]),
}


@pytest.mark.parametrize("path", [b"\xff", b"d/\xc3", "\udcff", "half \ud800"])
@pytest.mark.parametrize("name", CALLS)
def test_a_path_that_is_not_utf_8_is_refused_before_it_is_sent(name: str, path: object) -> None:
    # Nobody listens there: what is sent would be `Unreachable`.
    with (
        holdfast.Client("key", url="http://127.0.0.1:9", namespace="ns", retries=0) as client,
        pytest.raises(InvalidPath, match="UTF-8"),
    ):
        CALLS[name](client, path)
