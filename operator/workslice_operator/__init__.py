"""The operator: turns pools and profiles into vLLM replicas on slices."""
