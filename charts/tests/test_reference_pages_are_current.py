"""The reference pages are what the code says: `make generate` writes them."""

import subprocess
import sys
from pathlib import Path

GENERATOR = Path(__file__).parents[2] / "docs" / "generate" / "reference.py"


def test_reference_pages_are_what_the_code_says() -> None:
    result = subprocess.run(
        [sys.executable, GENERATOR, "--check"], capture_output=True, text=True, check=False, timeout=60
    )
    assert result.returncode == 0, result.stdout + result.stderr
