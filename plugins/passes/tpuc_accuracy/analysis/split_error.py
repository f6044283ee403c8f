"""Compute, layer by layer, the errors of a quantized module and their causes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tpuc.api import (
    LAYER_ERRORS,
    QUANTIZED,
    SAMPLES,
    CalibrationError,
    Constant,
    Module,
    NetworkInput,
    Pass,
    PassContext,
    TensorType,
    UsageError,
    as_stored,
)
from tpuc.api.evaluation import Array, Interpreter, stated_factors
from tpuc_quantize.metrics.agreement import Agreement, Outputs
from tpuc_quantize.metrics.output_heads import task_metrics_of
from tpuc_quantize.scaling.move_factors import move_factors

from tpuc_accuracy.analysis.layer_errors import LayerError
from tpuc_accuracy.analysis.lowered_subgraph import Subgraph, find_subgraph, real


@dataclass(frozen=True)
class SplitError(Pass):
    """The module is the float one (TOP); the result `quantized` is its lowered module before finalize, and the result
    `samples` the inputs for both. Leaves `LayerError`s in the result `layer_errors`.
    """

    name = "split-error"

    def run(self, module: Module, context: PassContext) -> bool:
        """See Pass; raises CalibrationError when the two modules have no value in common."""
        quantized: Module | None = context.find(QUANTIZED)
        samples: Sequence[Mapping[str, Array]] = context.find(SAMPLES, ())
        if quantized is None or not samples:
            raise UsageError("pass 'split-error' needs a quantized module and samples: use `tpuc compare`")
        module = _as_prepared(module, quantized)
        values = {
            result.name: result
            for operation in quantized.main.operations
            for result in operation.results
            if isinstance(result.type, TensorType) and result.name
        }
        layers = [
            operation
            for operation in module.main.operations
            if operation.results
            and operation.results[0].name in values
            and all(value.name for value in (*operation.operands, *operation.results) if _is_tensor(value))
            and not isinstance(operation.op, (Constant, NetworkInput))
        ]
        if not layers:
            raise CalibrationError(
                f"modules '{module.name}' and '{quantized.name}' have no value name in common; compare a TOP module "
                "with the TPU module lowered from it"
            )
        exact, rounded = Interpreter(module), Interpreter(quantized)
        subgraphs: dict[str, Subgraph | None] = {}
        for operation in layers:
            computed = [v.name for v in operation.operands if isinstance(v.type, TensorType) and not v.is_constant]
            subgraphs[operation.name] = find_subgraph(quantized, values, operation.result.name, computed)
        errors = {operation.name: LayerError(operation.name, operation.op.name) for operation in layers}
        ends: list[tuple[Outputs, Outputs]] = []
        for sample in context.progress(samples, "comparing", len(samples)):
            reference, got = exact.run(sample, "all"), rounded.run(sample, "all")
            ends.append(_outputs(exact, rounded, reference, got))
            for operation in layers:
                name = operation.result.name
                error, subgraph = errors[operation.name], subgraphs[operation.name]
                error.see(reference[name], real(got[name], values[name].tensor))
                if subgraph is not None and math.isfinite(error.noise) and np.isfinite(reference[name]).all():
                    error.split(operation, subgraph, _operands(module, operation, reference), reference[name])
        kept = _kept(module, ends)
        for operation in layers:
            errors[operation.name].kept = kept.get(operation.result.name)
        context.leave(LAYER_ERRORS, list(errors.values()))
        return False


def _as_prepared(module: Module, quantized: Module) -> Module:
    """The float module with the channel factors applied that the quantized module's table moved."""
    factors = {name: array.ravel() for name, array in stated_factors(quantized).items()}
    if not factors or stated_factors(module):
        return module
    prepared = module.clone()
    move_factors(prepared, factors)
    return prepared


def _outputs(
    exact: Interpreter, rounded: Interpreter, reference: Mapping[str, Array], got: Mapping[str, Array]
) -> tuple[Outputs, Outputs]:
    """The outputs of both networks by the names of the first."""
    pairs, types = list(zip(exact.output_names, rounded.output_names, strict=True)), rounded.outputs
    return {name: reference[name] for name, _ in pairs}, {name: real(got[other], types[other]) for name, other in pairs}


def _kept(module: Module, ends: Sequence[tuple[Outputs, Outputs]]) -> dict[str, Agreement]:
    """The share of agreeing predictions in the parts of outputs, by value name."""
    reference, got = ([pair[side] for pair in ends] for side in (0, 1))
    return {one.name: one.agreement(reference, got) for one in task_metrics_of(module, reference)}


def _is_tensor(value: Any) -> bool:
    return isinstance(value.type, TensorType)


def _operands(module: Module, operation: Any, reference: Mapping[str, Array]) -> list[Array]:
    result: list[Array] = []
    for value in operation.operands:
        if not isinstance(value.type, TensorType):
            result.append(np.zeros((0,), np.float32))
        elif value.is_constant:
            result.append(as_stored(module.weights[value.name], value.type))
        else:
            result.append(reference[value.name])
    return result
