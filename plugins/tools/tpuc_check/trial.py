"""Compile a single op of a network; return its cycles or the refusal."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tpuc.api import (
    NO_LOWERING,
    CalibrationError,
    Constant,
    LoweringNode,
    Module,
    NetworkInput,
    NoneType,
    Operation,
    TensorType,
    TpucError,
    Value,
)
from tpuc.api.evaluation import Array
from tpuc_importing.building import ModuleSource, TopBuilder
from tpuc_ops.quant.casts import Dequantize, Quantize

from tpuc_check.findings import CODE, LOWERING

_PLACE = re.compile(r"^node '[^']*': (?:\S+ )+?on \S+: ")
_LAST = re.compile(r"[;.] ?(?:change|choose|Change|Choose)\b[^;.]*\.?$")


@dataclass(frozen=True)
class Verdict:
    """`reason` is None if the op compiles; `cycles` is then its cost."""

    reason: str | None
    stage: str = ""
    cycles: int | None = None


def computes(operation: Operation) -> bool:
    """True if an operation is work for a chip. False for constants, inputs, absent values, returns, and conversions
    between floats and integers, which every chip has.
    """
    return (
        bool(operation.results)
        and not isinstance(operation.op, (Constant, NetworkInput, Quantize, Dequantize))
        and not all(isinstance(result.type, NoneType) for result in operation.results)
    )


class Trials:
    """Tries ops on a chip in one mode; equal ones once. `table` holds the ranges of the network's values."""

    def __init__(self, module: Module, session: Any, table: Any = None) -> None:
        self._module = module
        self._session = session
        self._table = table
        self._verdicts: dict[Any, Verdict] = {}

    def verdict(self, operation: Operation) -> Verdict:
        """Return the result of compiling an op."""
        key = (operation.op, *((operand.type, operand.is_constant) for operand in operation.operands))
        if key not in self._verdicts:
            self._verdicts[key] = self._try(operation)
        return self._verdicts[key]

    def _try(self, operation: Operation) -> Verdict:
        is_stored = any(type_.is_quantized for type_ in (*_types(operation.operands), *_types(operation.results)))
        reason = None if is_stored else self._refusal(operation)  # what is stored is prepared for the chip first
        if reason is not None:
            return Verdict(reason, LOWERING)
        alone = isolated(self._module, operation)
        try:
            data = self._session.build(alone, self._table).data
        except CalibrationError:
            return Verdict(None)  # the network states ranges of its own
        except TpucError as error:
            return Verdict(_bare(str(error)), CODE)
        chip = self._session.chip
        if not chip.profiles:
            return Verdict(None)  # a chip without a timing model
        return Verdict(None, cycles=chip.load(data, operation.name).timeline(chip.profiles[0]).cycles)

    def _refusal(self, operation: Operation) -> str | None:
        """Return the refusal of the chip's lowering; that of a legalization is known only when it is built."""
        description, mode = self._session.chip.description, self._session.mode
        op, registry = operation.op, self._session.registry
        given = (registry.lowering(description, op, mode), registry.legalization(description, op))
        node, constants = operation.node(), tuple(self._module.constant(operand) for operand in operation.operands)
        bare = LoweringNode(node.op, node.operand_types, node.result_types, node.name, (), constants, mode, description)
        reasons = [cell.value.refuse(bare) for cell in given if cell is not None]
        return None if None in reasons else (reasons or [NO_LOWERING])[0]


def _types(values: Sequence[Value]) -> list[TensorType]:
    return [value.type for value in values if isinstance(value.type, TensorType)]


class PartBuilder(TopBuilder):
    """Builder for a part of an imported network. Its weights, such as infinities of masks, were accepted at import."""

    def is_number(self, array: Array) -> Array:
        """See TopBuilder."""
        return np.ones_like(array, np.bool_)


def isolated(module: Module, operation: Operation) -> Module:
    """Return a module with this op only; its computed operands become inputs."""
    computed: dict[str, TensorType] = {}
    weights = module.weights
    for operand in operation.operands:
        producer = operand.defining
        if isinstance(operand.type, TensorType) and not (producer is not None and isinstance(producer.op, Constant)):
            computed[operand.name] = operand.type
    reserved = frozenset({*computed, *(result.name for result in operation.results)})
    source = ModuleSource(f"node '{operation.name}'", "alone", "ALONE", {}, reserved)
    build = PartBuilder(source, list(computed.items()))
    operands: list[Value] = []
    for operand in operation.operands:
        if not isinstance(operand.type, TensorType):
            operands.append(build.none())
        elif operand.name in computed:
            operands.append(build.values[operand.name])
        else:
            operands.append(build.foreign_weight(operand.name, weights[operand.name]))
    types = [result.type for result in operation.results if isinstance(result.type, TensorType)]
    first = build.build(operation.op, operands, operation.results[0].name, types)
    assert first.defining is not None
    return build.finish([(value.name, value) for value in first.defining.results])


def _bare(message: str) -> str:
    """Return the reason inside a message about a node on a chip."""
    return _LAST.sub("", _PLACE.sub("", message.splitlines()[0])).rstrip(".")
