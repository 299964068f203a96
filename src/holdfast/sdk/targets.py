"""Where downloads go: a file that is there whole or not at all, or whatever is open already."""

import os
import secrets
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from holdfast.errors import InvalidValue, shorten
from holdfast.sdk.content import Target, local_error


@contextmanager
def opened(target: Target) -> Generator[BinaryIO]:
    """Opens what a download is written to; a path gets its content when all of it is there."""
    if not isinstance(target, str | os.PathLike):
        yield target
        return
    path = Path(target).expanduser()
    # Beside it, so that the last step is a rename, which happens or does not.
    part = path.parent / f".{path.name[:80]}.{secrets.token_hex(8)}"
    try:
        # With the permissions of any new file: a process has one umask, and threads share it.
        file = part.open("xb")
    except OSError as exc:
        raise local_error(exc, path) from exc
    except ValueError as exc:
        message = f"{shorten(str(path))}: {exc}"
        raise InvalidValue(message) from exc
    try:
        with file:
            _keep_mode(file, path)
            yield file
            file.flush()
            os.fsync(file.fileno())
        try:
            part.replace(path)
        except OSError as exc:
            raise local_error(exc, path) from exc
    finally:
        # Also of a download that was cancelled; after the rename there is none.
        part.unlink(missing_ok=True)


def _keep_mode(file: BinaryIO, path: Path) -> None:
    """Lets what replaces a file be for nobody's eyes but those that it was for."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return  # There is none: a new file has what new files have.
    os.fchmod(file.fileno(), mode & 0o777)
