"""From float32 values to the types that files store, with or without an importance matrix."""

from junto.quantize.importance import ImportanceMatrix, read_importance
from junto.quantize.rows import QUANTIZED_TYPES, quantize

__all__ = ["QUANTIZED_TYPES", "ImportanceMatrix", "quantize", "read_importance"]
