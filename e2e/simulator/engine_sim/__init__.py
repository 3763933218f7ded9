"""A simulator of vLLM's OpenAI server: the same answers, numbers and failures as a real engine, without a model or a GPU."""
