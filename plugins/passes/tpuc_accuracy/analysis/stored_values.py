"""Compare two forms of a pre-quantized network, layer by layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from tpuc.api import Module, Operation, TensorType, UsageError
from tpuc.api.evaluation import Array, Interpreter, real_values
from tpuc_driver.api.host import SampleInput, inputs_of
from tpuc_prequantized.common import network_inputs

from tpuc_accuracy.analysis.layer_errors import LayerError


def stored_layers(top: Module, tpu: Module, rows: Sequence[Mapping[str, Array]]) -> list[LayerError]:
    """The differences between the real values of a TPU module and of the TOP module, over samples of the latter.

    Raises UsageError for modules without common values.
    """
    ours, theirs = Interpreter(top), Interpreter(tpu)
    first, second = _results(top), _results(tpu)
    types = {operation.name: operation.result.tensor for operation in network_inputs(top)}
    names = [name for name in first if name in second and name not in types]
    if not names or [one.name for one in inputs_of(top)] != [one.name for one in inputs_of(tpu)]:
        raise UsageError(
            f"modules '{top.name}' and '{tpu.name}' have no inputs and values in common; give a TOP module and a "
            "module lowered from it."
        )
    errors = {name: LayerError(name, first[name].op.name) for name in names}
    for row in rows:
        wanted = ours.run(row, "all")
        fed = {one.name: _fed(one, row[one.name], types[one.name]) for one in inputs_of(tpu)}
        got = theirs.run(fed, "all")
        for name, error in errors.items():
            error.see(*(_meant(run[name], of[name]) for run, of in ((wanted, first), (got, second))))
    return list(errors.values())


def _results(module: Module) -> dict[str, Operation]:
    """The producer of each named tensor of the main function."""
    named = (one for one in module.main.operations if len(one.results) == 1 and isinstance(one.result.type, TensorType))
    return {operation.result.name: operation for operation in named if operation.result.name}


def _meant(array: Array, operation: Operation) -> Array:
    return real_values(array, operation.result.tensor).ravel()


def _fed(one: SampleInput, array: Array, type_: TensorType) -> Array:
    """An input of the TPU module computed from that of the TOP module."""
    meant = real_values(array, type_).astype(np.float32) if type_.is_quantized else array
    return one.store(meant) if one.store is not None else np.asarray(meant, one.dtype)
