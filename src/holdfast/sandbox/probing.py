"""Whether commands can be run here, and if not, why.

A sandbox is believed when it has said from within that it holds. Asked before the first command,
and once for a process: what it needs of the kernel does not come and go.
"""

import os
import platform
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from holdfast.errors import SandboxUnavailable
from holdfast.sandbox.confining import PATH, WORKSPACE
from holdfast.sandbox.filtering import make_filter
from holdfast.sandbox.limits import Allowance
from holdfast.sandbox.running import End, Hear, Order, run

_CHECKS: Final = f"""
fail() {{ echo "$1"; exit 1; }}
while read -r name value rest; do
  case $name in
    NoNewPrivs:) [ "$value" = 1 ] || fail "privileges can be gained" ;;
    Seccomp:) [ "$value" = 2 ] || fail "calls of the kernel are not filtered" ;;
    CapEff:|CapPrm:|CapBnd:) [ "$value" = 0000000000000000 ] || fail "capabilities are left" ;;
  esac
done < /proc/self/status
while IFS=: read -r name rest; do
  case $name in *'|'*|*lo) ;; *) fail "there is a network" ;; esac
done < /proc/net/dev
for place in / /usr /etc /dev; do
  ( : > "$place/holdfast-probe" ) 2>/dev/null && fail "$place can be written to"
done
for place in /proc/self/comm /proc/sys/kernel/core_pattern /proc/sysrq-trigger; do
  ( : >> "$place" ) 2>/dev/null && fail "$place can be written to"
done
( : > {WORKSPACE}/probe ) || fail "the workspace cannot be written to"
[ "$BASHPID" -lt 100 ] || fail "other processes are there"
echo holds
"""

_AT_PROBE: Final = Allowance(seconds=10.0)


class Sandbox:
    """Where commands are run. It is asked whether it holds before anything is."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._found: tuple[str, bytes] | None = None

    def check(self) -> None:
        """Raises `SandboxUnavailable`, with the reason, if no command can be run here."""
        self._get()

    def run(self, order: Order, hear: Hear, *, is_wanted: Callable[[], bool] = lambda: True) -> End:
        """Runs a command."""
        bwrap, filter_ = self._get()
        return run(bwrap, filter_, order, hear, is_wanted=is_wanted)

    def _get(self) -> tuple[str, bytes]:
        with self._guard:
            if self._found is None:
                self._found = _probe()
            return self._found


def _is_root() -> bool:
    """Says whether this is the machine's root, and not one of a namespace of its own."""
    if os.geteuid() != 0:
        return False
    with suppress(OSError, ValueError):
        inside, outside, _ = Path("/proc/self/uid_map").read_text("ascii").split("\n")[0].split()
        return inside != "0" or outside == "0"
    return True


def _probe() -> tuple[str, bytes]:
    if sys.platform != "linux":
        raise SandboxUnavailable("commands are run on Linux alone: bubblewrap is there")
    # Not by what this process was told: who sets that would choose what runs here.
    bwrap = shutil.which("bwrap", path=PATH)
    if bwrap is None:
        raise SandboxUnavailable("bubblewrap (`bwrap`) is not installed")
    if _is_root():
        # Whatever namespace its commands are in, what belongs to root is theirs: they could change
        # the modes of devices, and the kernel counts none of their processes.
        raise SandboxUnavailable("commands are not run as root").with_hint(
            "Run it as another user: nothing here needs root."
        )
    filter_ = make_filter(platform.machine())
    if filter_ is None:
        message = f"no filter of system calls is known for {platform.machine()}"
        raise SandboxUnavailable(message)
    if not Path("/bin/bash").exists():
        raise SandboxUnavailable("bash is not installed")
    if not Path("/proc/thread-self/children").exists():
        raise SandboxUnavailable("this kernel does not say which processes a command has")
    said: list[bytes] = []
    with tempfile.TemporaryDirectory(prefix="holdfast-probe-") as folder:
        order = Order(
            command=["/bin/bash", "-c", _CHECKS],
            folder=folder,
            cwd=WORKSPACE,
            allowance=_AT_PROBE,
        )
        run(bwrap, filter_, order, lambda _, text: said.append(text), is_wanted=lambda: True)
    told = b"".join(said).decode("utf-8", "replace").strip()
    if told != "holds":
        raise SandboxUnavailable(f"the sandbox does not hold here: {told[:500] or 'no answer'}")
    return bwrap, filter_
