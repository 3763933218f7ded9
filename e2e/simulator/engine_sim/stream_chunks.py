"""The chunks of a streamed answer, with the fields that vLLM gives each. Pure."""

from engine_sim.documents import Document, usage


def chat_opening(head: Document, index: int) -> Document:
    """The first chunk of an answer: who speaks."""
    choice = {"index": index, "delta": {"role": "assistant", "content": ""}, "logprobs": None, "finish_reason": None}
    return {**_chat(head, [choice]), "prompt_token_ids": None, "prompt_text": None}


def chat_chunk(head: Document, index: int, text: str, finish_reason: str | None) -> Document:
    """A piece of an answer; the last one has the reason for its end."""
    choice: Document = {
        "index": index,
        "delta": {"content": text},
        "logprobs": None,
        "finish_reason": finish_reason,
        "token_ids": None,
    }
    if finish_reason is not None:
        choice["stop_reason"] = None
    return _chat(head, [choice])


def chat_usage(head: Document, prompt_tokens: int, completion_tokens: int, details: Document | None) -> Document:
    """The chunk behind the last one."""
    used = _final_usage(prompt_tokens, completion_tokens, details)
    return {**_chat(head, []), "usage": used, "system_fingerprint": head["system_fingerprint"]}


def text_chunk(head: Document, index: int, text: str, finish_reason: str | None, echoed: list[int] | None) -> Document:
    """A piece of a text completion; `echoed` are the tokens of the prompt, if it begins with them."""
    choice = {
        "index": index,
        "text": text,
        "logprobs": None,
        "finish_reason": finish_reason,
        "stop_reason": None,
        "prompt_token_ids": echoed,
        "token_ids": None,
    }
    return _text(head, [choice])


def text_usage(head: Document, prompt_tokens: int, completion_tokens: int, details: Document | None) -> Document:
    """The chunk behind the last one."""
    used = _final_usage(prompt_tokens, completion_tokens, details)
    return {**_text(head, []), "usage": used, "system_fingerprint": head["system_fingerprint"]}


def chat_usage_so_far(prompt_tokens: int, completion_tokens: int) -> Document:
    """Usage in every chunk of a chat."""
    return {**usage(prompt_tokens, completion_tokens), "completion_tokens_details": None}


def _final_usage(prompt_tokens: int, completion_tokens: int, details: Document | None) -> Document:
    used = usage(prompt_tokens, completion_tokens)
    if details is not None:
        used["prompt_tokens_details"] = {name: value for name, value in details.items() if value is not None}
    return used


def _chat(head: Document, choices: list[Document]) -> Document:
    return {
        "id": head["id"],
        "object": "chat.completion.chunk",
        "created": head["created"],
        "model": head["model"],
        "choices": choices,
    }


def _text(head: Document, choices: list[Document]) -> Document:
    return {
        "id": head["id"],
        "object": "text_completion",
        "created": head["created"],
        "model": head["model"],
        "choices": choices,
    }
