"""The node labels that GPU feature discovery sets for an inventory (strategy `mixed`)."""

from workslice_cluster.inventory import WHOLE, Inventory


def node_labels(inventory: Inventory) -> dict[str, str]:
    """Return label name to value, as gpu-feature-discovery would set them."""
    whole = sum(part.count for part in inventory.slices if part.profile == WHOLE)
    labels = {
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.product": inventory.product,
        "nvidia.com/gpu.count": str(inventory.gpus),
        "nvidia.com/gpu.memory": str(inventory.memory_mebibytes),
        # "0" says that every GPU is cut into slices.
        "nvidia.com/gpu.replicas": "1" if whole else "0",
        "nvidia.com/gpu.sharing-strategy": "none",
        "nvidia.com/mig.capable": "true",
        "nvidia.com/mig.strategy": "mixed",
    }
    for part in inventory.slices:
        if part.profile == WHOLE:
            continue
        compute = part.profile.partition("g.")[0]
        values = {
            "count": str(part.count),
            "memory": str(part.memory_mebibytes),
            "multiprocessors": str(part.multiprocessors),
            "product": f"{inventory.product}-MIG-{part.profile.replace('+', '.')}",
            "replicas": "1",
            "sharing-strategy": "none",
            "slices.gi": compute,
            "slices.ci": compute,
        }
        labels |= {f"{part.resource}.{name}": value for name, value in values.items()}
    return labels
