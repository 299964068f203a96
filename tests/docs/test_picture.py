"""The picture that README begins with is drawn from a real run, of this version."""

import sys

import pytest
from holdfast_docs.picture import PICTURE, draw


@pytest.mark.skipif(sys.platform != "linux", reason="terminals end in another way elsewhere")
def test_the_picture_is_what_a_terminal_shows() -> None:
    assert draw() == PICTURE.read_text(encoding="utf-8"), "`make picture` draws it anew"
