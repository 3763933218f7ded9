"""Why a pod cannot fetch its model, and what to do about it. Pure."""

import re
from typing import Final

from workslice_api.names import MODEL_FETCH_CONTAINER
from workslice_operator.last_words import shortened

_ADVICE: Final = (
    ("no space left|disk quota", "take a larger volume for model.cache.claim of the profile"),
    (
        "permission denied|read-only file system",
        "the volume of model.cache.claim must let user 65532 or group 65532 write to it",
    ),
    (
        "RepositoryNotFound|RevisionNotFound",
        "correct model.source or model.revision of the profile; a private model wants a token: template.modelSecretRef of the pool",
    ),
    ("gated|401|403", "give the pool a token for the hub that may read the model: template.modelSecretRef"),
    (
        "connect|timed out|timeout|name resolution|name or service",
        "see that pods of the namespace reach the hub, or set HF_ENDPOINT or HTTPS_PROXY in engine.env of the profile",
    ),
    (
        "has no huggingface_hub|python3",
        "take an engine.image that has python3 and huggingface_hub, as those of vLLM have",
    ),
    ("OOMKilled", "raise memory.host of the profile"),
)


def fetch_failure(pod: str, namespace: str, said: str) -> str:
    """The sentence; `said` is what the container that fetches said last."""
    line = shortened(" ".join(said.split()))
    logs = f"see kubectl -n {namespace} logs {pod} -c {MODEL_FETCH_CONTAINER}"
    advice = next((advice for words, advice in _ADVICE if re.search(words, line, re.IGNORECASE)), logs)
    return f"{pod} cannot fetch its model: {line}; {advice}; it is tried again"
