"""The documents of vLLM's server: every field it has, in its order, those without a value too. Pure."""

import json
from collections.abc import Sequence
from typing import Any, Final

Document = dict[str, Any]
_LOAD_HEADER: Final = "endpoint-load-metrics"


def usage(prompt_tokens: int, completion_tokens: int) -> Document:
    """Tokens of a request, as streams have them."""
    return {
        "prompt_tokens": prompt_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
        "completion_tokens": completion_tokens,
    }


def whole_usage(prompt_tokens: int, completion_tokens: int, details: Document | None) -> Document:
    """Tokens of a request, as whole answers have them; `details` are there when the server tells of its cache."""
    return {
        **usage(prompt_tokens, completion_tokens),
        "prompt_tokens_details": details,
        "completion_tokens_details": None,
    }


def prompt_details(cached_tokens: int, created_tokens: int | None) -> Document:
    """Where a prompt's tokens came from: the cache, which then has `created_tokens` more (told of chats only)."""
    return {"cached_tokens": cached_tokens, "created_cache_tokens": created_tokens, "multimodal_tokens": None}


def chat_completion(head: Document, choices: Sequence[Document], used: Document) -> Document:
    """A whole chat completion; `head` has id, created, model and fingerprint."""
    return {
        "id": head["id"],
        "object": "chat.completion",
        "created": head["created"],
        "model": head["model"],
        "choices": list(choices),
        "service_tier": None,
        "system_fingerprint": head["system_fingerprint"],
        "usage": used,
        "prompt_logprobs": None,
        "prompt_token_ids": None,
        "prompt_text": None,
        "kv_transfer_params": None,
        "ec_transfer_params": None,
        "metrics": None,
    }


def chat_choice(index: int, text: str, finish_reason: str) -> Document:
    """One answer of a chat completion."""
    return {
        "index": index,
        "message": {
            "role": "assistant",
            "content": text,
            "refusal": None,
            "annotations": None,
            "audio": None,
            "function_call": None,
            "reasoning": None,
        },
        "logprobs": None,
        "finish_reason": finish_reason,
        "stop_reason": None,
        "token_ids": None,
        "routed_experts": None,
    }


def text_completion(head: Document, choices: Sequence[Document], used: Document) -> Document:
    """A whole text completion."""
    return {
        "id": head["id"],
        "object": "text_completion",
        "created": head["created"],
        "model": head["model"],
        "choices": list(choices),
        "service_tier": None,
        "system_fingerprint": head["system_fingerprint"],
        "usage": used,
        "kv_transfer_params": None,
        "ec_transfer_params": None,
        "metrics": None,
    }


def text_choice(index: int, text: str, finish_reason: str) -> Document:
    """One answer of a text completion."""
    return {
        "index": index,
        "text": text,
        "logprobs": None,
        "finish_reason": finish_reason,
        "stop_reason": None,
        "token_ids": None,
        "prompt_logprobs": None,
        "prompt_token_ids": None,
        "routed_experts": None,
    }


def load_report(load: dict[str, float], form: str) -> dict[str, str]:
    """The header that reports an engine's load beside an answer, in the form asked for; nothing for another form."""
    if form.lower() == "json":
        return {_LOAD_HEADER: f"JSON {json.dumps({'named_metrics': load})}"}
    if form.lower() == "text":
        return {_LOAD_HEADER: "TEXT " + ", ".join(f"named_metrics.{name}={value}" for name, value in load.items())}
    return {}


def models(names: Sequence[str], root: str, context: int, created: int, permission_ids: Sequence[str]) -> Document:
    """The list of models: one entry for each name."""
    cards = [
        {
            "id": name,
            "object": "model",
            "created": created,
            "owned_by": "vllm",
            "root": root,
            "parent": None,
            "max_model_len": context,
            "permission": [_permission(permission, created)],
        }
        for name, permission in zip(names, permission_ids, strict=True)
    ]
    return {"object": "list", "data": cards}


def _permission(name: str, created: int) -> Document:
    return {
        "id": f"modelperm-{name}",
        "object": "model_permission",
        "created": created,
        "allow_create_engine": False,
        "allow_sampling": True,
        "allow_logprobs": True,
        "allow_search_indices": False,
        "allow_view": True,
        "allow_fine_tuning": False,
        "organization": "*",
        "group": None,
        "is_blocking": False,
    }
