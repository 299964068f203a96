"""Secrets of others, which nobody is shown again: encrypted with a key that no vault holds.

The key comes from the environment of who works. What is encrypted is bound to what it is for: put
into another row it does not open. Without the key, nothing is kept and nothing is opened.
"""

import os
from typing import Any, Final

from holdfast.engine.core.ciphers import (
    LEAST_CHARS,
    NONCE_BYTES,
    cipher_of,
    invalid_tag,
    key_of,
    load_cryptography,
)
from holdfast.engine.core.context import Context
from holdfast.errors import InvalidValue, SecretsLocked

MAX_KEY_CHARS: Final = 16_384

FIRST_KEY: Final = (
    f"Set HOLDFAST_SECRETS_KEY to {LEAST_CHARS} or more characters that nobody guesses, and keep "
    "them: what is encrypted with them is read with nothing else."
)
"""What to do where there is nothing yet that a key would have to fit."""

_FORMAT: Final = b"\x01"


def encrypt(context: Context, data: bytes, *, purpose: str) -> bytes:
    """Returns what only who has the key can read, for this purpose; raises `SecretsLocked`."""
    try:
        cipher = _cipher(context)
    except SecretsLocked as exc:
        raise exc.with_hint(FIRST_KEY) from None
    nonce = os.urandom(NONCE_BYTES)
    return _FORMAT + nonce + cipher.encrypt(nonce, data, purpose.encode())


def decrypt(context: Context, data: bytes, *, purpose: str) -> bytes:
    """Returns what was encrypted for this purpose; raises `SecretsLocked` without its key."""
    cipher = _cipher(context)
    nonce, rest = data[1 : 1 + NONCE_BYTES], data[1 + NONCE_BYTES :]
    try:
        return cipher.decrypt(nonce, rest, purpose.encode())
    except invalid_tag() as exc:
        message = "the secret was encrypted with another key"
        raise SecretsLocked(message) from exc


def make_key_pair() -> tuple[bytes, str]:
    """Returns a new key: the private half, and the line that a host is given."""
    made = load_cryptography("hazmat.primitives.asymmetric.ed25519").Ed25519PrivateKey.generate()
    return _private_text(made), _public_line(made)


def read_key(text: str) -> tuple[bytes, str]:
    """Returns both halves of a private key that somebody brings; raises `InvalidValue`."""
    serialization = load_cryptography("hazmat.primitives.serialization")
    if len(text) > MAX_KEY_CHARS:
        raise InvalidValue("a private key has 16 KB at the most")
    data = text.strip().encode() + b"\n"
    for load in (serialization.load_ssh_private_key, serialization.load_pem_private_key):
        try:
            found = load(data, password=None)
            return _private_text(found), _public_line(found)
        except Exception:  # noqa: BLE001, S112 - of many kinds, and none may repeat what was given
            continue
    raise InvalidValue("private_key is a key of OpenSSH or in PEM, without a passphrase") from None


def _private_text(key: Any) -> bytes:  # noqa: ANN401 - of a library that is loaded when needed
    serialization = load_cryptography("hazmat.primitives.serialization")
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.OpenSSH,
        serialization.NoEncryption(),
    )


def _public_line(key: Any) -> str:  # noqa: ANN401 - as above
    serialization = load_cryptography("hazmat.primitives.serialization")
    form = serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    return f"{key.public_key().public_bytes(*form).decode()} holdfast"


def _cipher(context: Context) -> Any:  # noqa: ANN401 - as above
    said = context.secrets_key
    if said is None or len(said) < LEAST_CHARS:
        message = f"there is no key of {LEAST_CHARS} or more characters to keep secrets with"
        raise SecretsLocked(message)
    return cipher_of(key_of(said, person=b"holdfast secrets"))
