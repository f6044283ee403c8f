"""Consecutive runs of a module with state: the bit-exact reference for simulators of chips that keep state."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tpuc.interpreter.interpreter import Array, Interpreter
from tpuc.ir.dtypes import numpy_dtype
from tpuc.ir.operation import Module
from tpuc.ir.state import first_value, states_of


class StatefulInterpreter:
    """Runs a module repeatedly and passes states from one run to the next."""

    def __init__(self, module: Module) -> None:
        self._interpreter = Interpreter(module)
        self._states = states_of(module)
        self.reset()

    def reset(self) -> None:
        """Clear all states to zero, quantized integers to their zero point."""
        types = self._interpreter.inputs
        self._held = {
            one.input: np.full(
                types[one.input].dims, first_value(types[one.input]), numpy_dtype(types[one.input].storage)
            )
            for one in self._states
        }

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """One run: outputs by name, without states."""
        outputs = self._interpreter.run({**inputs, **self._held})
        self._held = {one.input: outputs.pop(one.output) for one in self._states}
        return outputs
