"""What looks like a secret: shapes of tokens that their makers chose to be recognised by.

A file with one of them in it stays here. That is coarse on purpose: what was pushed cannot be
taken back. The shapes are those that makers document; a password that looks like a word is not
found.
"""

import re
from collections.abc import Iterable
from typing import Final

_SHAPES: Final[dict[bytes, tuple[bytes, ...]]] = {
    rb"-----BEGIN (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----": (b"PRIVATE KEY",),
    rb"PuTTY-User-Key-File-[0-9]": (b"PuTTY-User-Key-File-",),
    rb"AGE-SECRET-KEY-1[0-9A-Z]{20,}": (b"AGE-SECRET-KEY-1",),
    rb"\b(?:AKIA|ASIA|ABIA|ACCA)[0-9A-Z]{16}\b": (
        b"AKIA",
        b"ASIA",
        b"ABIA",
        b"ACCA",
    ),
    rb"(?i:aws.{0,20}secret.{0,20}[=:]\s?.?[0-9a-z/+]{40}\b)": (
        b"secret",
        b"SECRET",
        b"Secret",
    ),
    rb"\bgh[pousr]_[0-9A-Za-z]{20,}": (
        b"ghp_",
        b"gho_",
        b"ghu_",
        b"ghs_",
        b"ghr_",
    ),
    rb"\bgithub_pat_[0-9A-Za-z_]{20,}": (b"github_pat_",),
    rb"\bgl(?:pat|ptt|dt|rt|soat|ft|agent|cbt|imt)-[0-9A-Za-z_\-]{16,}": (
        b"glpat-",
        b"glptt-",
        b"gldt-",
        b"glrt-",
        b"glsoat-",
        b"glft-",
        b"glagent-",
        b"glcbt-",
        b"glimt-",
    ),
    rb"\bATBB[0-9A-Za-z]{20,}": (b"ATBB",),
    rb"\bATATT3[0-9A-Za-z_\-=]{20,}": (b"ATATT3",),
    rb"\bxox[abeoprs]-[0-9A-Za-z\-]{10,}": (b"xox",),
    rb"\bxapp-[0-9]-[0-9A-Za-z\-]{10,}": (b"xapp-",),
    rb"hooks\.slack\.com/(?:services|workflows)/[0-9A-Za-z/]{20,}": (b"hooks.slack.com/",),
    rb"discord(?:app)?\.com/api/webhooks/[0-9]{10,}/[0-9A-Za-z_\-]{20,}": (b"/api/webhooks/",),
    rb"\.(?:(?<=[MNO][\w-]{23}\.)|(?<=[MNO][\w-]{25}\.))[\w-]{6}\.[\w-]{27}": (b".",),
    rb"\b[0-9]{8,10}:AA[0-9A-Za-z_\-]{32,}": (b":AA",),
    rb"\b(?:sk|rk|pk)_(?:live|test)_[0-9A-Za-z]{10,}": (
        b"_live_",
        b"_test_",
    ),
    rb"\bwhsec_[0-9A-Za-z+/=]{20,}": (b"whsec_",),
    rb"\bsk-[0-9A-Za-z_\-]{20,}": (b"sk-",),
    rb"\bAIza[0-9A-Za-z_\-]{35}": (b"AIza",),
    rb"\bya29\.[0-9A-Za-z_\-]{20,}": (b"ya29.",),
    rb"\bGOCSPX-[0-9A-Za-z_\-]{20,}": (b"GOCSPX-",),
    rb"\bhf_[0-9A-Za-z]{30,}": (b"hf_",),
    rb"\bnpm_[0-9A-Za-z]{30,}": (b"npm_",),
    rb"\bpypi-[0-9A-Za-z_\-]{30,}": (b"pypi-",),
    rb"\brubygems_[0-9a-f]{40,}": (b"rubygems_",),
    rb"\bSG\.[0-9A-Za-z_\-]{16,64}\.[0-9A-Za-z_\-]{16,}": (b"SG.",),
    rb"\bkey-[0-9a-f]{32}\b": (b"key-",),
    rb"\b(?:SK|AC)[0-9a-f]{32}\b": (
        b"SK",
        b"AC",
    ),
    rb"\bdo[opr]_v1_[0-9a-f]{40,}": (b"_v1_",),
    rb"(?:Account|SharedAccess)Key=[0-9A-Za-z+/]{40,}": (
        b"AccountKey=",
        b"SharedAccessKey=",
    ),
    rb"\bsig=[0-9A-Za-z%]{40,}": (b"sig=",),
    rb"\bshp(?:at|ca|pa|ss)_[0-9a-fA-F]{20,}": (
        b"shpat_",
        b"shpca_",
        b"shppa_",
        b"shpss_",
    ),
    rb"\bdapi[0-9a-f]{32}\b": (b"dapi",),
    rb"\bdckr_(?:pat|oat)_[0-9A-Za-z_\-]{20,}": (b"dckr_",),
    rb"\bhv[bsr]\.[0-9A-Za-z_\-]{20,}": (
        b"hvb.",
        b"hvs.",
        b"hvr.",
    ),
    rb"\blin_(?:api|oauth)_[0-9A-Za-z]{20,}": (
        b"lin_api_",
        b"lin_oauth_",
    ),
    rb"\b(?:secret|ntn)_[0-9A-Za-z]{40,}": (
        b"secret_",
        b"ntn_",
    ),
    rb"\bPMAK-[0-9a-f]{20,}": (b"PMAK-",),
    rb"\bsq0[a-z]{3}-[0-9A-Za-z_\-]{20,}": (b"sq0",),
    rb"\bEAAA[0-9A-Za-z_\-]{50,}": (b"EAAA",),
    rb"\b(?:glsa|glc)_[0-9A-Za-z+/=_]{30,}": (
        b"glsa_",
        b"glc_",
    ),
    rb"\bNRAK-[0-9A-Z]{20,}": (b"NRAK-",),
    rb"\bsntry[su]_[0-9A-Za-z+/=_]{30,}": (
        b"sntrys_",
        b"sntryu_",
    ),
    rb"\bpscale_(?:tkn|pw|oauth)_[0-9A-Za-z_.\-]{30,}": (b"pscale_",),
    rb"\bgsk_[0-9A-Za-z]{30,}": (b"gsk_",),
    rb"\bxai-[0-9A-Za-z]{40,}": (b"xai-",),
    rb"\br8_[0-9A-Za-z]{30,}": (b"r8_",),
    rb"\bpplx-[0-9A-Za-z]{30,}": (b"pplx-",),
    rb"\btskey-[0-9A-Za-z\-]{20,}": (b"tskey-",),
    rb"\bholdfast-[a-z]{2,10}-[0-9A-Za-z_\-]{40,}": (b"holdfast-",),
    rb"\beyJ[0-9A-Za-z_\-]{10,300}\.eyJ[0-9A-Za-z_\-]{10}": (b"eyJ",),
}
"""Each with words of which one is in it: to look for a word takes a hundredth of the time.

Nothing without an end stands before something else: a hostile text would take for ever.
"""

_BEFORE: Final = {
    b"PRIVATE KEY": 33,
    b"/api/webhooks/": 14,
    b":AA": 10,
    b"_v1_": 3,
    **dict.fromkeys((b"_live_", b"_test_"), 2),
    **dict.fromkeys((b"secret", b"SECRET", b"Secret"), 23),
}
"""How far before a word what it is in may begin; all others begin with it."""

_EXPRESSIONS: Final = [(re.compile(shape), words) for shape, words in _SHAPES.items()]
_WORDS: Final = [(word, each) for each, words in _EXPRESSIONS for word in words]

_LONGEST: Final = 512
"""So much of a shape may lie across two parts of a file: more than any has to be known by."""

SHAPES: Final = b"\n".join(_SHAPES)
"""What is looked for: another list makes other trees."""


def has_token(parts: Iterable[bytes]) -> bool:
    """Says whether there is something in a text that looks like a secret."""
    before = b""
    for part in parts:
        text = before + part
        for word, expression in _WORDS:
            if word in text and _is_in(expression, word, text):
                return True
        before = text[-_LONGEST:]
    return False


def without_tokens(text: str) -> str:
    """Returns a text with dots in place of whatever in it looks like a secret."""
    data = text.encode("utf-8", "replace")
    for each, words in _EXPRESSIONS:
        if any(word in data for word in words):
            data = each.sub(b"[...]", data)
    return data.decode("utf-8", "replace")


def _is_in(expression: re.Pattern[bytes], word: bytes, text: bytes) -> bool:
    """Says whether something matches around one of the places that a word stands at."""
    if len(word) == 1:  # It is everywhere.
        return expression.search(text) is not None
    at, before = text.find(word), _BEFORE.get(word, 0)
    while at != -1:
        if any(expression.match(text, start) for start in range(max(0, at - before), at + 1)):
            return True
        at = text.find(word, at + 1)
    return False
