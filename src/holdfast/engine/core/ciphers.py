"""What encrypts: AES-256-GCM, with keys that are made of what somebody has put into a variable."""

from hashlib import blake2b
from typing import Any, Final

from holdfast.errors import Incompatible

LEAST_CHARS: Final = 32
"""A key is random: whoever can remember it has chosen one that can be guessed."""

NONCE_BYTES: Final = 12


def key_of(said: str, *, person: bytes) -> bytes:
    """Returns the key that a text stands for, another one for each use."""
    return blake2b(said.encode(), digest_size=32, person=person).digest()


def cipher_of(key: bytes) -> Any:  # noqa: ANN401 - of a library that is loaded when needed
    """Returns what encrypts and decrypts with a key."""
    return load_cryptography("hazmat.primitives.ciphers.aead").AESGCM(key)


def invalid_tag() -> type[Exception]:
    """Returns what is raised for what was not encrypted with this key, or not for this."""
    return load_cryptography("exceptions").InvalidTag


def load_cryptography(name: str) -> Any:  # noqa: ANN401 - a module
    """Returns a module of the library; raises `Incompatible` where it is not installed."""
    from importlib import import_module  # noqa: PLC0415 - needed by few

    try:
        return import_module(f"cryptography.{name}")
    except ModuleNotFoundError as exc:
        message = "what is encrypted needs `pip install 'holdfast[encryption]'`"
        raise Incompatible(message) from exc
