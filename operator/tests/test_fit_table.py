from workslice_api.profile import SliceFit
from workslice_operator.fit_table import fit_table

GIB = 1024**3


def test_a_row_for_each_slice_with_its_numbers_under_their_heads() -> None:
    rows = [
        SliceFit(
            profile="1g.20gb",
            product="NVIDIA-H100-80GB-HBM3",
            fits=True,
            usable_bytes=18 * GIB,
            weight_bytes=int(8.5 * GIB),
            overhead_bytes=GIB,
            kv_bytes=8 * GIB,
            kv_tokens=65536,
            max_concurrent=4,
        ),
        SliceFit(profile="1g.10gb", fits=False, usable_bytes=9 * GIB),
        SliceFit(profile="whole"),
    ]
    assert fit_table(rows) == [
        "SLICE    PRODUCT                USABLE   WEIGHTS  OVERHEAD  KV-CACHE  KV-TOKENS  AT-ONCE  FITS",
        "1g.20gb  NVIDIA-H100-80GB-HBM3  18.0GiB  8.5GiB   1.0GiB    8.0GiB    65536      4        yes",
        "1g.10gb  -                      9.0GiB   -        -         -         -          -        no",
        "whole    -                      -        -        -         -         -          -        unknown",
    ]


def test_no_row_is_no_table() -> None:
    assert fit_table([]) == []
