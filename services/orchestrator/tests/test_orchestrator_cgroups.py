"""Control groups as files: what is written where, on a hierarchy of version 2 and on several of version 1."""

from pathlib import Path

import pytest

from drivetrain.common.tasks import Resources
from drivetrain.orchestrator.backends.process.cgroups import Cgroups, detect
from drivetrain.orchestrator.backends.process.limits import Limits, by_rlimits

LIMITS = Limits(memory_mb=64, processes=20, cpus=1.5)


def version2(root: Path, controllers: str = "cpuset cpu io memory pids") -> Path:
    (root / "cgroup.controllers").write_text(controllers)
    (root / "cgroup.subtree_control").write_text("")
    return root


def version1(root: Path, *controllers: str) -> Path:
    for controller in controllers:
        (root / controller).mkdir()
        (root / controller / "cgroup.procs").write_text("")
    return root


def found(root: Path) -> Cgroups:
    cgroups = detect("drivetrain", "me.", root)
    assert cgroups is not None
    return cgroups


def prepared(cgroups: Cgroups, name: str, *files: str) -> None:
    """The files that the kernel would put into a new group."""
    for folder in set(cgroups.folders.values()):
        (folder / f"me.{name}").mkdir(exist_ok=True)
        for file in (*files, "cgroup.procs"):
            (folder / f"me.{name}" / file).write_text("")


def test_version_2_hands_its_controllers_down_and_bounds_a_group(tmp_path: Path) -> None:
    cgroups = found(version2(tmp_path))
    assert (tmp_path / "cgroup.subtree_control").read_text() == "+memory +pids +cpu"
    assert (tmp_path / "drivetrain/cgroup.subtree_control").read_text() == "+memory +pids +cpu"
    prepared(cgroups, "a", "memory.max", "memory.swap.max", "pids.max", "cpu.max")
    group = cgroups.create("a", LIMITS)
    written = {path.name: path.read_text() for path in (tmp_path / "drivetrain/me.a").iterdir()}
    assert written == {
        "cgroup.procs": "",
        "memory.max": str(64 * 1024 * 1024),
        "memory.swap.max": "0",
        "pids.max": "20",
        "cpu.max": "150000 100000",
    }
    assert group.paths == (tmp_path / "drivetrain/me.a",)
    (tmp_path / "drivetrain/me.a/memory.events").write_text("low 0\noom 3\noom_kill 2\n")
    (tmp_path / "drivetrain/me.a/pids.events").write_text("max 7\n")
    assert group.hits() == {"memory": 2, "processes": 7}


def test_version_1_has_a_folder_for_each_controller(tmp_path: Path) -> None:
    cgroups = found(version1(tmp_path, "memory", "pids", "cpu"))
    files = ("memory.limit_in_bytes", "pids.max", "cpu.cfs_period_us", "cpu.cfs_quota_us")
    prepared(cgroups, "a", *files)
    group = cgroups.create("a", LIMITS)
    assert len(group.paths) == 3
    places = ("memory", "pids", "cpu", "cpu")
    written = [(tmp_path / p / "drivetrain/me.a" / file).read_text() for p, file in zip(places, files, strict=True)]
    assert written == ["67108864", "20", "100000", "150000"]


def test_only_our_own_groups_are_found_again(tmp_path: Path) -> None:
    cgroups = found(version2(tmp_path))
    for name in ("me.a.1", "me.b.1.grade", "other.c.1"):
        (tmp_path / "drivetrain" / name).mkdir()
    assert sorted(name for name, _ in cgroups.left()) == ["a.1", "b.1.grade"]


@pytest.mark.parametrize("controllers", ["hugetlb", "memory", "pids cpu"])
def test_a_hierarchy_without_memory_or_pids_is_none(tmp_path: Path, controllers: str) -> None:
    assert detect("drivetrain", "me.", version2(tmp_path, controllers)) is None
    assert list(tmp_path.glob("drivetrain")) == []


def test_version_2_comes_first_where_both_are(tmp_path: Path) -> None:
    version1(tmp_path, "memory", "pids")
    assert found(version2(tmp_path)).version == 2


def test_without_groups_the_kernel_bounds_each_process() -> None:
    assert by_rlimits(LIMITS, cgroups=True) == ["prlimit", "--core=0", "--fsize=2147483648", "--"]
    assert by_rlimits(LIMITS, cgroups=False, already=100)[3:] == ["--data=67108864", "--nproc=120", "--"]


def test_a_task_may_ask_for_less_and_not_for_more() -> None:
    assert LIMITS.within(Resources(memory_mb=32, storage_mb=5, cpus=1)) == Limits(32, 20, 5, 200_000, 1)
    assert LIMITS.within(Resources()) == LIMITS
    assert LIMITS.refuses(Resources(memory_mb=64, cpus=1.5)) == ""
    told = "it asks for memory_mb = 65, and a sandbox may have 64: raise it in `limits`"
    assert LIMITS.refuses(Resources(memory_mb=65)) == told
