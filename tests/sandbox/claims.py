"""Which reported layers claim to stop which attack. What gets past one that is in force breaks the promise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Claims = Mapping[str, tuple[str, ...]]

_FILES = ("landlock", "mount_namespace")
_METADATA = ("mount_namespace", "metadata_filter")
_PROCESS = ("pid_namespace", "landlock", "mount_namespace")
_FILTER = ("seccomp",)

CLAIMS: Claims = {
    "read_by_path": _FILES,
    "read_by_link": _FILES,
    "read_above_the_workspace": _FILES,
    "read_far_above_the_workspace": _FILES,
    "read_by_own_root_in_proc": _FILES,
    "read_by_cwd_of_the_parent": _FILES,
    "read_the_shadow_file": _FILES,
    "list_outside": _FILES,
    "read_during_a_swap": ("process",),  # the workspace's own code, whatever the sandbox
    "write_by_path": _FILES,
    "write_in_tmp": _FILES,
    "write_in_shared_memory": _FILES,
    "write_in_the_workspace": ("read_only",),
    "link_to_outside_file": _FILES,
    "truncate_outside": _FILES,
    "stat_outside": ("mount_namespace",),
    "chmod_outside": _METADATA,
    "chmod_outside_by_new_call": _METADATA,
    "touch_outside": _METADATA,
    "chmod_in_the_workspace": ("read_only",),
    "watch_outside": ("seccomp", "mount_namespace"),
    "connect_by_tcp": ("seccomp", "net_namespace", "landlock"),
    "send_by_udp": ("seccomp", "net_namespace"),
    "connect_to_a_socket_by_path": ("seccomp", "mount_namespace"),
    "connect_to_an_abstract_socket": ("seccomp", "net_namespace", "landlock_scope"),
    "point_a_pair_at_a_path": ("seccomp", "mount_namespace"),
    "ask_netlink": _FILTER,
    "set_up_io_uring": _FILTER,
    "read_the_environment_of_the_parent": _PROCESS,
    "open_the_memory_of_the_parent": _PROCESS,
    "read_the_memory_of_the_parent": ("pid_namespace", "seccomp"),
    "trace_the_parent": ("pid_namespace", "seccomp"),
    "signal_the_parent": ("pid_namespace", "landlock_scope"),
    "signal_the_zygote": ("pid_namespace", "landlock_scope"),
    "take_a_descriptor_of_the_parent": ("pid_namespace", "seccomp"),
    "find_the_canary": ("minimal_env",),
    "use_an_inherited_descriptor": ("no_inherited_fds",),
    "enter_a_new_user_namespace": _FILTER,
    "clone_into_a_new_user_namespace": _FILTER,
    "mount_something": ("seccomp", "no_capabilities"),
    "change_the_root": ("seccomp", "no_capabilities"),
    "load_a_bpf_program": _FILTER,
    "open_performance_counters": _FILTER,
    "read_the_keyring": _FILTER,
    "make_a_file_in_memory": _FILTER,
    "make_shared_memory": _FILTER,
    "become_root": ("uid",),
    "regain_a_capability": ("no_capabilities",),
    "start_a_program": ("no_programs",),
    "fork_without_end": ("process_limit",),
    "blow_up_one_process": ("rlimits",),
    "blow_up_several_processes": ("no_programs",),
    "write_a_huge_file": ("rlimits", "read_only"),
    "open_files_without_end": ("rlimits",),
    "import_a_service_library": ("process",),
}
"""The attack is stopped when any of these is in force. "read_only" and "metadata_filter" follow from the options."""

ADMITTED: Mapping[str, str] = {
    "stat_outside": "stat_outside",
    "chmod_outside": "chmod_outside",
    "chmod_outside_by_new_call": "chmod_outside",
    "touch_outside": "chmod_outside",
    "blow_up_several_processes": "aggregate_memory",
    "fork_without_end": "process_limit",
}
"""What the report must call missing when the attack gets out."""


def layers(in_force: Sequence[str], *, writable: bool, shell: bool) -> set[str]:
    """The layers behind the names, and those that follow from them."""
    found = {name.partition(":")[0] for name in in_force}
    if not writable and found & {"landlock"}:
        found.add("read_only")
    if "seccomp" in found and not (writable and shell):
        found.add("metadata_filter")
    return found


def allowed(name: str, *, writable: bool, shell: bool) -> bool:
    """What the options permit is no escape."""
    if name in ("write_in_the_workspace", "chmod_in_the_workspace"):
        return writable
    return shell and name in ("start_a_program", "blow_up_several_processes")
