"""Named pipelines: the passes of each stage, as data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Pipelines = Mapping[str, Sequence[str]]
"""Pass texts by stage."""

PIPELINES: Pipelines = {
    "top-optimize": ("absorb-quantization", "canonicalize", "fold-constants", "append-postprocess", "count-flops"),
    "calibrate": (
        "expand-matrices",
        "drop-dynamic-quantization",
        "unroll-recurrences",
        "move-factors",
        "import-calibration",
        "propagate-calibration",
    ),
    "lower": (
        "expand-matrices",
        "drop-dynamic-quantization",
        "prepare-quantized",
        "bound-masks",
        "keep-masks-float",
        "keep-epsilons",
        "keep-states-float",
        "keep-tail-float",
        "correct-bias",
        "scale-channels",
        "round-weights",
        "legalize",
        "convert-top-to-tpu",
    ),
    "tpu-optimize": (),
    "finalize": ("subnet-divide", "group-layers", "pack-weights", "assign-addresses"),
}
