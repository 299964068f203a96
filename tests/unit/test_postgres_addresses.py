"""An address of a database that cannot be read is named, and not its password."""

import pytest

import holdfast
from holdfast.errors import InvalidValue


@pytest.mark.parametrize("password", ["pa%ssS3CRET", "pa S3CRET", "S3CRET@[bad"])
def test_a_password_is_in_no_error(password: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        holdfast.open(f"postgresql://agent:{password}@127.0.0.1:9/holdfast")
    said = caught.value
    while said is not None:
        assert "S3CRET" not in f"{said!s} {said!r} {getattr(said, 'hint', '')}"
        said = said.__cause__
