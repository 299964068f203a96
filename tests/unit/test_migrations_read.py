"""What a catalog says of the migrations that it has seen may be damaged, as all else may."""

from typing import Any

import pytest

from holdfast.catalog.tables import check_applied
from holdfast.errors import Damaged


@pytest.mark.parametrize("row", [(49, None), ("49", "x"), (None, "x"), (b"", 1)])
def test_a_row_that_no_version_has_written_is_damage(row: tuple[Any, Any]) -> None:
    with pytest.raises(Damaged):
        check_applied([(1, "first"), row])
