"""Real tokenizers of two model families that vLLM serves, from the files that their makers publish as Python packages."""

import ast
import base64
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

Count = Callable[[Sequence[str]], list[int]]
"""Tokens of each text."""


def vocabularies(packages: Path) -> dict[str, Count]:
    """By the family's name; `packages` is on sys.path."""
    return {"Qwen": _qwen(packages / "dashscope"), "Mistral": _tekken(packages / "mistral_common/data")}


def _qwen(folder: Path) -> Count:
    source = ast.parse((folder / "tokenizers/qwen_tokenizer.py").read_text())
    assigned = {ast.unparse(node.targets[0]): node.value for node in source.body if isinstance(node, ast.Assign)}
    lines = (line.split() for line in (folder / "resources/qwen.tiktoken").read_bytes().splitlines() if line)
    ranks = {base64.b64decode(token): int(rank) for token, rank in lines}
    return _counter("qwen", ast.literal_eval(assigned["PAT_STR"]), ranks)


def _tekken(folder: Path) -> Count:
    newest = max(folder.glob("tekken_*.json"))
    document: dict[str, Any] = json.loads(newest.read_text())
    settings = document["config"]
    words = document["vocab"][: settings["default_vocab_size"] - settings["default_num_special_tokens"]]
    ranks = {base64.b64decode(word["token_bytes"]): word["rank"] for word in words}
    return _counter("tekken", settings["pattern"], ranks)


def _counter(name: str, pattern: str, ranks: dict[bytes, int]) -> Count:
    import tiktoken  # from `packages`

    encoding = tiktoken.Encoding(name, pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
    return lambda texts: [len(encoding.encode_ordinary(text)) for text in texts]
