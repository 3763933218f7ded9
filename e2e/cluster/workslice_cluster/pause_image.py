"""The image of the pause container as an OCI archive, made from the one static program."""

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Mapping
from pathlib import Path

REFERENCE = "registry.k8s.io/pause:3.10"


def _tar(files: Mapping[str, bytes]) -> bytes:
    """Return a tar whose bytes depend on names and contents only."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), 0o755
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def _descriptor(media_type: str, content: bytes) -> dict[str, object]:
    digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
    return {"mediaType": f"application/vnd.oci.image.{media_type}", "digest": digest, "size": len(content)}


def archive(program: bytes, reference: str = REFERENCE) -> bytes:
    """Return an OCI archive of an image that holds nothing but the program and runs it."""
    layer = _tar({"pause": program})
    packed = gzip.compress(layer, mtime=0)
    configuration = json.dumps(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": {"Entrypoint": ["/pause"], "User": "65535:65535"},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
        }
    ).encode()
    manifest = json.dumps(
        {
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": _descriptor("config.v1+json", configuration),
            "layers": [_descriptor("layer.v1.tar+gzip", packed)],
        }
    ).encode()
    entry = _descriptor("manifest.v1+json", manifest) | {"annotations": {"io.containerd.image.name": reference}}
    blobs = {f"blobs/sha256/{hashlib.sha256(blob).hexdigest()}": blob for blob in (packed, configuration, manifest)}
    index = json.dumps({"schemaVersion": 2, "manifests": [entry]}).encode()
    return _tar({"oci-layout": b'{"imageLayoutVersion": "1.0.0"}', "index.json": index, **blobs})


def ensure(program: Path) -> Path:
    """Write the archive beside the cached program when it is not there, and return its path."""
    target = program.with_name("pause.oci.tar")
    if not target.exists():
        unfinished = target.with_suffix(".unfinished")
        unfinished.write_bytes(archive(program.read_bytes()))
        unfinished.rename(target)
    return target
