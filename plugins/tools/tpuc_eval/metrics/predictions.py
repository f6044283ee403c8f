"""Convert predictions to the form that a metric needs, or raise an error."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from tpuc.api import TpucError, UsageError

from tpuc_eval.protocols import Detections, Objects


def scores_of(metric: str, prediction: Any, source: str) -> NDArray[np.float64]:
    """Return class scores or a single number, flat; raises UsageError for boxes and TpucError for NaN."""
    if isinstance(prediction, Detections):
        raise UsageError(
            f"metric '{metric}' evaluates scores, but the post-processing returns boxes; use --metric coco."
        )
    scores = np.asarray(prediction, np.float64).reshape(-1)
    if scores.size == 0 or np.isnan(scores).any():
        what = "NaN" if scores.size else "nothing"
        raise TpucError(f"{source}: returns {what} instead of scores; check its outputs with `tpuc run`")
    return scores


def detections_of(metric: str, prediction: Any, source: str) -> Detections:
    """Return boxes; raises UsageError for anything else and TpucError for boxes that are not finite."""
    if not isinstance(prediction, Detections):
        raise UsageError(
            f"metric '{metric}' evaluates boxes, but the post-processing returns none; choose that of a detector with "
            "--postprocess."
        )
    if not (np.isfinite(prediction.boxes).all() and np.isfinite(prediction.scores).all()):
        raise TpucError(f"{source}: boxes or scores are not finite; check its outputs with `tpuc run`")
    return prediction


def no_objects(metric: str, truth: Any) -> str:
    """Return why a box metric cannot use this truth; empty if it consists of objects."""
    if isinstance(truth, Objects):
        return ""
    return f"metric '{metric}' needs annotated boxes, but the data has class labels; use --metric top-k."


def no_label(metric: str, truth: Any) -> str:
    """Return why a class metric cannot use this truth; empty if it is a class index."""
    if isinstance(truth, int):
        return ""
    return f"metric '{metric}' needs one class per sample, but the data has annotated boxes; use --metric coco."
