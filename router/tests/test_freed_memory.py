import resource

from workslice_router.freed_memory import keep_freed_memory

MEGABYTE = 2**20


def faults() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def test_bodies_use_the_memory_of_those_before_them():
    keep_freed_memory()
    for _ in range(3):
        held = [bytearray(MEGABYTE) for _ in range(12)]
        held.clear()
    before = faults()
    for _ in range(10):
        held = [bytearray(MEGABYTE) for _ in range(12)]
        held.clear()
    assert faults() - before < 10 * 12 * MEGABYTE / resource.getpagesize() / 4
