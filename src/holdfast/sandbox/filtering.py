"""What a command may not ask the kernel for: a seccomp filter, as bytes that bubblewrap loads.

Namespaces say what a command sees; this says which parts of the kernel it reaches at all. Refused
is what makes namespaces and mounts, looks into other processes, speaks to families of sockets that
have no namespace (`AF_VSOCK` leads to the host of a virtual machine), makes files that run as
somebody else, and memory that belongs to no process and that nobody therefore counts.

The filter is classic BPF, whose form is fixed by the kernel: eight bytes an instruction. One is
made for each machine that is known; on any other there is none, and so no sandbox.
"""

import errno
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

_LOAD: Final = 0x20  # BPF_LD | BPF_W | BPF_ABS
_EQUAL: Final = 0x15  # BPF_JMP | BPF_JEQ | BPF_K
_AT_LEAST: Final = 0x35  # BPF_JMP | BPF_JGE | BPF_K
_ANY_BIT: Final = 0x45  # BPF_JMP | BPF_JSET | BPF_K
_RETURN: Final = 0x06  # BPF_RET | BPF_K

_ALLOW: Final = 0x7FFF0000
_KILL: Final = 0x80000000
_ERROR: Final = 0x00050000

_NUMBER_AT: Final = 0
_MACHINE_AT: Final = 4
_ARGUMENTS_AT: Final = 16
_ARGUMENT_BYTES: Final = 8

_NEW_NAMESPACES: Final = 0x7E020080
"""`CLONE_NEWTIME`, `NEWNS`, `NEWCGROUP`, `NEWUTS`, `NEWIPC`, `NEWUSER`, `NEWPID`, `NEWNET`."""
_TERMINAL_INPUT: Final = (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX
_FAMILIES: Final = (1, 2, 10)  # AF_UNIX, AF_INET, AF_INET6
_AS_OTHERS: Final = 0o6000
_CREATING: Final = 0x40 | 0x400000  # O_CREAT, __O_TMPFILE

Instruction = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class Machine:
    """A kind of processor: its name in the kernel, and what its calls are numbered."""

    audit: int
    other_calls_from: int | None
    """Calls with this number or a higher one are those of another kind of program."""
    numbers: Mapping[str, int]


_BOTH: Final = {
    "fsconfig": 431,
    "fsmount": 432,
    "fsopen": 430,
    "fspick": 433,
    "io_uring_enter": 426,
    "io_uring_register": 427,
    "io_uring_setup": 425,
    "memfd_secret": 447,
    "mount_setattr": 442,
    "move_mount": 429,
    "open_tree": 428,
    "openat2": 437,
    "clone3": 435,
    "fchmodat2": 452,
    "pidfd_getfd": 438,
    "process_madvise": 440,
    "quotactl_fd": 443,
}

MACHINES: Final = {
    "x86_64": Machine(
        0xC000003E,
        0x40000000,
        _BOTH
        | {
            "acct": 163,
            "add_key": 248,
            "adjtimex": 159,
            "bpf": 321,
            "chmod": 90,
            "chroot": 161,
            "clock_adjtime": 305,
            "clock_settime": 227,
            "clone": 56,
            "creat": 85,
            "delete_module": 176,
            "fanotify_init": 300,
            "fchmod": 91,
            "fchmodat": 268,
            "finit_module": 313,
            "init_module": 175,
            "ioctl": 16,
            "ioperm": 173,
            "iopl": 172,
            "kcmp": 312,
            "kexec_file_load": 320,
            "kexec_load": 246,
            "keyctl": 250,
            "lookup_dcookie": 212,
            "mbind": 237,
            "memfd_create": 319,
            "migrate_pages": 256,
            "mknod": 133,
            "mknodat": 259,
            "modify_ldt": 154,
            "mount": 165,
            "move_pages": 279,
            "msgget": 68,
            "name_to_handle_at": 303,
            "open": 2,
            "open_by_handle_at": 304,
            "openat": 257,
            "perf_event_open": 298,
            "personality": 135,
            "pivot_root": 155,
            "process_vm_readv": 310,
            "process_vm_writev": 311,
            "ptrace": 101,
            "quotactl": 179,
            "reboot": 169,
            "request_key": 249,
            "semget": 64,
            "set_mempolicy": 238,
            "setdomainname": 171,
            "sethostname": 170,
            "setns": 308,
            "settimeofday": 164,
            "shmget": 29,
            "socket": 41,
            "socketpair": 53,
            "swapoff": 168,
            "swapon": 167,
            "syslog": 103,
            "umount2": 166,
            "unshare": 272,
            "userfaultfd": 323,
            "vhangup": 153,
        },
    ),
    "aarch64": Machine(
        0xC00000B7,
        None,
        _BOTH
        | {
            "acct": 89,
            "add_key": 217,
            "adjtimex": 171,
            "bpf": 280,
            "chroot": 51,
            "clock_adjtime": 266,
            "clock_settime": 112,
            "clone": 220,
            "delete_module": 106,
            "fanotify_init": 262,
            "fchmod": 52,
            "fchmodat": 53,
            "finit_module": 273,
            "init_module": 105,
            "ioctl": 29,
            "kcmp": 272,
            "kexec_file_load": 294,
            "kexec_load": 104,
            "keyctl": 219,
            "lookup_dcookie": 18,
            "mbind": 235,
            "memfd_create": 279,
            "migrate_pages": 238,
            "mknodat": 33,
            "mount": 40,
            "move_pages": 239,
            "msgget": 186,
            "name_to_handle_at": 264,
            "open_by_handle_at": 265,
            "openat": 56,
            "perf_event_open": 241,
            "personality": 92,
            "pivot_root": 41,
            "process_vm_readv": 270,
            "process_vm_writev": 271,
            "ptrace": 117,
            "quotactl": 60,
            "reboot": 142,
            "request_key": 218,
            "semget": 190,
            "set_mempolicy": 237,
            "setdomainname": 162,
            "sethostname": 161,
            "setns": 268,
            "settimeofday": 170,
            "shmget": 194,
            "socket": 198,
            "socketpair": 199,
            "swapoff": 225,
            "swapon": 224,
            "syslog": 116,
            "umount2": 39,
            "unshare": 97,
            "userfaultfd": 282,
            "vhangup": 58,
        },
    ),
}
"""The machines that a filter can be made for."""

_NOT_THERE: Final = frozenset({"clone3", "memfd_create", "memfd_secret", "openat2", "fchmodat2"})
"""What libraries do otherwise if a kernel does not have it: their arguments lie in memory, where no
filter looks, or what they make is counted nowhere."""


def make_filter(machine: str) -> bytes | None:
    """Returns the filter for a kind of machine; None if none can be made for it."""
    known = MACHINES.get(machine)
    if known is None:
        return None
    code: list[Instruction] = [
        (_LOAD, 0, 0, _MACHINE_AT),
        (_EQUAL, 1, 0, known.audit),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER_AT),
    ]
    if known.other_calls_from is not None:
        code += [(_AT_LEAST, 0, 1, known.other_calls_from), _refuse(errno.ENOSYS)]
    for name, number in known.numbers.items():
        block = _block(name)
        code += [(_EQUAL, 0, len(block), number), *block]
    code.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in code)


def _block(name: str) -> Sequence[Instruction]:
    """Returns what is done about one call; it ends in an answer."""
    first, second = _TERMINAL_INPUT
    count = len(_FAMILIES)
    families = [(_EQUAL, count - at, 0, family) for at, family in enumerate(_FAMILIES)]
    sockets = [_load(0), *families, _refuse(errno.EAFNOSUPPORT), _allow()]
    chosen = {
        "clone": [_load(0), (_ANY_BIT, 0, 1, _NEW_NAMESPACES), _refuse(), _allow()],
        "ioctl": [_load(1), (_EQUAL, 1, 0, first), (_EQUAL, 0, 1, second), _refuse(), _allow()],
        "socket": sockets,
        "socketpair": sockets,
        "chmod": _unless_as_others(1),
        "fchmod": _unless_as_others(1),
        "creat": _unless_as_others(1),
        "mknod": _unless_as_others(1),
        "fchmodat": _unless_as_others(2),
        "mknodat": _unless_as_others(2),
        "open": [_load(1), (_ANY_BIT, 1, 0, _CREATING), _allow(), *_unless_as_others(2)],
        "openat": [_load(2), (_ANY_BIT, 1, 0, _CREATING), _allow(), *_unless_as_others(3)],
    }
    error = errno.ENOSYS if name in _NOT_THERE else errno.EPERM
    return chosen.get(name, [_refuse(error)])


def _unless_as_others(at: int) -> list[Instruction]:
    return [_load(at), (_ANY_BIT, 0, 1, _AS_OTHERS), _refuse(), _allow()]


def _load(argument: int) -> Instruction:
    # Machines that are known have the lower half of an argument first.
    return (_LOAD, 0, 0, _ARGUMENTS_AT + _ARGUMENT_BYTES * argument)


def _refuse(error: int = errno.EPERM) -> Instruction:
    return (_RETURN, 0, 0, _ERROR | error)


def _allow() -> Instruction:
    return (_RETURN, 0, 0, _ALLOW)
