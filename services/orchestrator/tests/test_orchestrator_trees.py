"""Whatever an agent leaves in its folder, copying it neither follows its links nor writes through them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from drivetrain.orchestrator.running.trees import TooMuch, copy_out, merge_tree, read_head, remove, write_files


def test_files_are_written_in_folders_of_their_own(tmp_path: Path) -> None:
    write_files(tmp_path, {"a.txt": b"A", "deep/er/b.txt": b"B"})
    assert (tmp_path / "a.txt").read_text() == "A"
    assert (tmp_path / "deep/er/b.txt").read_text() == "B"


def test_a_link_in_the_way_is_replaced_not_followed(tmp_path: Path) -> None:
    outside, work, tests = tmp_path / "outside", tmp_path / "work", tmp_path / "tests"
    write_files(outside, {"check.py": b"theirs"})
    work.mkdir()
    (work / "tests").symlink_to(outside)
    (work / "run.sh").symlink_to(outside / "check.py")
    write_files(tests, {"tests/check.py": b"ours", "run.sh": b"ours"})
    merge_tree(tests, work)
    assert (outside / "check.py").read_text() == "theirs"
    assert (work / "tests/check.py").read_text() == "ours"
    assert not (work / "run.sh").is_symlink()


def test_links_are_copied_as_links_and_odd_files_are_left_out(tmp_path: Path) -> None:
    source, target = tmp_path / "s", tmp_path / "t"
    write_files(source, {"real": b"x"})
    (source / "link").symlink_to("real")
    (source / "broken").symlink_to("/nowhere")
    os.mkfifo(source / "pipe")
    merge_tree(source, target)
    assert sorted(os.listdir(target)) == ["broken", "link", "real"]
    assert (target / "link").is_symlink()
    assert os.readlink(target / "broken") == "/nowhere"


def test_the_mode_of_a_script_is_kept(tmp_path: Path) -> None:
    write_files(tmp_path / "s", {"run.sh": b"true"})
    (tmp_path / "s/run.sh").chmod(0o755)
    merge_tree(tmp_path / "s", tmp_path / "t")
    assert (tmp_path / "t/run.sh").stat().st_mode & 0o777 == 0o755


def test_nothing_is_copied_out_through_a_link(tmp_path: Path) -> None:
    root, secret = tmp_path / "root", tmp_path / "secret"
    write_files(root, {"work/reward.txt": b"0.5"})
    secret.mkdir()
    (secret / "reward.txt").write_text("1")
    (root / "work/link.txt").symlink_to(secret / "reward.txt")
    (root / "work/folder").symlink_to(secret)
    assert copy_out(root, "work/reward.txt", tmp_path / "new" / "out")
    assert (tmp_path / "new" / "out").read_text() == "0.5"
    assert not copy_out(root, "work/link.txt", tmp_path / "out2")
    assert not copy_out(root, "work/folder/reward.txt", tmp_path / "out3")
    assert not copy_out(root, "work/none", tmp_path / "out4")


def test_a_large_file_is_read_only_so_far(tmp_path: Path) -> None:
    with (tmp_path / "large").open("wb") as file:
        file.truncate(1 << 40)
    assert read_head(tmp_path, "large", 3) == b"\0\0\0"
    assert read_head(tmp_path, "none", 3) is None


def test_nothing_is_read_through_a_link_or_from_a_pipe(tmp_path: Path) -> None:
    root = tmp_path / "root"
    write_files(tmp_path / "secret", {"reward.txt": b"1"})
    root.mkdir()
    (root / "folder").symlink_to(tmp_path / "secret")
    (root / "link.txt").symlink_to(tmp_path / "secret/reward.txt")
    os.mkfifo(root / "pipe")
    assert [read_head(root, path, 9) for path in ("folder/reward.txt", "link.txt", "pipe", "")] == [None] * 4


def test_a_script_can_be_run_where_it_is_written(tmp_path: Path) -> None:
    write_files(tmp_path, {"run.sh": b"#!/bin/sh\n", "data": b"\xff"})
    assert os.access(tmp_path / "run.sh", os.X_OK)
    assert not os.access(tmp_path / "data", os.X_OK)
    assert (tmp_path / "data").read_bytes() == b"\xff"


def test_a_folder_without_permissions_is_removed(tmp_path: Path) -> None:
    write_files(tmp_path / "d", {"in/ner/file": b"x"})
    (tmp_path / "d/in/ner").chmod(0)
    (tmp_path / "d/in").chmod(0)
    remove(tmp_path / "d")
    assert not (tmp_path / "d").exists()


def deep(folder: Path, levels: int) -> None:
    folder.mkdir()
    script = f"import os\nfor _ in range({levels}): os.mkdir('d'); os.chdir('d')"
    subprocess.run([sys.executable, "-S", "-c", script], cwd=folder, check=True)


def test_a_tree_beyond_measure_is_not_copied(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    with (root / "sparse").open("wb") as file:
        file.truncate(1 << 40)
    (root / "link").symlink_to("sparse")
    with pytest.raises(TooMuch, match="more than 1024 MiB"):
        copy_out(tmp_path, "root", tmp_path / "out")
    (root / "sparse").unlink()
    deep(root / "deep", 150)
    with pytest.raises(TooMuch, match="folders more than 100 deep"):
        copy_out(tmp_path, "root", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_too_many_files_are_not_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("drivetrain.orchestrator.running.trees.MAX_ENTRIES", 10)
    write_files(tmp_path / "root", {f"{number}.txt": b"" for number in range(9)})
    assert copy_out(tmp_path, "root", tmp_path / "out")
    write_files(tmp_path / "root", {"one-more.txt": b""})
    with pytest.raises(TooMuch, match="more than 10 files"):
        copy_out(tmp_path, "root", tmp_path / "out2")


def test_a_folder_of_any_depth_is_removed(tmp_path: Path) -> None:
    deep(tmp_path / "deep", 1200)
    remove(tmp_path / "deep")
    assert not (tmp_path / "deep").exists()
