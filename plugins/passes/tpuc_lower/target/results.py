"""Keys of results that these passes exchange."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from tpuc.api import Chip, FunctionProgram, ResultKey, TensorType

MODE: ResultKey[str] = ResultKey("mode")
"""The integer mode required by a pre-quantized network."""
FILE_INPUTS: ResultKey[Mapping[str, TensorType]] = ResultKey("file_inputs")
"""The types that a pre-quantized network's inputs have in its file, by name."""
FILE_OUTPUTS: ResultKey[Sequence[tuple[str, TensorType]]] = ResultKey("file_outputs")
"""The names and types that a pre-quantized network's outputs have in its file."""
CHIP: ResultKey[Chip] = ResultKey("chip")
"""The chip given to a pass, in a run without one."""
LATENCY: ResultKey[Callable[[Sequence[str]], float | None]] = ResultKey("latency")
"""Returns the milliseconds of the network with some ops in float; None for a network that the chip cannot compile."""
FLOAT_SUMS: ResultKey[Collection[str]] = ResultKey("float_sums")
"""Products that may return floats instead of bytes."""
FUNCTION_PROGRAM: ResultKey[FunctionProgram] = ResultKey("function_program")
"""The planned program of a chip whose kernels are functions."""
