"""Texts that look like secrets, in shapes that makers of tokens document; none opens anything."""

from typing import Final

_LETTERS: Final = "aB3xK9qLm2Zt7RwY4pNc8VdJ5hGs6"
_HEX: Final = "0a1b2c3d4e5f6789"


def _of(size: int, letters: str = _LETTERS) -> str:
    return (letters * size)[:size]


TOKENS: Final = (
    "AKIAIOSFODNN7EXAMPLE",
    "ASIAY34FZKBOKMUTVV7A",
    *(f"gh{kind}_{_of(36)}" for kind in "pousr"),
    f"github_pat_{_of(60)}",
    f"glpat-{_of(20)}",
    f"xoxb-123456789012-{_of(24)}",
    f"xoxp-123456789012-{_of(24)}",
    f"sk_live_{_of(24)}",
    f"rk_live_{_of(24)}",
    f"AIza{_of(35)}",
    f"ya29.{_of(40)}",
    f"sk-{_of(48)}",
    f"sk-proj-{_of(48)}",
    f"sk-ant-api03-{_of(80)}",
    f"hf_{_of(34)}",
    f"npm_{_of(36)}",
    f"pypi-AgEIcHlwaS5vcmc{_of(40)}",
    f"SG.{_of(22)}.{_of(43)}",
    f"shpat_{_of(32, _HEX)}",
    f"dop_v1_{_of(64, _HEX)}",
    f"dapi{_of(32, _HEX)}",
    f"dckr_pat_{_of(27)}",
    f"hvs.{_of(24)}",
    f"lin_api_{_of(40)}",
    f"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.{_of(43)}",
    f"AGE-SECRET-KEY-1{_of(58, _LETTERS.upper())}",
    f"SK{_of(32, _HEX)}",
)
