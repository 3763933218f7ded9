import pytest

from workslice_operator.gpu_products import known_slices, usable_memory

MIB = 2**20
H100 = "NVIDIA-H100-80GB-HBM3"


def test_the_nodes_label_tells_the_memory_of_a_slice() -> None:
    assert usable_memory("1g.10gb", H100, {"nvidia.com/mig-1g.10gb.memory": "9984"}) == 9984 * MIB


def test_a_plus_in_the_profile_is_a_dot_in_the_label() -> None:
    assert usable_memory("1g.10gb+me", H100, {"nvidia.com/mig-1g.10gb.me.memory": "9900"}) == 9900 * MIB


def test_without_a_label_the_product_decides_and_not_the_name() -> None:
    assert usable_memory("1g.10gb", "NVIDIA-A100-SXM4-80GB", {}) == 9728 * MIB
    assert usable_memory("1g.10gb", "NVIDIA-A100-SXM4-40GB", {}) == 9856 * MIB
    assert usable_memory("1g.10gb", H100, {}) == 9984 * MIB


@pytest.mark.parametrize("profile", ["1g.24gb", "1g.24gb+me", "1g.24gb+me.all", "1g.24gb+gfx", "1g.24gb-me"])
def test_variants_of_a_profile_have_its_memory(profile: str) -> None:
    assert usable_memory(profile, "NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition", {}) == 24186 * MIB


def test_an_unknown_product_without_a_label_is_unknown() -> None:
    assert usable_memory("1g.34gb", "NVIDIA-B300", {}) is None
    assert usable_memory("1g.10gb", H100, {"nvidia.com/mig-1g.10gb.memory": "0"}) == 9984 * MIB
    assert usable_memory("whole", "NVIDIA-L4", {}) is None


def test_of_a_whole_gpu_an_engine_sees_a_little_less_than_the_label_says() -> None:
    seen = usable_memory("whole", "NVIDIA-L40S", {"nvidia.com/gpu.memory": "46068"})
    assert seen is not None
    assert 0.97 * 44.39 * 1024 < seen / MIB <= 44.39 * 1024


def test_a_slice_that_is_advertised_as_a_gpu_has_the_memory_of_its_label() -> None:
    labels = {"nvidia.com/gpu.memory": "9984"}
    assert usable_memory("whole", "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb", labels) == 9984 * MIB


@pytest.mark.parametrize(
    ("product", "smallest"),
    [
        ("NVIDIA-A30", "1g.6gb"),
        ("NVIDIA-A100-PCIE-40GB", "1g.5gb"),
        ("NVIDIA-A100-80GB-PCIe", "1g.10gb"),
        ("NVIDIA-H100-PCIe", "1g.10gb"),
        ("NVIDIA-H100-NVL", "1g.12gb"),
        ("NVIDIA-H200", "1g.18gb"),
        ("NVIDIA-H200-NVL", "1g.18gb"),
    ],
)
def test_each_product_has_its_own_slices_smallest_first(product: str, smallest: str) -> None:
    sizes = known_slices(product)
    assert next(iter(sizes)) == smallest
    assert list(sizes.values()) == sorted(sizes.values())


def test_a_gh200_is_no_h200() -> None:
    assert known_slices("NVIDIA-GH200-480GB") == {}
