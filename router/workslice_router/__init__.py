"""The router: one OpenAI-compatible endpoint in front of every pool."""
