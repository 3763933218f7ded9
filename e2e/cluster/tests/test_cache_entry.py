import os
import threading
from pathlib import Path

import pytest

from workslice_cluster.cache_entry import keep_newest, made_once


def refuses(folder: Path) -> None:
    raise AssertionError(f"{folder} made twice")


def test_a_folder_made_from_the_same_inputs_is_not_made_again(tmp_path: Path) -> None:
    made_once(tmp_path / "entry", "1", lambda folder: (folder / "first").touch())
    made_once(tmp_path / "entry", "1", refuses)
    assert (tmp_path / "entry" / "first").is_file()


def test_other_inputs_replace_the_folder(tmp_path: Path) -> None:
    made_once(tmp_path / "entry", "1", lambda folder: (folder / "old").touch())
    made_once(tmp_path / "entry", "2", lambda folder: (folder / "new").touch())
    assert sorted(entry.name for entry in (tmp_path / "entry").glob("[!.]*")) == ["new"]


def test_a_failure_leaves_the_folder_as_it_was_and_the_next_call_starts_anew(tmp_path: Path) -> None:
    def fails(folder: Path) -> None:
        (folder / "half").touch()
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        made_once(tmp_path / "entry", "1", fails)
    assert not (tmp_path / "entry").exists()
    made_once(tmp_path / "entry", "1", lambda folder: (folder / "whole").touch())
    assert sorted(entry.name for entry in (tmp_path / "entry").glob("[!.]*")) == ["whole"]


def test_of_many_callers_at_once_one_makes_the_folder(tmp_path: Path) -> None:
    made: list[Path] = []
    start = threading.Barrier(8)

    def call() -> None:
        start.wait()
        made_once(tmp_path / "entry", "1", made.append)

    callers = [threading.Thread(target=call) for _ in range(8)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert len(made) == 1


def test_every_user_may_read_what_was_made_whatever_the_mask(tmp_path: Path) -> None:
    previous = os.umask(0o077)
    try:
        folder = made_once(tmp_path / "entry", "1", lambda folder: (folder / "content").touch())
        assert folder.stat().st_mode & 0o777 == 0o755
        assert (folder / "content").stat().st_mode & 0o777 == 0o644
        assert os.umask(0o077) == 0o077
    finally:
        os.umask(previous)


def test_the_folders_used_last_stay(tmp_path: Path) -> None:
    for age, name in enumerate(["new", "used", "old"]):
        made_once(tmp_path / name, "1", lambda folder: None)
        os.utime(tmp_path / name, (1000 - age, 1000 - age))
    keep_newest(tmp_path.iterdir(), count=2)
    assert sorted(entry.name for entry in tmp_path.glob("[!.]*")) == ["new", "used"]
