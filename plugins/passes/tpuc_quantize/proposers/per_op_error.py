"""Propose thresholds that change the results of single ops least."""

from __future__ import annotations

from collections.abc import Iterator

from tpuc_quantize.calibration.proposer import Candidate, Proposer, Search


class PerOpError(Proposer):
    """Of several thresholds between a method's and the largest magnitude, the one with which the op that reads the
    value gives the closest result, as TPU-MLIR tunes its tables (`--tune_num`).
    """

    name = "per-op-error"

    def propose(self, search: Search) -> Iterator[Candidate]:
        for one in search.tuned_per_op:
            yield one.named(f"{one.name}, tuned op by op", search.filter_shifts)
