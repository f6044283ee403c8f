"""What plugins may use to run networks on the host: samples and the interpreter. Imports numpy."""

from __future__ import annotations

from tpuc.data import Preprocess, SampleInput, SampleSource, inputs_of, open_samples, preprocess_of
from tpuc.interpreter import Interpreter
from tpuc.interpreter.interpreter import Array

__all__ = ["Array", "Interpreter", "Preprocess", "SampleInput", "SampleSource", "inputs_of", "open_samples", "preprocess_of"]
