"""Shows addresses in the system's browser, where there is one."""

import os
import shutil
import subprocess
from html import escape

from holdfast.cli.console import Console
from holdfast.ownfiles import create
from holdfast.settings import find_opener, find_runtime_directory
from holdfast.settingsfile import as_given


def open_address(console: Console, address: str) -> bool:
    """Shows an address of the web in the browser; says whether there is one."""
    return address.startswith(("http://", "https://")) and _open(console, address)


def open_link(console: Console, link: str) -> bool:
    """Shows an address that signs in, handed over in a file; says whether there is a browser.

    Whatever stands on a command line, everybody on the machine can read.
    """
    folder = find_runtime_directory(console.environ, makes=True)
    if folder is None or find_opener(console.environ) is None:
        return False
    # One for all times: what is in it is worth nothing after ten minutes.
    page = os.path.join(folder, "holdfast-console.html")
    with create(page) as file:
        file.write(
            f'<!doctype html><meta http-equiv="refresh" content="0;url={escape(link)}">'.encode()
        )
    return _open(console, page)


def _open(console: Console, what: str) -> bool:
    opener = find_opener(console.environ)
    command = opener and shutil.which(opener, path=console.environ.get("PATH"))
    if not command:
        return False
    try:
        subprocess.Popen(  # noqa: S603 - what the system opens files with
            [command, what],
            env={**as_given(console.environ)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError:
        return False
    return True
