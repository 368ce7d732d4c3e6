"""Model files: bytes on disk to named, typed, lazy tensors. Knows nothing of models."""
