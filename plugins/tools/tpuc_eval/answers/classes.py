"""Show the most likely classes of an image."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from tpuc.api import UsageError
from tpuc_driver.api.answers import Answer, Asked, RunSample

from tpuc_eval.options import reader
from tpuc_eval.postprocess.classes import ClassRows
from tpuc_eval.protocols import Sample

SHOWN = 5
FEWEST = 2
_PICTURE_AXES = 4


class Classes(Answer):
    """For networks with one picture as input and one vector as output. Arrays count as pictures if classes have
    names.
    """

    def lines(self, ran: RunSample, asked: Asked) -> Sequence[str] | None:
        """See Answer."""
        if (
            not (ran.picture or asked.names(ran).names)
            or asked.postprocess
            or len(ran.values) != 1
            or len(ran.inputs) != 1
        ):
            return None
        (values,) = ran.values.values()
        known = reader(asked.registry, ran.postprocess)
        if known is not None:
            values = np.asarray(known(ran.values, Sample(({},)))) if isinstance(known, ClassRows) else np.zeros(0)
        if len(ran.inputs[0].shape) != _PICTURE_AXES or values.size < FEWEST or values.size != max(values.shape):
            return None
        if asked.draw is not None:
            raise UsageError("--draw: a class describes the whole image, so there is nothing to draw; leave it out.")
        scores, names = values.reshape(-1).astype(np.float64), asked.names(ran)
        best = np.argsort(-scores, kind="stable")[:SHOWN]
        width = len(str(best.max()))
        best = best[np.isfinite(scores[best])]
        return [f"{scores[one]:.6g}  {one:>{width}}  {names.of(int(one), scores.size)}" for one in best]
