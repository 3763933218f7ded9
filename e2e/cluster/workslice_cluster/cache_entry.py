"""Makes a folder of the cache at most once: whole or not at all, whoever else asks for it at the same time."""

import contextlib
import fcntl
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from workslice_cluster.progress import say

INPUTS = ".made-from"


def made_once(folder: Path, inputs: str, make: Callable[[Path], None]) -> Path:
    """Return `folder`; unless it was made from `inputs` already, let `make` fill a temporary folder that then replaces it.

    `inputs` is a hash of all that decides the content. `make` gets the temporary folder, which exists and is empty. What it
    makes is readable by every user, since containers read it. A failed or killed `make` leaves nothing that counts as made;
    the next call starts anew.
    """
    with locked(folder.with_name(f".{folder.name}.lock")):
        if not _is_made_from(folder, inputs):
            unfinished = folder.with_name(f".{folder.name}.unfinished")
            shutil.rmtree(unfinished, ignore_errors=True)
            previous_mask = os.umask(0o022)
            try:
                unfinished.mkdir()
                make(unfinished)
                (unfinished / INPUTS).write_text(inputs)
            finally:
                os.umask(previous_mask)
            shutil.rmtree(folder, ignore_errors=True)
            unfinished.rename(folder)
        os.utime(folder)  # the date of last use: what `keep_newest` goes by
    return folder


@contextlib.contextmanager
def locked(lock: Path) -> Iterator[None]:
    """Hold an exclusive lock on a file (created with its folder) against other processes; a killed holder frees it."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for another process that works on {lock.parent / lock.stem.removeprefix('.')}")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def keep_newest(folders: Iterable[Path], count: int) -> None:
    """Delete all but the `count` folders that were used last; names with a leading dot are not looked at."""
    seen = (folder for folder in folders if folder.is_dir() and not folder.name.startswith("."))
    by_use = sorted(seen, key=lambda folder: folder.stat().st_mtime)
    for folder in by_use[:-count]:
        shutil.rmtree(folder, ignore_errors=True)
        folder.with_name(f".{folder.name}.lock").unlink(missing_ok=True)


def _is_made_from(folder: Path, inputs: str) -> bool:
    note = folder / INPUTS
    return note.is_file() and note.read_text() == inputs
