"""What each of the repository's images is made of, and the tag that follows from it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from workslice_cluster.content_hash import content_hash, source_files


@dataclass(frozen=True)
class Image:
    """One image. `packages` selects the lock's packages that go in; `sources` are files and folders below the repository."""

    name: str
    sources: tuple[str, ...]
    packages: tuple[str, ...] = ()  # options of `uv export`; none: no packages
    compiler: tuple[str, ...] = ()  # the same for a stage that needs a C compiler, if there is one
    target: str | None = None


IMAGES = {
    image.name: image
    for image in (
        Image("operator", ("crds/workslice_api", "operator/workslice_operator"), ("--no-dev", "--extra=operator")),
        Image(
            "router",
            ("crds/workslice_api", "router/workslice_router"),
            ("--no-dev", "--extra=router"),
            ("--only-group=compiler",),
        ),
        # The lock of the CPU environment is no input: on the embedded cluster the environment is mounted.
        Image("vllm", ("images/vllm/serve_on_cpu.py",), target="cpu"),
        Image("engine-sim", ("e2e/simulator/engine_sim",), ("--only-group=engine-sim",)),
        Image(
            "device-plugin",
            tuple(
                f"e2e/cluster/workslice_cluster/{module}.py"
                for module in (
                    "__init__",
                    "cluster_error",
                    "device_health",
                    "device_plugin",
                    "device_plugin_api",
                    "inventory",
                )
            ),
            ("--only-group=device-plugin",),
        ),
    )
}


def tag(image: Image, *, repository: Path, base: str, requirements: str) -> str:
    """Return the image's tag: it changes when something that goes into the image does, and not otherwise.

    `base` is the base image's name, `requirements` the locked packages as pip reads them (empty for an image without any).
    """
    files = [repository / "images" / image.name / "Dockerfile", repository / ".dockerignore"]
    for source in image.sources:
        path = repository / source
        files += source_files(path) if path.is_dir() else [path]
    return content_hash(files, root=repository, also=[image.name, image.target or "", base, requirements])


def export_command(uv: Path, packages: Sequence[str]) -> Sequence[str | Path]:
    """Return the command that prints locked packages of an image; the Dockerfiles run the same one."""
    options = ["--frozen", *packages, "--no-emit-project", "--no-header", "--no-annotate"]
    return [uv, "export", "--quiet", *options]
