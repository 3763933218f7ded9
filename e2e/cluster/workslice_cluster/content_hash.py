"""One name for a set of inputs: the same for the same content, another for any other."""

import hashlib
from collections.abc import Iterable
from pathlib import Path

HEX_DIGITS = 12


def content_hash(files: Iterable[Path], *, root: Path, also: Iterable[str] = ()) -> str:
    """Return 12 hex digits for the files' paths below `root`, their content and executable bit, and the texts in `also`."""
    digest = hashlib.sha256()
    for text in also:
        _add(digest, b"text", text.encode())
    for file in sorted(set(files)):
        executable = b"x" if file.stat().st_mode & 0o100 else b"-"
        _add(digest, executable + file.relative_to(root).as_posix().encode(), file.read_bytes())
    return digest.hexdigest()[:HEX_DIGITS]


def source_files(folder: Path) -> list[Path]:
    """Return the files below a folder without what Python leaves behind (byte code)."""
    return sorted(
        file for file in folder.rglob("*") if file.is_file() and "__pycache__" not in file.relative_to(folder).parts
    )


def _add(digest: "hashlib._Hash", name: bytes, content: bytes) -> None:
    # Lengths first: no two different sets of inputs feed the same bytes.
    for part in (name, content):
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
