"""Propose bias shifts that remove the mean errors of int8 from products."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tpuc.api.evaluation import Array

from tpuc_quantize.calibration.proposer import Candidate, Proposer, Search
from tpuc_quantize.options.tuning import COMPARISON
from tpuc_quantize.remedies.bias_correction import find_shifts


class BiasShifts(Proposer):
    """The mean error of the filters plus half of the remaining int8 error up to there, unless outputs are clearly
    better for less or all of it (Nagel et al., "Data-free quantization", 2019, correct all of it): an estimate from
    few samples is partly chance and would pull the outputs of a noisy network to the mean. Not used for samples that
    show nothing.
    """

    name = "bias-shifts"
    round = "biases"

    def propose(self, search: Search) -> Iterator[Candidate]:
        if not search.settings.bias_num:
            return
        unseen = search.settings.headroom > 0
        lost, handicap = search.filter_shifts, 0.0 if unseen else COMPARISON.clear_gain
        if not unseen:
            left = _left(search)
            half = {name: (one + lost[name]) / 2 for name, one in left.items()}
            yield search.best.named("corrected for their filters and half of what else int8 leaves", half)
            yield search.best.named("corrected for all that int8 leaves", left, handicap)
        filters = search.best.named("corrected for their filters", lost, handicap)
        none = search.best.named("not corrected", {}, handicap)
        yield from (none, filters) if search.best.shifts or search.score is None else (filters, none)


def _left(search: Search) -> Mapping[str, Array]:
    seen, samples = search.observed, search.samples(search.observed.biased)
    return find_shifts(search.quantized(search.best), samples, seen.products, search.pool, search.context.progress)
