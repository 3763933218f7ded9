"""Where the checkout is that the cluster tool runs from."""

from pathlib import Path


def repository() -> Path:
    """Return the root folder of the checkout."""
    return Path(__file__).resolve().parents[3]
