"""What plugins may use to run networks on the host: samples and the interpreter. Imports numpy."""

from __future__ import annotations

from tpuc.data import Preprocess, SampleInput, SampleSource, inputs_of, open_samples, preprocess_of
from tpuc.interpreter import Interpreter, Plan, Step, make_plan
from tpuc.interpreter.interpreter import Array

__all__ = [
    "Array",
    "Interpreter",
    "Plan",
    "Preprocess",
    "SampleInput",
    "SampleSource",
    "Step",
    "inputs_of",
    "make_plan",
    "open_samples",
    "preprocess_of",
]
