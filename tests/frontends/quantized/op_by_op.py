"""Each op of a quantized network by itself: it gets the operands that ONNX Runtime computed, so nothing adds up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from tpuc.api import Constant, Module, NetworkInput, Operation, Value

from tests.frontends.quantized.networks import Array, session_options

MAKERS = ("QuantizeLinear", "QLinear")
"""What the names of operators begin with that give integers with a scale."""


@dataclass(frozen=True)
class OpSteps:
    """By how many steps of its scale each integer of a result differs from the runtime's."""

    op: str
    name: str
    steps: Array


class Tapped:
    """A quantized file run by ONNX Runtime, which also gives every tensor of integers.

    `plain` is without optimizations: floats between the casts, as the file says it.
    """

    def __init__(self, path: Path, *, plain: bool) -> None:
        model = onnx.load(path)
        known = {output.name for output in model.graph.output}
        made = [name for entry in model.graph.node if entry.op_type.startswith(MAKERS) for name in entry.output]
        model.graph.output.extend(onnx.helper.make_empty_tensor_value_info(name) for name in made if name not in known)
        self._session = onnxruntime.InferenceSession(model.SerializeToString(), session_options(plain=plain))
        self._names = [output.name for output in self._session.get_outputs()]
        (self.input,) = (entry.name for entry in self._session.get_inputs())

    def run(self, x: Array) -> Mapping[str, Array]:
        """All of its integers, and its outputs, by name."""
        return dict(zip(self._names, self._session.run(self._names, {self.input: x}), strict=True))


def steps_by_op(module: Module, path: Path, inputs: Sequence[Array], *, plain: bool) -> list[OpSteps]:
    """Of every op whose result has the name of an integer tensor of the file, over all inputs."""
    runtime = Tapped(path, plain=plain)
    found: dict[str, tuple[str, list[Array]]] = {}
    for x in inputs:
        theirs, values = runtime.run(x), dict[Value, Array]()
        for operation in module.main.operations[:-1]:
            for result, array in zip(operation.results, _evaluated(module, operation, values, x), strict=True):
                values[result] = array
                if result.is_constant or result.name not in theirs or not result.tensor.is_quantized:
                    continue
                wanted = theirs[result.name].reshape(array.shape).astype(array.dtype)
                steps = np.abs(array.astype(np.int64) - wanted.astype(np.int64)).reshape(-1)
                found.setdefault(result.name, (operation.op.name, []))[1].append(steps)
                values[result] = wanted
    return [OpSteps(op, name, np.concatenate(steps)) for name, (op, steps) in found.items()]


def _evaluated(module: Module, operation: Operation, values: Mapping[Value, Array], x: Array) -> Sequence[Array]:
    if isinstance(operation.op, NetworkInput):
        return [x.reshape(operation.result.tensor.dims)]
    if isinstance(operation.op, Constant):
        name = operation.name
        return [module.weights[name] if name in module.weights else np.empty(0, np.float32)]
    return operation.op.evaluate(operation.node(), [values[operand] for operand in operation.operands])
