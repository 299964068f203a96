"""What is no content of a file is refused, and nothing is written."""

from array import array
from pathlib import Path
from typing import Any, cast

import pytest

import holdfast
from holdfast.errors import InvalidValue


@pytest.mark.parametrize("content", [5, True, [104, 105], None, object()])
def test_only_text_and_bytes_are_contents(content: object, tmp_path: Path) -> None:
    with holdfast.open(tmp_path / "vault") as vault:
        files = vault.namespace("a").files
        files.write("p", "kept")
        with pytest.raises(InvalidValue):
            files.write_many([("p", cast("Any", content))])
        assert files.read("p") == b"kept"
        files.write_many([("p", memoryview(array("B", [104, 105])))])
        assert files.read("p") == b"hi"
