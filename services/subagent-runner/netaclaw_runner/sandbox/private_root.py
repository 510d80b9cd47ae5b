"""A root of the worker's own: an empty, read-only file system that holds the workspace and, for a shell, programs.

Paths outside cannot even be named: no stat, no chmod, no socket by path, no /proc.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress

from netaclaw_runner.sandbox import kernel
from netaclaw_runner.sandbox.options import LaunchOptions

WORKSPACE = "/workspace"
SCRATCH = "/tmp"  # noqa: S108  # the worker's own, in its own root

PROGRAMS = ("/usr", "/bin", "/sbin", "/lib", "/lib64")
CONFIGURATION = (
    "/etc/alternatives",
    "/etc/group",
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/etc/nsswitch.conf",
    "/etc/passwd",
    "/etc/ssl/certs",
)
DEVICES = ("/dev/full", "/dev/null", "/dev/random", "/dev/urandom", "/dev/zero")

_STAGES = ("/tmp", "/mnt", "/var", "/usr")  # noqa: S108  # a place to build on, in a mount namespace of our own
_SEALED = kernel.MOUNT_ATTR_NOSUID | kernel.MOUNT_ATTR_NODEV


def clone_workspace(workspace: int, id_map: int | None) -> tuple[int, bool]:
    """The workspace's mounts, detached, and whether the map of ids is in force on them.

    For root, and in the mount namespace that the workspace was opened in. Raises OSError.
    """
    tree = kernel.clone_tree(workspace)
    if id_map is None:
        return tree, False
    try:
        kernel.set_mount_attributes(tree, 0, user_namespace=id_map)
    except OSError:  # a file system that cannot be mapped
        return tree, False
    return tree, True


def open_again(workspace: int) -> int:
    """The workspace's own path in this mount namespace, opened. Raises OSError when it leads elsewhere by now."""
    fd = os.open(os.readlink(f"/proc/self/fd/{workspace}"), os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    if not os.path.samestat(os.fstat(fd), os.fstat(workspace)):
        os.close(fd)
        raise OSError(errno.ESTALE, "the workspace has moved")
    return fd


def enter(tree: int | None, options: LaunchOptions, scratch_bytes: int, *, detached: bool) -> int | None:
    """Make the root and move into it. Returns the workspace, opened anew inside. Raises OSError.

    Needs a mount namespace of our own. `tree`: the workspace, as a detached tree or as a path that was opened.
    """
    kernel.mount(None, "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
    stage = next(place for place in _STAGES if os.path.isdir(place))
    sources = _open_sources() if options.shell else {}
    flags = kernel.MS_NOSUID | kernel.MS_NODEV
    kernel.mount("none", stage, "tmpfs", flags, "size=256k,nr_inodes=128,mode=755")
    if tree is not None:
        _place_workspace(tree, stage + WORKSPACE, options, detached=detached)
    for path, source in sources.items():
        _place(path, source, stage)
    if options.shell:
        os.mkdir(stage + SCRATCH)
        kernel.mount("none", stage + SCRATCH, "tmpfs", flags, f"size={scratch_bytes},mode=1777")
    os.chdir(stage)
    # Over the old root, as an initial RAM disk is left. Taking that one down as well would wait for every processor,
    # 10 ms here; it lies out of reach beneath, for nobody here may unmount.
    kernel.move_mount(".", "/")
    os.chroot(".")
    os.chdir("/")
    _seal("/", _SEALED | kernel.MOUNT_ATTR_RDONLY, recursive=False)
    return None if tree is None else os.open(WORKSPACE, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


def _place_workspace(tree: int, target: str, options: LaunchOptions, *, detached: bool) -> None:
    os.mkdir(target)
    if detached:
        kernel.attach_tree(tree, target)
    else:
        _bind(tree, target)
    attributes = _SEALED
    attributes |= 0 if options.writable else kernel.MOUNT_ATTR_RDONLY
    attributes |= 0 if options.shell else kernel.MOUNT_ATTR_NOEXEC
    _seal(target, attributes)


def _open_sources() -> dict[str, int | str]:
    """What a shell needs: a descriptor for each file or folder, the text of each link. Missing ones are left out."""
    found: dict[str, int | str] = {}
    for path in (*PROGRAMS, *CONFIGURATION, *DEVICES):
        with suppress(OSError):
            if path in PROGRAMS and os.path.islink(path):
                found[path] = os.readlink(path)
            else:
                found[path] = os.open(path, os.O_PATH | os.O_CLOEXEC)
    return found


def _place(path: str, source: int | str, stage: str) -> None:
    target = stage + path
    os.makedirs(os.path.dirname(target), exist_ok=True)
    if isinstance(source, str):
        os.symlink(source, target)
        return
    if path in DEVICES or not os.path.isdir(f"/proc/self/fd/{source}"):
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))
    else:
        os.mkdir(target)
    _bind(source, target)
    os.close(source)
    if path not in DEVICES:
        _seal(target, _SEALED | kernel.MOUNT_ATTR_RDONLY)


def _bind(source: int, target: str) -> None:
    kernel.mount(f"/proc/self/fd/{source}", target, None, kernel.MS_BIND | kernel.MS_REC)


def _seal(target: str, attributes: int, *, recursive: bool = True) -> None:
    """A second bolt beside Landlock: where the kernel has no such call, Landlock alone holds."""
    with suppress(OSError):
        fd = os.open(target, os.O_PATH | os.O_CLOEXEC)
        try:
            kernel.set_mount_attributes(fd, attributes, recursive=recursive)
        finally:
            os.close(fd)
