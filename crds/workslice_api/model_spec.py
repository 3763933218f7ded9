"""The model of a WorkspaceProfile: where it comes from, where it is kept, and what is known of it."""

from typing import Annotated, Final, Literal

from pydantic import Field

from workslice_api.base import KubeModel
from workslice_api.readable_rules import rule_for_pattern

SOURCE_PATTERN: Final = r"^(pvc://[a-z0-9]([-a-z0-9.]*[a-z0-9])?(/[A-Za-z0-9._/-]*)?|/[A-Za-z0-9._/-]+|[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9._-]+)$"

MODEL_RULES: Final[list[dict[str, str]]] = [
    {
        "rule": "!has(self.quantization) || !has(self.shape) || !has(self.shape.quantization)",
        "message": "model.quantization quantizes weights that are not, and model.shape.quantization says that they are "
        "already: set one of them",
    },
    {
        "rule": "!has(self.cache) || !(self.source.startsWith('/') || self.source.startsWith('pvc://'))",
        "message": "model.cache is for hub models, and model.source names files that are there already: take model.cache out",
    },
    {
        "rule": "!has(self.shape) || has(self.shape.slidingWindow) == has(self.shape.slidingLayers)",
        "message": "model.shape.slidingWindow and model.shape.slidingLayers go together: set both, or neither",
    },
    {
        "rule": "!has(self.shape) || !has(self.shape.slidingLayers) || self.shape.slidingLayers <= self.shape.layers",
        "message": "model.shape.slidingLayers may not exceed model.shape.layers",
    },
    {
        "rule": "!has(self.shape) || !has(self.shape.slidingLayers) || !has(self.shape.latentSize)",
        "message": "model.shape has both latentSize and slidingLayers, which are not estimated together: take model.shape out",
    },
]


class ModelShape(KubeModel):
    """The numbers of a model's config.json that decide how much memory it takes. Layers may attend to the whole context or to a window
    of it, and must all cache equally much of a token. Leave it unset for models with state-space layers, with layers of several
    head sizes, or with layers that share what they cache: those are not estimated.
    """

    parameters: Annotated[int, Field(ge=1, le=10_000_000_000_000)]
    """Weights of the model, all experts included."""
    layers: Annotated[int, Field(ge=1, le=10_000)]
    """num_hidden_layers."""
    hidden_size: Annotated[int, Field(ge=1, le=1_000_000)]
    """hidden_size."""
    intermediate_size: Annotated[int, Field(ge=1, le=10_000_000)]
    """intermediate_size."""
    kv_heads: Annotated[int, Field(ge=1, le=10_000)]
    """num_key_value_heads; num_attention_heads where the file does not have it."""
    head_size: Annotated[int, Field(ge=1, le=100_000)]
    """head_dim; hidden_size ÷ num_attention_heads where the file does not have it."""
    latent_size: Annotated[int | None, Field(ge=1, le=100_000)] = None
    """kv_lora_rank + qk_rope_head_dim of a model with latent attention (MLA), as DeepSeek's: it caches that in place of keys and values."""
    sliding_window: Annotated[int | None, Field(ge=1, le=100_000_000)] = None
    """sliding_window, of a model that has layers with one: tokens that such a layer attends to."""
    sliding_layers: Annotated[int | None, Field(ge=1, le=10_000)] = None
    """How many of the layers have the window: those of layer_types that are sliding_attention, or all of them (the first Mistral)."""
    vocabulary: Annotated[int, Field(ge=1, le=100_000_000)]
    """vocab_size."""
    tied_embeddings: bool = False
    """tie_word_embeddings: whether the output layer shares its weights with the embeddings."""
    quantization: Literal["fp8", "int8", "awq", "gptq", "mxfp4"] | None = None
    """How the checkpoint's weights are quantized already; unset: they are not. The engine finds out by itself and is told nothing."""
    unquantized_parameters: Annotated[int | None, Field(ge=1, le=10_000_000_000_000)] = None
    """How many weights of a quantized checkpoint are not quantized; unset: embeddings and the output layer. An mxfp4 checkpoint leaves
    attention as it is too."""


class FoundModel(KubeModel):
    """What is known of a model since it was fetched."""

    source: Annotated[str, Field(max_length=512)]
    """The hub id."""
    revision: Annotated[str, Field(max_length=128)]
    """The branch, tag or commit that it was fetched at."""
    shape: ModelShape | None = None
    """From its config.json and its weights. Where spec.model.shape is not set, Fits and the rows of slices are made from it, but no pool is
    refused or moved to another slice by it. Absent when it cannot be told."""
    message: Annotated[str, Field(max_length=512)] = ""
    """Why it cannot."""


class ModelCache(KubeModel):
    """Where a hub model is kept."""

    claim: Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")]
    """PersistentVolumeClaim in the pool's namespace: one that several nodes can mount (ReadWriteMany) for replicas on several nodes. The
    first replica fetches the model, before its engine starts; the others wait for it and find it there, and engines never write to it.
    What is there is used as it is: name a commit or a tag in `revision` to run another. Rolls: replaces the engine pods."""


class ModelSource(KubeModel):
    """Where the weights come from, and what is known of them."""

    source: Annotated[
        str,
        Field(
            min_length=1,
            max_length=512,
            pattern=SOURCE_PATTERN,
            json_schema_extra=rule_for_pattern(
                "model.source must be a hub id (org/name), pvc://claim/path or an absolute path in the engine image"
            ),
        ),
    ]
    """Hub id (org/name), `pvc://claim/path` (a PersistentVolumeClaim in the pool's namespace) or an absolute path in the engine
    image. Rolls: replaces the engine pods."""
    revision: Annotated[str | None, Field(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9._/-]+$")] = None
    """Branch, tag or commit of a hub model. Rolls: replaces the engine pods."""
    dtype: Literal["bfloat16", "float16", "float32"] | None = None
    """Type of weights and computation (--dtype); unset takes the checkpoint's own. Rolls: replaces the engine pods."""
    quantization: Literal["fp8"] | None = None
    """Quantizes the weights of a checkpoint that is not quantized while the engine loads it (--quantization); for one that is, see
    shape.quantization. Rolls: replaces the engine pods."""
    cache: ModelCache | None = None
    """Fetches a hub model once, into a volume, instead of once for each replica. Rolls: replaces the engine pods."""
    shape: ModelShape | None = None
    """Lets the operator say before any pod starts whether the model fits its slice, and refuse what cannot run. The operator downloads
    nothing and opens no volume: copy the numbers from the model's config.json. With model.cache they are found out when the model is
    fetched and stand in status.model, where they only inform: what stands here counts before them, and alone refuses. Live: takes
    effect without touching engines."""
