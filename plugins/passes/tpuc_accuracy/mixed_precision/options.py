"""Budgets of a search for float layers: networks that are compiled, timed and measured, and their samples."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class FrontBudget:
    """The budget of one Pareto front of noise and latency."""

    most_layers: int = 12
    """All subsets of this many layers are predicted, 4,096. Up to nine, no front differed from that of all assignments:
    15 cases of `benchmarks/fronts.py` (decision 0012).
    """
    most_timed: int = 80
    """Compilations. The same cases took 15 to 56; for twelve layers in a chain 25 give the model of latency."""
    fewest_measured: int = 64
    """Networks whose noise is measured; a front of 4,096 has about ten. Not varied."""
    most_measured: int = 1024
    """Not varied."""
    measuring: float = 2.4e12
    """Between these limits, as many as this number of operations pays for, about as long as 80 compilations. Not
    varied.
    """
    most_longer: int = 24
    """Sets beyond `most_layers` that are timed, evenly spread over the path: the remaining compilations, and some."""
    least_cost: float = 1e-3
    """Smallest assumed cost of a float layer, as a part of the latency, for ratios of noise and cost."""


@dataclass(frozen=True)
class ConstraintBudget:
    """The budget of one search under an accuracy constraint."""

    noise_samples: int = 10
    """Samples for comparing layers before any compilation, as many as `tpuc qtable` uses. Not varied."""
    worse_below: int = 2
    """Consecutive cheaper networks that may fail before the search ends: accuracy is not quite monotone in cost."""
    most_confirmed: int = 3
    """Networks tested on held-out samples: each further one requires more confidence."""


@dataclass(frozen=True)
class AgreementSamples:
    """The samples of the measure `decisions`."""

    operations: float = 8e10
    """Budget in operations, about the time that compiling the network takes. Not varied."""
    fewest: int = 16
    """One wrong prediction is then 6 %."""
    most: int = 128
    """One wrong prediction is then 0.8 %, as `--min-accuracy 99%` requires."""
