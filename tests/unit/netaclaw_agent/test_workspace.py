"""Attempts to leave a workspace, with the kernel's confinement and with the walk that stands in for it."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netaclaw_agent.tool import ToolError
from netaclaw_agent.tools import confined_open
from netaclaw_agent.tools.confined_open import open_by_walk
from netaclaw_agent.tools.workspace import Workspace, components

SECRET = "canary outside"


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret.txt").write_text(SECRET)
    return folder


@pytest.fixture(params=["kernel", "walk"])
def workspace(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Workspace]:
    if request.param == "walk":
        monkeypatch.setattr(confined_open, "_syscall", None)
    root = tmp_path / "root"
    (root / "inner").mkdir(parents=True)
    (root / "inner" / "a.txt").write_text("inside")
    with Workspace.open(root) as opened:
        if request.param == "kernel" and not opened.checked_by_kernel:
            pytest.skip("this kernel has no openat2")
        yield opened


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


def read(workspace: Workspace, path: str) -> str:
    with workspace.open_file(path) as file:
        return file.read().decode()


def test_files_inside_are_read_by_any_spelling(workspace: Workspace) -> None:
    assert read(workspace, "inner/a.txt") == read(workspace, "./inner//./a.txt") == "inside"


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("../outside/secret.txt", 'contains ".."'),
        ("inner/../../outside/secret.txt", 'contains ".."'),
        ("/etc/passwd", "absolute"),
        ("inner/a.txt\0", "NUL"),
        ("a" * 5000, "too long"),
        ("nothing", "does not exist"),
        ("inner/a.txt/b", "not a folder"),
        ("inner", "is a folder"),
        (".", "is a folder"),
    ],
)
def test_a_path_that_is_no_file_inside_is_refused_in_words(workspace: Workspace, path: str, words: str) -> None:
    with pytest.raises(ToolError, match=words):
        workspace.open_file(path)


@pytest.mark.parametrize(
    "use", [read, Workspace.is_folder, lambda w, p: w.write(p, b"x"), lambda w, p: list(w.walk(p))]
)
def test_a_link_that_leads_out_is_refused(
    workspace: Workspace, root: Path, outside: Path, use: Callable[[Workspace, str], object]
) -> None:
    (root / "link.txt").symlink_to(outside / "secret.txt")
    (root / "folder").symlink_to("../outside")
    for path in ("link.txt", "folder/secret.txt", "folder/new/deep.txt"):
        with pytest.raises(ToolError):
            use(workspace, path)
    assert (outside / "secret.txt").read_text() == SECRET
    assert os.listdir(outside) == ["secret.txt"]


def test_magic_links_are_refused(workspace: Workspace, root: Path, outside: Path) -> None:
    fd = os.open(outside, os.O_RDONLY)
    (root / "magic").symlink_to(f"/proc/{os.getpid()}/fd/{fd}")
    (root / "self").symlink_to("/proc/self/root")
    for path in ("magic/secret.txt", "self/etc/passwd"):
        with pytest.raises(ToolError):
            workspace.open_file(path)
    os.close(fd)


def test_a_proc_file_system_as_workspace_gives_no_way_out() -> None:
    with Workspace.open("/proc/self") as proc, pytest.raises(ToolError):
        proc.open_file("root/etc/passwd")


def test_a_folder_swapped_for_a_link_after_the_walk_is_not_followed(
    workspace: Workspace, root: Path, outside: Path
) -> None:
    (root / "swapped").mkdir()
    (root / "swapped" / "secret.txt").write_text("mine")
    found = [file for file in workspace.walk(".") if file.path == "swapped/secret.txt"]
    shutil.rmtree(root / "swapped")
    (root / "swapped").symlink_to(outside)
    assert workspace.open_found(found[0]) is None


def test_a_target_swapped_for_a_link_is_replaced_and_not_followed(
    workspace: Workspace, root: Path, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real_open = os.open

    def swap_then_open(path: str, flags: int, *rest: int, **named: int) -> int:
        if flags & os.O_CREAT:
            (root / "new.txt").symlink_to(outside / "secret.txt")
        return real_open(path, flags, *rest, **named)

    monkeypatch.setattr(os, "open", swap_then_open)
    workspace.write("new.txt", b"content")
    assert (root / "new.txt").read_text() == "content"
    assert not (root / "new.txt").is_symlink()
    assert (outside / "secret.txt").read_text() == SECRET


@pytest.mark.timeout(10)
def test_a_fifo_is_refused_and_does_not_hang(workspace: Workspace, root: Path) -> None:
    os.mkfifo(root / "pipe")
    for use in (workspace.open_file, workspace.is_folder, lambda path: workspace.write(path, b"x")):
        with pytest.raises(ToolError, match="not a regular file"):
            use("pipe")
    assert [found.path for found in workspace.walk(".")] == ["inner/a.txt"]


def test_a_walk_follows_no_links_and_skips_the_folders_of_tools(
    workspace: Workspace, root: Path, outside: Path
) -> None:
    (root / "loop").symlink_to(".")
    (root / "out").symlink_to(outside)
    for name in (".git", "node_modules", "__pycache__", ".venv", ".mypy_cache"):
        (root / "inner" / name).mkdir()
        (root / "inner" / name / "file").write_text("x")
    assert [found.path for found in workspace.walk(".")] == ["inner/a.txt"]
    assert [found.path for found in workspace.walk("inner/.git")] == ["inner/.git/file"]


def test_a_walk_of_a_deep_tree_needs_few_descriptors(workspace: Workspace, root: Path) -> None:
    deep = root
    for _ in range(200):
        deep = deep / "d"
        deep.mkdir()
    (deep / "end.txt").write_text("x")
    before = len(os.listdir("/proc/self/fd"))
    most = before
    for _ in workspace.walk("."):
        most = max(most, len(os.listdir("/proc/self/fd")))
    assert most <= before + 1
    assert "d/" * 200 + "end.txt" in {found.path for found in workspace.walk(".")}


def test_names_that_are_no_text_are_shown_on_one_clean_line(workspace: Workspace, root: Path) -> None:
    for name in (b"bad\xff.txt", b"two\nlines\t.txt", "查.txt".encode()):
        with open(os.fsencode(root) + b"/" + name, "wb"):
            pass
    paths = {found.path for found in workspace.walk(".")}
    assert paths == {"bad\ufffd.txt", "two\\nlines\\t.txt", "查.txt", "inner/a.txt"}


def test_writing_makes_folders_and_leaves_no_other_file(workspace: Workspace, root: Path) -> None:
    workspace.write("x/y/z.txt", b"one")
    workspace.write("x/y/z.txt", b"two")
    assert (root / "x/y/z.txt").read_bytes() == b"two"
    assert os.listdir(root / "x/y") == ["z.txt"]


def test_writing_keeps_the_permissions_of_a_file_but_no_set_id_bits(workspace: Workspace, root: Path) -> None:
    (root / "run.sh").write_text("old")
    (root / "run.sh").chmod(0o4750)
    workspace.write("run.sh", b"new")
    assert (root / "run.sh").stat().st_mode & 0o7777 == 0o750


def test_a_failed_write_keeps_the_old_content_and_leaves_no_rest(
    workspace: Workspace, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_space(fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", no_space)
    with pytest.raises(ToolError, match="no space left"):
        workspace.write("inner/a.txt", b"new")
    assert (root / "inner/a.txt").read_text() == "inside"
    assert os.listdir(root / "inner") == ["a.txt"]


@pytest.mark.parametrize("path", ["", ".", "inner", "inner/", "new/", "inner/a.txt/b"])
def test_writing_where_no_file_can_be_is_refused(workspace: Workspace, path: str) -> None:
    with pytest.raises(ToolError):
        workspace.write(path, b"x")


def test_a_link_that_stays_inside_works_where_the_kernel_checks_it(root: Path, workspace: Workspace) -> None:
    (root / "inside").symlink_to("inner")
    if workspace.checked_by_kernel:
        assert read(workspace, "inside/a.txt") == "inside"
    else:
        with pytest.raises(ToolError, match="not a folder"):
            read(workspace, "inside/a.txt")


def test_a_workspace_on_a_descriptor_leaves_it_to_the_caller(root: Path, workspace: Workspace) -> None:
    fd = os.open(root, os.O_RDONLY)
    with Workspace.open(fd) as other:
        assert read(other, "inner/a.txt") == "inside"
    os.fstat(fd)
    os.close(fd)


def test_operations_leak_no_descriptors(workspace: Workspace, root: Path) -> None:
    os.mkfifo(root / "pipe")
    before = len(os.listdir("/proc/self/fd"))
    for path in ("inner/a.txt", "inner", "pipe", "nothing/x", "inner/a.txt/x", "p/q/r"):
        for use in (read, Workspace.is_folder, lambda w, p: w.write(p, b"x"), lambda w, p: list(w.walk(p))):
            with contextlib.suppress(ToolError):
                use(workspace, path)
    assert len(os.listdir("/proc/self/fd")) == before


@given(st.text())
def test_components_never_lead_up_or_to_the_top(path: str) -> None:
    try:
        names = components(path)
    except ToolError:
        return
    assert not any(name in ("", ".", "..") or "/" in name or "\0" in name for name in names)


def test_the_walk_refuses_links_in_any_place(root: Path, workspace: Workspace) -> None:
    (root / "inside").symlink_to("inner")
    fd = os.open(root, os.O_RDONLY)
    for names in (["inside"], ["inside", "a.txt"]):
        with pytest.raises(OSError, match=r"Not a directory|Too many levels"):
            open_by_walk(fd, names, os.O_RDONLY)
    os.close(fd)
