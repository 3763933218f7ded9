"""What becomes of memory that is freed: it stays for the next large body instead of going back to the kernel at once, but not for long.

By itself glibc gives a body of a megabyte back as soon as it is freed, and the next one has each of its pages mapped and cleared anew.
"""

import ctypes
from typing import Final

_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3
KEPT_BYTES: Final = 16 * 2**20
"""Stay at most; a block that is larger by itself always goes back."""

_libc = ctypes.CDLL(None)
_mallopt = getattr(_libc, "mallopt", None)  # musl has neither
_malloc_trim = getattr(_libc, "malloc_trim", None)


def keep_freed_memory() -> None:
    """From now on; nothing happens where the C library has no such setting."""
    if _mallopt is not None:
        _mallopt(_TRIM_THRESHOLD, KEPT_BYTES)
        _mallopt(_MMAP_THRESHOLD, KEPT_BYTES)


def give_back_freed_memory() -> None:
    """All that is free now. It takes a fraction of a millisecond; call it every few seconds."""
    if _malloc_trim is not None:
        _malloc_trim(0)
