"""The manifests of examples/embedded-cluster with their variables filled in.

`python -m demo.example_manifests [tiny|smollm2]` prints them, ready for `kubectl apply -f -`.
"""

import string
import sys
from pathlib import Path

from workslice_cluster import images, models
from workslice_cluster.repository import repository

FILES = ("namespace.yaml", "model-volume.yaml", "profiles.yaml", "pools.yaml")
NAMESPACE = "demo"


def example_manifests(engine_image: str, models_directory: Path, model: str) -> str:
    """Return the YAML of all examples for the embedded cluster, in the order in which they must be applied."""
    folder = repository() / "examples" / "embedded-cluster"
    text = "\n---\n".join((folder / name).read_text() for name in FILES)
    variables = {"ENGINE_IMAGE": engine_image, "MODELS_DIRECTORY": str(models_directory), "MODEL": model}
    return string.Template(text).substitute(variables)


if __name__ == "__main__":
    chosen = sys.argv[1] if len(sys.argv) > 1 else "tiny"
    print(example_manifests(images.ensure("vllm")[1], models.ensure(chosen).parent, chosen))
