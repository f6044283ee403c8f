"""Keys of results that these passes exchange."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from tpuc.api import Chip, FunctionProgram, ResultKey, TensorType

MODE: ResultKey[str] = ResultKey("mode")
"""The integer mode that a quantised network asks for."""
FILE_INPUTS: ResultKey[Mapping[str, TensorType]] = ResultKey("file_inputs")
"""What inputs of a quantised network take in its file, by their names."""
CHIP: ResultKey[Chip] = ResultKey("chip")
"""The chip that a pass was given, in a run without one."""
LATENCY: ResultKey[Callable[[Sequence[str]], float | None]] = ResultKey("latency")
"""The milliseconds of the network with some ops in float; None for one that the chip cannot compile."""
FLOAT_SUMS: ResultKey[Collection[str]] = ResultKey("float_sums")
"""Products that need not give bytes."""
FUNCTION_PROGRAM: ResultKey[FunctionProgram] = ResultKey("function_program")
"""The planned program of a chip whose kernels are functions."""
