"""Where big things that can be made again live: outside the checkout, so that a clean clone finds them."""

import os
from pathlib import Path


def cache_folder() -> Path:
    """Return the absolute cache folder: WORKSLICE_CACHE, else XDG_CACHE_HOME/workslice, else ~/.cache/workslice."""
    if named := os.environ.get("WORKSLICE_CACHE"):
        return Path(named).absolute()
    parent = os.environ.get("XDG_CACHE_HOME")
    return (Path(parent).absolute() if parent else Path.home() / ".cache") / "workslice"
