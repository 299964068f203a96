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
from pathlib import Path
from typing import Final

from holdfast.errors import SandboxUnavailable
from holdfast.sandbox.cgroups import Groups
from holdfast.sandbox.confining import PATH, USUAL_ID, WORKSPACE, is_seen
from holdfast.sandbox.filtering import make_filter
from holdfast.sandbox.limits import Allowance, find_user
from holdfast.sandbox.running import End, Hear, Order, Tools, run

_CHECKS: Final = f"""
fail() {{ echo "$1"; exit 1; }}
while read -r name value rest; do
  case $name in
    NoNewPrivs:) [ "$value" = 1 ] || fail "privileges can be gained" ;;
    Seccomp:) [ "$value" = 2 ] || fail "calls of the kernel are not filtered" ;;
    Cap*) [ "$value" = 0000000000000000 ] || fail "capabilities are left" ;;
    Uid:|Gid:) for id in $value $rest; do [ "$id" = "$1" ] || fail "it is somebody else"; done ;;
    # In a namespace of users they are those of whoever has made it, and cannot be given up.
    Groups:) [ -z "$value" ] || [ "$1" = {USUAL_ID} ] || fail "groups are left" ;;
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
# As it is: where this is not refused, it is the machine's own.
chmod 666 /dev/null 2>/dev/null && fail "the modes of devices can be changed"
( : > {WORKSPACE}/probe ) || fail "the workspace cannot be written to"
[ "$BASHPID" -lt 100 ] || fail "other processes are there"
echo holds
"""

_NUMBER: Final = 0
"""Of the probe. A command that has the same is counted with it for a moment, and no more."""

_AT_PROBE: Final = Allowance(seconds=10.0)


class Sandbox:
    """Where commands are run. It is asked whether it holds before anything is.

    `private` are the folders that no command may see: where they lie among what all see, none runs.
    Each command has a control group in `cgroup`, if that is said.
    """

    def __init__(self, *private: Path, cgroup: str | None = None) -> None:
        self._private = private
        self._groups = None if cgroup is None else Groups(Path(cgroup))
        self._guard = threading.Lock()
        self._found: Tools | None = None

    def check(self) -> None:
        """Raises `SandboxUnavailable`, with the reason, if no command can be run here."""
        _refuse_seen(*self._private)
        self._get()

    def run(self, order: Order, hear: Hear, *, is_wanted: Callable[[], bool] = lambda: True) -> End:
        """Runs a command."""
        _refuse_seen(order.folder, *self._private)
        return run(self._get(), order, hear, is_wanted=is_wanted)

    def _get(self) -> Tools:
        with self._guard:
            if self._found is None:
                self._found = _probe(self._groups)
            return self._found


def _refuse_seen(*folders: str | Path) -> None:
    for folder in filter(is_seen, folders):
        message = f"every command could read {folder}, which lies among the system's programs"
        raise SandboxUnavailable(message)


def _find_tools(groups: Groups | None) -> Tools:
    """Returns what a sandbox would be made with; raises if something is not there."""
    if sys.platform != "linux":
        raise SandboxUnavailable("commands are run on Linux alone: bubblewrap is there")
    # Not by what this process was told: who sets that would choose what runs here.
    bwrap = shutil.which("bwrap", path=PATH)
    if bwrap is None:
        raise SandboxUnavailable("bubblewrap (`bwrap`) is not installed")
    setpriv = None
    if find_user(_NUMBER) is not None:
        setpriv = shutil.which("setpriv", path=PATH)
        if setpriv is None:
            message = "`setpriv` of util-linux is not installed, without which root runs nothing"
            raise SandboxUnavailable(message)
    filter_ = make_filter(platform.machine())
    if filter_ is None:
        message = f"no filter of system calls is known for {platform.machine()}"
        raise SandboxUnavailable(message)
    if not Path("/bin/bash").exists():
        raise SandboxUnavailable("bash is not installed")
    if not Path("/proc/thread-self/children").exists():
        raise SandboxUnavailable("this kernel does not say which processes a command has")
    if groups is not None:
        groups.prepare()
    return Tools(bwrap, filter_, setpriv, groups)


def _probe(groups: Groups | None) -> Tools:
    tools, said, user = _find_tools(groups), list[bytes](), find_user(_NUMBER)
    with tempfile.TemporaryDirectory(prefix="holdfast-probe-") as folder:
        if user is not None:
            os.chown(folder, user, user)
        who = str(USUAL_ID if user is None else user)
        order = Order(
            command=["/bin/bash", "-c", _CHECKS, "bash", who],
            folder=folder,
            cwd=WORKSPACE,
            allowance=_AT_PROBE,
            number=_NUMBER,
        )
        run(tools, order, lambda _, text: said.append(text), is_wanted=lambda: True)
    told = b"".join(said).decode("utf-8", "replace").strip()
    if told != "holds":
        raise SandboxUnavailable(f"the sandbox does not hold here: {told[:500] or 'no answer'}")
    return tools
