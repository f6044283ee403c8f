"""What a module says of its ends: how pictures become its inputs, and the post-processing behind it."""

from __future__ import annotations

from tpuc.ir.fused_postprocess import (
    FusedPostprocess,
    fused_postprocess,
    is_postprocess,
    mark_as_postprocess,
    state_fused_postprocess,
)
from tpuc.ir.preprocess import Preprocess, preprocess_of, rounds_evenly

__all__ = [
    "FusedPostprocess",
    "Preprocess",
    "fused_postprocess",
    "is_postprocess",
    "mark_as_postprocess",
    "preprocess_of",
    "rounds_evenly",
    "state_fused_postprocess",
]
