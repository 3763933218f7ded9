"""Writes a small Llama with random weights and its tokenizer into a folder. Runs in the engine environment's Python.

The same environment writes the same bytes each time: the seed is fixed and the tokenizer learns from packages of the lock.
"""

import sys
from pathlib import Path

import fastapi
import tokenizers
import torch
import transformers

HIDDEN, LAYERS, HEADS, VOCABULARY = 64, 2, 2, 1024
CONTEXT = 8192  # tokens: what the largest pool of the examples serves
PAD, BEGIN, END_OF_TEXT, TURN_STARTS, TURN_ENDS = "<|pad|>", "<|bos|>", "<|eos|>", "<|im_start|>", "<|im_end|>"
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def _tokenizer() -> transformers.PreTrainedTokenizerFast:
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[PAD, BEGIN, END_OF_TEXT, TURN_STARTS, TURN_ENDS],
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    # FastAPI documents its parameters at length: English prose, a fixed amount of it, of a locked version.
    prose = [file.read_text() for file in sorted(Path(fastapi.__file__).parent.glob("*.py"))]
    tokenizer.train_from_iterator(prose, trainer)
    wrapped = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=BEGIN,
        eos_token=TURN_ENDS,
        pad_token=PAD,
        additional_special_tokens=[TURN_STARTS],
    )
    wrapped.chat_template = CHAT_TEMPLATE
    return wrapped


def main(folder: Path) -> None:
    """Write the model into `folder`."""
    tokenizer = _tokenizer()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    config = transformers.LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=HIDDEN,
        intermediate_size=HIDDEN * 3,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=HEADS,
        head_dim=HIDDEN // HEADS,
        max_position_embeddings=CONTEXT,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        tie_word_embeddings=True,
    )
    transformers.LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
