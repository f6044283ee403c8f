"""What a search for float layers may spend: networks that are compiled, timed and measured, and samples they run on."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class FrontBudget:
    """Of one Pareto front of noise and latency."""

    most_layers: int = 12
    """All subsets of so many are predicted, 4,096. Up to nine, no front differed from that of all assignments: 15 cases
    of `benchmarks/fronts.py` (decision 0012).
    """
    most_timed: int = 80
    """Compilations. The same cases took 15 to 56; of twelve layers in a chain 25 give the model of time."""
    fewest_measured: int = 64
    """Networks whose noise is measured, of which a front of 4,096 has some ten. Not varied."""
    most_measured: int = 1024
    """Not varied."""
    measuring: float = 2.4e12
    """Between these two, as many as so many operations pay for, which take about as long as 80 compilations. Not
    varied.
    """
    most_longer: int = 24
    """Sets beyond `most_layers` that are timed, evenly over the path: what is left of the compilations, and some."""
    least_cost: float = 1e-3
    """Of the network's time: what a layer in float is taken to cost at least, for quotients of noise and cost."""


@dataclass(frozen=True)
class ConstraintBudget:
    """Of one search for a network that meets an accuracy constraint."""

    noise_samples: int = 10
    """Samples on which layers are compared before any is compiled, as many as `tpuc qtable` takes. Not varied."""
    worse_below: int = 2
    """Cheaper networks that may fail in turn before the search ends: accuracy does not quite fall with cost."""
    most_confirmed: int = 3
    """Networks that are asked about on held-out samples: each one more has to hold with more confidence."""


@dataclass(frozen=True)
class AgreementSamples:
    """Of the measure `decisions`."""

    operations: float = 8e10
    """As many samples as these pay for, about the time that compiling the network takes. Not varied."""
    fewest: int = 16
    """One wrong prediction is then 6 %."""
    most: int = 128
    """One is 0.8 %, what `--min-accuracy 99%` has to see."""
