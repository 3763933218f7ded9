"""Runs in a container before the engine's, of the same image: fetches a hub model into a folder that replicas share, unless it is there.

The container's command is the text of this file (render/model_fetch.py), so it takes nothing but the standard library and huggingface_hub,
which is in every image of vLLM. Arguments: the hub id, the revision and the folder. What it leaves as its termination message is what
of the model decides how much memory it takes, in JSON, or what went wrong, in one line and without secrets.
"""

import contextlib
import fcntl
import json
import math
import os
import re
import signal
import struct
import sys
from typing import Any, TextIO

TERMINATION_LOG = "/dev/termination-log"
LONGEST_MESSAGE = 4096
"""Bytes: the kubelet cuts what is longer."""
LONGEST_HEADER = 100_000_000
"""Bytes: what the library of the format reads at most."""
UNUSED = (
    "*.pt",
    "*.pth",
    "*.ckpt",
    "*.msgpack",
    "*.h5",
    "*.tflite",
    "*.onnx",
    "*.onnx_data",
    "onnx/*",
    "original/*",
    "*.gguf",
)
"""Weights in formats that the engine is not told to load."""
TELLING = (
    *("model_type", "num_hidden_layers", "hidden_size", "intermediate_size", "vocab_size", "tie_word_embeddings"),
    *("num_attention_heads", "num_key_value_heads", "head_dim", "kv_lora_rank", "qk_rope_head_dim"),
    *("layer_types", "sliding_window", "use_sliding_window", "sliding_window_pattern"),
)
"""What config_shape.py reads, besides quantization_config."""


def main(source: str, revision: str, folder: str) -> str:
    """Fetch it if nobody has; returns what is known of it."""
    os.makedirs(os.path.dirname(folder), exist_ok=True)
    done = f"{folder}.json"
    with open(f"{folder}.lock", "a") as lock:
        alone = have_alone(lock)
        if not os.path.exists(done):
            if alone:
                remove_remains(folder)
            print(f"fetching {source} at {revision}", flush=True)
            fetch(source, revision, folder)
            with open(f"{done}.new", "w") as new:
                new.write(told({"source": source, "revision": revision}, folder))
            os.sync()  # the mark of a whole model must not survive a power cut that the model does not
            os.replace(f"{done}.new", done)
    print(f"{source} at {revision} is there", flush=True)
    with open(done) as mark:
        return mark.read()


def have_alone(lock: TextIO) -> bool:
    """Return when no other replica has the lock: whether that can be known."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print("waiting for the replica that fetches it", flush=True)
        fcntl.flock(lock, fcntl.LOCK_EX)
    except OSError:
        print("this file system has no locks: several replicas may fetch at once", flush=True)
        return False
    return True


def remove_remains(folder: str) -> None:
    """Remove what fetches that were killed have left unfinished: the library gives each download a new name, so nothing else ever would,
    and the volume would fill up. Whole files stay.
    """
    for where, _, names in os.walk(f"{folder}/.cache/huggingface"):
        for name in names:
            if name.endswith((".incomplete", ".lock")):
                os.remove(os.path.join(where, name))


def fetch(source: str, revision: str, folder: str) -> None:
    """Download it. Raises whatever the library raises."""
    from huggingface_hub import HfApi, snapshot_download

    files = HfApi().list_repo_files(source, revision=revision)
    twice = ["*.bin"] if any(name.endswith(".safetensors") for name in files) else []
    snapshot_download(source, revision=revision, local_dir=folder, ignore_patterns=[*UNUSED, *twice])


def told(whose: dict[str, str], folder: str) -> str:
    """What is left as the termination message. Whatever a file of the model says, it is there and can be used."""
    with contextlib.suppress(Exception):
        known = json.dumps(whose | look_at(folder))
        if len(known) <= LONGEST_MESSAGE:
            return known
    return json.dumps(whose)


def look_at(folder: str) -> dict[str, Any]:
    """What of its config.json decides how much memory the model takes, and how many elements its weights have, by their type."""
    known: dict[str, Any] = {}
    # It is for an estimate only: what is strange in these files is the engine's to judge.
    with contextlib.suppress(Exception):
        with open(f"{folder}/config.json") as file:
            config = json.load(file)
        known["config"] = telling(config)
    with contextlib.suppress(Exception):
        known["elements"] = elements(folder)
    return known


def telling(config: dict[str, Any]) -> dict[str, Any]:
    """The part of a config.json that is needed."""
    found = {name: config[name] for name in TELLING if config.get(name) is not None}
    if "layer_types" in found:
        types = found["layer_types"]
        found["layer_types"] = {one: types.count(one) for one in sorted(set(types))}
    quantization = config.get("quantization_config")
    if isinstance(quantization, dict):
        found["quantization_config"] = {
            name: quantization[name] for name in ("quant_method", "bits", "format") if name in quantization
        }
    return found


def elements(folder: str) -> dict[str, int]:
    """Elements of all tensors by type, from the headers of the safetensors files. Raises whatever a file of another form makes it raise."""
    names = [name for name in os.listdir(folder) if name.endswith(".safetensors")]
    # A copy of the same weights for another engine.
    names = [name for name in names if not name.startswith("consolidated")] or names
    counts: dict[str, int] = {}
    for name in names:
        with open(f"{folder}/{name}", "rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            if length > min(LONGEST_HEADER, os.fstat(file.fileno()).st_size):
                raise ValueError(f"{name} has no header")  # to read so much could take all memory
            header = json.loads(file.read(length))
        for tensor, about in header.items():
            if tensor != "__metadata__":
                counts[about["dtype"]] = counts.get(about["dtype"], 0) + math.prod(about["shape"])
    return counts


def in_one_line(error: Exception) -> str:
    """What went wrong, without what URLs carry in secret: a signature, a password."""
    if isinstance(error, ModuleNotFoundError):
        return f"the engine's image has no {error.name}"
    text = f"{type(error).__name__}: {error}"
    if "://" not in text:
        text = f"{os.environ.get('HF_ENDPOINT', 'https://huggingface.co')}: {text}"
    text = re.sub(r"(https?://[^\s?'\"]+)\?[^\s'\")]*", r"\1", text)
    return " ".join(re.sub(r"(https?://)[^\s/@]+@", r"\1", text).split())[:600]


if __name__ == "__main__":
    # As process 1 it would not hear that it shall end, and threads that download would hold it up.
    signal.signal(signal.SIGTERM, lambda *_: os._exit(143))
    status, words = 0, ""
    try:
        words = main(*sys.argv[1:])
    except Exception as error:
        status, words = 1, in_one_line(error)
        print(words, file=sys.stderr)
    with contextlib.suppress(OSError), open(TERMINATION_LOG, "w") as message:
        message.write(words)
    sys.exit(status)
