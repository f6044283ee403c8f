"""Metadata of a module's inputs and outputs: preprocessing, post-processing and states."""

from __future__ import annotations

from tpuc.ir.fused_postprocess import (
    FusedPostprocess,
    fused_postprocess,
    is_postprocess,
    mark_as_postprocess,
    state_fused_postprocess,
)
from tpuc.ir.preprocess import INTERPOLATIONS, Preprocess, preprocess_of, rounds_evenly
from tpuc.ir.state import State, first_value, keep_states, note_state_pairs, state_pairs, states_of

__all__ = [
    "INTERPOLATIONS",
    "FusedPostprocess",
    "Preprocess",
    "State",
    "first_value",
    "fused_postprocess",
    "is_postprocess",
    "keep_states",
    "mark_as_postprocess",
    "note_state_pairs",
    "preprocess_of",
    "rounds_evenly",
    "state_fused_postprocess",
    "state_pairs",
    "states_of",
]
