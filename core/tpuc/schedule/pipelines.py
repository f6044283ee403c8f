"""Named pipelines: which passes make up each stage, as data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from tpuc.errors import UsageError

Pipelines: TypeAlias = Mapping[str, Sequence[str]]
"""Pass texts by stage."""

PIPELINES: Pipelines = {
    "top-optimize": ("canonicalize", "fold-constants", "count-flops"),
    "calibrate": ("import-calibration", "propagate-calibration"),
    "lower": ("prepare-quantised", "keep-tail-float", "correct-bias", "scale-channels", "convert-top-to-tpu"),
    "tpu-optimize": (),
    "finalize": ("group-layers", "pack-weights", "assign-addresses"),
}


def extend_pipeline(pipelines: Pipelines, stage: str, text: str, after: str | None = None) -> Pipelines:
    """The same pipelines with one more pass: behind the pass called `after`, or at the end of the stage.

    Raises UsageError when the stage or the pass `after` is not there.
    """
    if stage not in pipelines:
        raise UsageError(f"no pipeline named '{stage}'. Pipelines: {', '.join(pipelines)}.")
    texts = list(pipelines[stage])
    names = [other.partition("{")[0] for other in texts]
    if after is not None and after not in names:
        raise UsageError(f"pipeline '{stage}' has no pass '{after}'. Its passes: {', '.join(names)}.")
    texts.insert(len(texts) if after is None else names.index(after) + 1, text)
    return {**pipelines, stage: tuple(texts)}
