"""Several measurements of one thing: their median and quartiles."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Spread:
    """Median and quartiles; all three are the value itself where there is only one."""

    low: float
    median: float
    high: float

    @staticmethod
    def of(values: Sequence[float]) -> "Spread":
        """The spread of at least one value."""
        if len(values) == 1:
            return Spread(values[0], values[0], values[0])
        return Spread(*statistics.quantiles(values, n=4, method="inclusive"))

    def as_json(self) -> dict[str, float]:
        """All three by name, to five digits."""
        figures = {"low": self.low, "median": self.median, "high": self.high}
        return {name: float(f"{value:.5g}") for name, value in figures.items()}
