"""Model files into other model files: another format, other tensor types, other parts."""

from junto.convert.conversion import Summary, Wishes, convert, join
from junto.convert.types import RECIPES

__all__ = ["RECIPES", "Summary", "Wishes", "convert", "join"]
