"""Named pipelines: the passes of each stage, as data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

Pipelines: TypeAlias = Mapping[str, Sequence[str]]
"""Pass texts by stage."""

PIPELINES: Pipelines = {
    "top-optimize": ("absorb-quantisation", "canonicalize", "fold-constants", "append-postprocess", "count-flops"),
    "calibrate": (
        "drop-dynamic-quantisation",
        "unroll-recurrences",
        "move-factors",
        "import-calibration",
        "propagate-calibration",
    ),
    "lower": (
        "drop-dynamic-quantisation",
        "prepare-quantised",
        "bound-masks",
        "keep-masks-float",
        "keep-epsilons",
        "keep-tail-float",
        "correct-bias",
        "scale-channels",
        "round-weights",
        "legalise",
        "convert-top-to-tpu",
    ),
    "tpu-optimize": (),
    "finalize": ("subnet-divide", "group-layers", "pack-weights", "assign-addresses"),
}
