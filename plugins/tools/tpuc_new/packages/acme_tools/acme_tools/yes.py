"""A post-processing: one probability becomes the scores of two classes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from tpuc.api.evaluation import Array
from tpuc_eval.postprocess.scores import Scores
from tpuc_eval.protocols import Outputs, Postprocess, Sample
from tpuc_eval.tail import Tail
from tpuc_ops import top


@dataclass(frozen=True)
class Yes(Postprocess):
    """Networks with one output, the probability of class 1."""

    name = "yes"

    def __call__(self, outputs: Outputs, sample: Sample) -> Array:
        (probability,) = (array.reshape(-1)[0] for array in outputs.values())
        return np.array([1 - probability, probability])

    def append(self, tail: Tail) -> Postprocess:
        (probability,) = tail.outputs
        other = tail(top.SubConst(const_val=1.0, is_reverse=True), probability)
        tail.finish(tail.concat(1, other, probability))
        return Scores()
