"""What a model file holds, how good its numbers are, and what running it would take."""

from junto.inspection.listing import Entry, entries, mix
from junto.inspection.overview import Overview, inspect
from junto.inspection.statistics import Statistics, statistics

__all__ = ["Entry", "Overview", "Statistics", "entries", "inspect", "mix", "statistics"]
