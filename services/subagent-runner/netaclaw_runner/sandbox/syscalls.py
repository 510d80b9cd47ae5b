"""Numbers of the system calls that the filter knows, on the two architectures it is written for.

From Linux's include/uapi/asm-generic/unistd.h and arch/x86/entry/syscalls/syscall_64.tbl.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

Architecture = Literal["x86_64", "aarch64"]

AUDIT: Mapping[Architecture, int] = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
"""What a filter sees in the field `arch`."""

LAST_KNOWN = 467
"""open_tree_attr. What is newer than this table is answered with ENOSYS, as by an older kernel."""

_BOTH: Mapping[str, tuple[int | None, int | None]] = {
    # name: (x86_64, aarch64); None where the architecture has no such call
    "accept": (43, 202),
    "accept4": (288, 242),
    "acct": (163, 89),
    "add_key": (248, 217),
    "adjtimex": (159, 171),
    "bind": (49, 200),
    "bpf": (321, 280),
    "chmod": (90, None),
    "chown": (92, None),
    "chroot": (161, 51),
    "clock_adjtime": (305, 266),
    "clock_settime": (227, 112),
    "clone": (56, 220),
    "clone3": (435, 435),
    "connect": (42, 203),
    "delete_module": (176, 106),
    "execve": (59, 221),
    "execveat": (322, 281),
    "fanotify_init": (300, 262),
    "fanotify_mark": (301, 263),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "fchown": (93, 55),
    "fchownat": (260, 54),
    "finit_module": (313, 273),
    "fork": (57, None),
    "fremovexattr": (199, 16),
    "fsconfig": (431, 431),
    "fsetxattr": (190, 7),
    "fsmount": (432, 432),
    "fsopen": (430, 430),
    "fspick": (433, 433),
    "futimesat": (261, None),
    "init_module": (175, 105),
    "inotify_add_watch": (254, 27),
    "inotify_init": (253, None),
    "inotify_init1": (294, 26),
    "io_setup": (206, 0),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425),
    "ioctl": (16, 29),
    "ioperm": (173, None),
    "iopl": (172, None),
    "kcmp": (312, 272),
    "kexec_file_load": (320, 294),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "lchown": (94, None),
    "listen": (50, 201),
    "listmount": (458, 458),
    "lookup_dcookie": (212, 18),
    "lremovexattr": (198, 15),
    "lsetxattr": (189, 6),
    "mbind": (237, 235),
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "migrate_pages": (256, 238),
    "mount": (165, 40),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "move_pages": (279, 239),
    "mq_open": (240, 180),
    "msgget": (68, 186),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "open_tree_attr": (467, 467),
    "perf_event_open": (298, 241),
    "personality": (135, 92),
    "pidfd_getfd": (438, 438),
    "pivot_root": (155, 41),
    "process_madvise": (440, 440),
    "process_mrelease": (448, 448),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "ptrace": (101, 117),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "reboot": (169, 142),
    "removexattr": (197, 14),
    "removexattrat": (466, 466),
    "request_key": (249, 218),
    "semget": (64, 190),
    "set_mempolicy": (238, 237),
    "setdomainname": (171, 162),
    "sethostname": (170, 161),
    "setns": (308, 268),
    "settimeofday": (164, 170),
    "setxattr": (188, 5),
    "setxattrat": (463, 463),
    "shmat": (30, 196),
    "shmget": (29, 194),
    "socket": (41, 198),
    "socketpair": (53, 199),
    "statmount": (457, 457),
    "swapoff": (168, 225),
    "swapon": (167, 224),
    "syslog": (103, 116),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "uselib": (134, None),
    "userfaultfd": (323, 282),
    "utime": (132, None),
    "utimensat": (280, 88),
    "utimes": (235, None),
    "vfork": (58, None),
    "vhangup": (153, 58),
}

_COLUMN: Mapping[Architecture, int] = {"x86_64": 0, "aarch64": 1}


def number(name: str, architecture: Architecture) -> int | None:
    """A call's number; None where the architecture has no such call. Raises KeyError for a name not in the table."""
    return _BOTH[name][_COLUMN[architecture]]


def architecture_of(machine: str) -> Architecture | None:
    """The table's column for a machine, None when the filter is not written for it."""
    return machine if machine in ("x86_64", "aarch64") else None  # type: ignore[return-value]  # of the two
