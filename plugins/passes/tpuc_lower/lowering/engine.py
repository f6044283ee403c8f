"""Rebuild a TOP function as a TPU function, op by op, with the chip's table cells."""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tpuc.api import (
    ABSENT,
    F32,
    FLOAT_MODES,
    NO_LOWERING,
    BrokenPromise,
    Calibrated,
    CpuFunction,
    ElementType,
    Elementwise,
    InvalidModel,
    Location,
    Lowering,
    LoweringNode,
    Module,
    NetworkInput,
    NoneType,
    Op,
    Operation,
    RoundMode,
    ScalarType,
    TensorType,
    TpucError,
    Types,
    Uniform,
    UniformPerAxis,
    Unsupported,
    Value,
    Wants,
    free_name,
)
from tpuc.api.boundary import is_postprocess
from tpuc_ops import top, tpu
from tpuc_ops.quant.casts import Dequantize, Quantize
from tpuc_ops.quantized import Rescales

from tpuc_lower.lowering.cells import Array, Cells, as_array, check_results, is_kept, together, uses_of
from tpuc_lower.lowering.moves import unmoved

_WHOLE = (Wants.INDEX, Wants.EXACT)
_WHOLE_NUMBERS = Uniform(ScalarType("i32"), F32, 1.0, 0)
"""The type of unscaled 32-bit integers."""
_ELEMENT_OF = {"int8": "i8", "uint8": "ui8", "int16": "i16", "int32": "i32", "float32": "f32", "float16": "f16"}


_CAST = tpu.Cast()


@dataclass(frozen=True)
class Choice:
    """The lowering of one operation; without a cell the runtime computes it on the processor."""

    operation: Operation
    mode: str
    cell: Lowering[Any] | None


class Lowerer:
    """One run of the lowering over a module's main function. `stored` are the positions of outputs that are wanted as
    integers.
    """

    def __init__(self, module: Module, cells: Cells, stored: Collection[int] = ()) -> None:
        self.module = module
        self.cells = cells
        self.stored = stored
        self.chip = cells.chip
        self.mode = cells.mode
        self.exact = cells.chip.compute_type
        self.body: list[Operation] = []
        self.values: dict[Value, Value] = {}
        self.prequantized: set[Value] = set()  # integers whose type the network gives
        self.casts: dict[tuple[Value, Any, tpu.Cast], Value] = {}
        self.names = {name for one in module.main.operations for name in one.location.names}

    def run(self) -> None:
        """Replace the function's body; raises Unsupported with every refusal at once, before any change."""
        function = self.module.main
        for argument in function.inputs:
            for user in argument.users:
                if not isinstance(user.op, NetworkInput):
                    raise InvalidModel(
                        f"op '{user.name}' ({user.op.name}) reads argument '{argument.name}' of the function itself; "
                        "put a top.Input between them"
                    )
        choices = self._choose()
        indices = {one for one in function.operations if self._gives_indices(one, choices)}
        outputs = function.outputs
        terminator = function.terminator
        for operation in function.operations[:-1]:
            choice = choices.get(operation)
            if isinstance(operation.op, (Quantize, Dequantize)):
                self._convert(operation)
            elif choice is None:
                self._copy(operation)
                if operation in indices:
                    self._as_indices(operation.result)
            elif choice.cell is None:
                self._leave(operation)
            else:
                self._lower(choice, choice.cell)
            self.prequantized.update(self.values[result] for result in operation.results if _is_prequantized(result))
        results = [self._result(value, index) for index, value in enumerate(outputs)]
        terminator.set_operands(results)
        for operation in self.body:
            operation.block = function.body
        terminator.block = function.body
        for argument in function.inputs:
            argument.uses = [(user, index) for user, index in argument.uses if user in self.body]
        function.body.operations[:] = [*self.body, terminator]
        function.update_type()

    def _gives_indices(self, operation: Operation, choices: Mapping[Operation, Choice]) -> bool:
        """True for an input that only functions of the runtime read, as indices."""
        uses = [*uses_of(operation.result)] if isinstance(operation.op, NetworkInput) else []
        left = {user for user, _ in uses if user in choices and choices[user].cell is None}
        return bool(uses) and all(
            user in left and self.cells.reads_as_index(user, place, {operation}) for user, place in uses
        )

    def _as_indices(self, value: Value) -> None:
        """Lower the input as 32-bit integers."""
        lowered = self.values[value]
        lowered.type = lowered.tensor.with_element(_WHOLE_NUMBERS)
        assert lowered.defining is not None
        lowered.defining.operands[0].type = lowered.type

    def _choose(self) -> dict[Operation, Choice]:
        choices: dict[Operation, Choice] = {}
        refusals: list[str] = []
        leads_to_index, indices = self._leads_to_index(), self.cells.index_inputs(self.module)
        for operation in self.module.main.operations[:-1]:
            if is_kept(operation) or isinstance(operation.op, (Quantize, Dequantize)):
                continue
            usual = self.exact if operation in leads_to_index else self.mode
            mode = self.cells.mode_of(operation, usual)
            rule = self.cells.lowering(operation.op, mode)
            reason = NO_LOWERING if rule is None else rule.refuse(self._node(operation, (), mode))
            if reason is None and self.cells.reads_as_index(operation, None, indices):
                rule = None
            if reason is None or self.cells.goes_to_cpu(self.module, operation):
                choices[operation] = Choice(operation, mode, rule if reason is None else None)
            else:
                refusals.append(
                    self.cells.refusal(operation, mode, reason) + self.cells.cpu_way_out(self.module, operation)
                )
        if refusals:
            raise Unsupported(together(refusals))
        return choices

    def _leads_to_index(self) -> set[Operation]:
        """True for element-wise and moving ops whose results only select positions or are compared: 8 and 16 bits would
        change integers.
        """
        found: set[Operation] = set()
        requirements = functools.cache(self._requirements)  # asked for each operand of an operation
        for operation in reversed(self.module.main.operations[:-1]):
            uses = [use for result in operation.results for use in result.uses]
            if is_kept(operation) or not uses or self.cells.lowering(operation.op, self.exact) is None:
                continue
            moves = isinstance(operation.op, Elementwise) or requirements(operation)[0] is Wants.AS_IS
            if moves and all(user in found or requirements(user)[index] in _WHOLE for user, index in uses):
                found.add(operation)
        return found

    def _requirements(self, operation: Operation) -> Sequence[Wants]:
        """The types that an operation's cell in the usual mode requires of its operands."""
        mode = self.cells.mode_of(operation)
        rule, node = self.cells.lowering(operation.op, mode), self._node(operation, (), mode)
        plain = (Wants.MODE,) * max(len(operation.operands), 1)
        return plain if rule is None or rule.refuse(node) is not None else rule.requires(node) or plain

    def _copy(self, operation: Operation) -> None:
        operands = [self.values.get(operand, operand) for operand in operation.operands]
        new = Operation(
            operation.op,
            operands,
            [result.type for result in operation.results],
            operation.location,
            dict(operation.extra_attributes),
        )
        self.append(new)
        for old, result in zip(operation.results, new.results, strict=True):
            self.values[old] = result

    def _convert(self, operation: Operation) -> None:
        """Lower a cast that the network itself states; nothing where its operand already has that type."""
        value, result = self.values[operation.operands[0]], operation.result.tensor
        target = result if result.is_quantized else self.chip.float_type(result, "f32")
        if value.tensor.is_quantized != target.is_quantized:
            op = operation.op
            cast = tpu.Cast(round_mode=op.rounding().value) if isinstance(op, Quantize) else tpu.Cast()
            value = self._new_cast(value, target, operation.name, cast)
        elif target.is_quantized and value.tensor.element != target.element:
            value = self._requantized(value, target, operation.name)
        self.values[operation.result] = value

    def append(self, operation: Operation) -> None:
        """Add an operation to the new body."""
        self.body.append(operation)
        self.names.update(operation.location.names)

    def _node(self, operation: Operation, operands: tuple[Value, ...], mode: str) -> LoweringNode:
        return self.cells.node(self.module, operation, mode, operands)

    def _leave(self, operation: Operation) -> None:
        """Leave an operation to the runtime, on the processor in float32, with unchanged meaning. Integer results are
        cast afterwards.
        """
        function = self.cells.cpu_function(operation)
        assert function is not None
        operands = [
            self._left_operand(function, operand, index in function.index_inputs)
            for index, operand in enumerate(operation.operands)
        ]
        results = [
            result.tensor.with_element(_WHOLE_NUMBERS if index in function.integer_results else function.storage)
            for index, result in enumerate(operation.results)
        ]
        new = Operation(operation.op, operands, results, operation.location)
        self.append(new)
        for old, result in zip(operation.results, new.results, strict=True):
            is_cast = result.tensor.is_quantized and old.uses
            self.values[old] = self._as_float(result) if is_cast else result

    def _left_operand(self, function: CpuFunction[Any], operand: Value, is_index: bool) -> Value:
        """An operand of a runtime function, in the type that the function reads."""
        value, storage = self.values[operand], function.storage
        if is_index or isinstance(value.type, NoneType):
            return value
        if not operand.is_constant:
            return self.cast(value, value.tensor.with_element(storage))
        if storage == F32:
            return value
        key = (value, storage, _CAST)
        if key not in self.casts:
            array = function.stored(self.module.weights[operand.name])
            self.casts[key] = _Builder(self, operand.name).weight(storage.name, array, storage.name)
        return self.casts[key]

    def _lower(self, choice: Choice, rule: Lowering[Any]) -> None:
        operation, mode = choice.operation, choice.mode
        requirements = rule.requires(self._node(operation, (), mode))
        if is_postprocess(operation) or self._joins_as_floats(operation, mode):
            requirements = [self._float_instead(*one) for one in zip(operation.operands, requirements, strict=True)]
        operands = tuple(
            self._operand(operand, want, mode) for operand, want in zip(operation.operands, requirements, strict=True)
        )
        node = self._node(operation, operands, mode)
        build = _Builder(self, operation.name, operation.location.names)
        try:
            results = rule.lower(node, build)
        except ValueError as error:
            raise Unsupported(f"node '{operation.name}': {operation.op.name} {mode}: {error}") from error
        check_results(f"{mode} lowering", operation, rule, results)
        for old, new in zip(operation.results, results, strict=True):
            self.values[old] = self._as_prequantized(operation, old, new)

    def _as_prequantized(self, operation: Operation, result: Value, value: Value) -> Value:
        """Convert a lowered result to the type that the network states. Rounding and saturation belong to the meaning
        of such a value; a folded relu is nothing else.
        """
        if self.mode in FLOAT_MODES or not _is_prequantized(result):
            return value
        target = self.chip.quantize(result.tensor, self.mode, result.name)
        if _same_numbers(value.tensor.element, target.element):
            return value
        made = value.defining
        if made is not None and made.location.names == (result.name,):
            made.location = Location(
                (self.unique(f"{result.name}_{value.tensor.storage.name}"),)
            )  # the name is that of the stored value
            self.names.add(made.name)
            return self._stored_as(value, target, result.name, _rounding(operation.op))
        return self._stored_as(value, target, self.unique(f"{result.name}_stored"), _rounding(operation.op))

    def _stored_as(self, value: Value, target: TensorType, name: str, rounding: RoundMode) -> Value:
        if value.tensor.is_quantized:
            return self._requantized(value, target, name)
        op = tpu.Cast(round_mode=rounding)
        return self._before_moves(value, target, name, op) or self._new_cast(value, target, name, op)

    def _requantized(self, value: Value, target: TensorType, name: str) -> Value:
        """Integers with another scale, zero point or width: a product with 1 by the chip's lowering, through floats
        where there is none.
        """
        op, type_ = top.MulConst(const_val=1.0), value.tensor
        rule = self.cells.lowering(op, self.mode)
        node = LoweringNode(op, (type_,), (target,), name, (value,), (None,), self.mode, self.chip, (name,))
        if rule is not None and type_.storage.bits == target.storage.bits and rule.refuse(node) is None:
            (result,) = rule.lower(node, _Builder(self, name))
            if result.tensor.element == target.element:
                return result
            raise BrokenPromise(
                f"{self.mode} lowering of {op.name} '{name}' returns a value of {result.tensor.element}; the network "
                f"states {target.element}",
                rule,
            )
        real = self.cast(value, self.chip.float_type(type_, "f32"))
        return self._new_cast(real, target, name, tpu.Cast(round_mode="HalfToEven"))

    def _joins_as_floats(self, operation: Operation, mode: str) -> bool:
        """True if it concatenates integers of several scales and returns floats."""
        values = [self.values[one] for one in operation.operands if not one.is_constant]
        types = [value.type for value in values if isinstance(value.type, TensorType)]
        return mode in FLOAT_MODES and len({type_.element for type_ in types if type_.is_quantized}) > 1

    def _float_instead(self, operand: Value, want: Wants) -> Wants:
        """Return floats from post-processing and from joins of several scales: they have no scale, and the host would
        convert them to floats.
        """
        value = self.values[operand]
        is_stored = isinstance(value.type, TensorType) and value.type.is_quantized
        return Wants.FLOAT if want is Wants.AS_IS and is_stored else want

    def _operand(self, operand: Value, want: Wants, mode: str) -> Value:
        value = self.values[operand]
        if isinstance(value.type, NoneType) or operand.is_constant or want is Wants.AS_IS:
            return value
        type_ = value.tensor
        if want is Wants.EXACT:
            return self.cast(value, self.chip.float_type(type_, self.exact)) if type_.is_quantized else value
        if want in (Wants.FLOAT, Wants.INDEX):
            return self.cast(value, self.chip.float_type(type_, "f32"))
        if mode in FLOAT_MODES:
            return self.cast(value, self.chip.float_type(type_, mode))
        has_scale = isinstance(operand.tensor.element, (Calibrated, Uniform))
        if type_.is_quantized and not has_scale:
            return value
        target = self.chip.quantize(operand.tensor, mode, operand.name)
        # A lowering may choose scale and sign of what was only calibrated.
        if type_.is_quantized and type_.storage.bits == target.storage.bits:
            return value
        return self.cast(value, target)

    def cast(self, value: Value, target: TensorType, op: tpu.Cast = _CAST) -> Value:
        """The value in another element type; casts are shared."""
        type_ = value.tensor
        both = type_.is_quantized and target.is_quantized
        if type_.element == target.element if both else _stores_alike(type_, target):
            return value
        key = (value, target.element, op)
        if key not in self.casts:
            # MLIR spells the storage i8 or u8 inside uniform types, i8 or ui8 outside; names follow the storage.
            name = self.unique(f"{value.name}_{target.storage.name}")
            self.casts[key] = (
                self._requantized(value, target, name)
                if both
                else self._before_moves(value, target, name, op) or self._new_cast(value, target, name, op)
            )
        return self.casts[key]

    def _before_moves(self, value: Value, target: TensorType, name: str, op: tpu.Cast) -> Value | None:
        """Place a narrowing cast of a rearranged element-wise result before the moves, so that the producing op may
        store it narrow. Other casts stay next to their users, as do those that fill more lanes there.
        """
        move, made = value.defining, unmoved(value)
        if target.storage.bits >= value.tensor.storage.bits or isinstance(target.element, UniformPerAxis):
            return None
        if move is None or made is value or made.defining is None or not isinstance(made.defining.op, Elementwise):
            return None
        if self._used_lanes(made) < self._used_lanes(value):
            return None
        parts = ((part, part.type) for part in move.operands)
        narrow = [self.cast(p, target.with_shape(t.dims), op) if isinstance(t, TensorType) else p for p, t in parts]
        return _Builder(self, name)(move.op, narrow, target)

    def _used_lanes(self, value: Value) -> int:
        """The number of lanes that the channels of a value occupy."""
        return min((*value.tensor.dims, 1, 1)[1], self.chip.lanes)

    def _new_cast(self, value: Value, target: TensorType, name: str, op: tpu.Cast = _CAST) -> Value:
        """A cast by the chip's lowering of `tpu.Cast`, else a plain Cast with its scale."""
        build = _Builder(self, name)
        rule = self.cells.lowering(op, self.mode)
        if rule is None:
            return build(op, [value], target)
        if value in self.prequantized and not target.is_quantized:
            op = replace(op, round_mode="HalfToEven")
        node = LoweringNode(op, (value.tensor,), (target,), name, (value,), (None,), self.mode, self.chip)
        reason = rule.refuse(node)
        if reason is not None:
            raise Unsupported(
                f"value '{value.name}': {op.name} to {target.storage} on {self.chip.name}: {reason}; choose another "
                "mode for the ops that use it"
            )
        (result,) = rule.lower(node, build)
        return result

    def _result(self, value: Value, index: int) -> Value:
        """The value of an output: floats, or bytes where requested for an output computed in floats."""
        lowered = self.values[value]
        type_ = lowered.tensor
        is_float = not type_.is_quantized and type_.storage.is_float
        if index in self.stored and is_float and isinstance(value.tensor.element, Calibrated):
            return self.cast(lowered, self.chip.quantize(value.tensor, self.mode, value.name))
        return self._as_float(lowered)

    def _as_float(self, value: Value) -> Value:
        return self.cast(value, self.chip.float_type(value.tensor, "f32"))

    def unique(self, name: str) -> str:
        """An unused name."""
        return free_name(name, lambda name: name in self.names or name in self.module.weights)


def _stores_alike(type_: TensorType, target: TensorType) -> bool:
    """True if both types are scaled integers or neither is, with elements stored the same way."""
    return type_.shape_only() == target.shape_only() and type_.is_quantized == target.is_quantized


def _same_numbers(element: ElementType, target: ElementType) -> bool:
    """True if both types represent the same numbers, such as signed and unsigned bytes with zero points 128 apart."""
    if not isinstance(element, Uniform) or not isinstance(target, Uniform):
        return element == target
    spans = [tuple(bound - one.zero_point for bound in one.bounds) for one in (element, target)]
    return element.scale == target.scale and spans[0] == spans[1]


def _rounding(op: Op) -> RoundMode:
    """The rounding of a pre-quantized value that is computed in floats: half to even, except for TFLite's integers."""
    return "HalfAwayFromZero" if isinstance(op, Rescales) and op.round_mode != "HalfToEven" else "HalfToEven"


def _is_prequantized(value: Value) -> bool:
    return isinstance(value.type, TensorType) and isinstance(value.type.element, Uniform)


class _Builder:
    """Builds the TPU ops of one TOP operation; names other than its `own` are made unique."""

    def __init__(self, lowerer: Lowerer, name: str, own: Sequence[str] = ()) -> None:
        self._lowerer = lowerer
        self._name = name
        self._own = (name, *own)

    def __call__(
        self, op: Op, operands: Sequence[Value], result: TensorType | None = None, name: str | None = None
    ) -> Value:
        if result is None:
            types: Types = tuple(o.type if isinstance(o.type, TensorType) else ABSENT for o in operands)
            inferred = op.infer(types)
            if inferred is None:
                raise TpucError(f"node '{self._name}': {op.name} needs a declared result type; pass one to build()")
            result = inferred[0]
        self._refuse_float(result)
        if isinstance(op, tpu.Reshape) and operands[0].is_constant:
            return self._reshaped(operands[0], result)
        own_name = self._name if not name else name if name in self._own else self._lowerer.unique(name)
        operation = Operation(op, operands, [result], Location((own_name,)))
        self._lowerer.append(operation)
        return operation.result

    def _reshaped(self, constant: Value, result: TensorType) -> Value:
        """Copy a constant into a new constant of another shape: op results are not allowed among the coefficients."""
        array = self._lowerer.module.weights[constant.name].reshape(result.dims)
        return self._constant(self._lowerer.unique(f"{constant.name}_reshaped"), array, result)

    def _refuse_float(self, result: TensorType) -> None:
        """Refuse 16-bit floats on a chip without them. 32-bit floats may belong to the runtime."""
        chip, element = self._lowerer.chip, result.storage
        if element.bits == 16 and element.name in FLOAT_MODES and element.name not in chip.modes:
            raise Unsupported(
                f"node '{self._name}': it is computed in {element.name} in mode {self._lowerer.mode}, which "
                f"{chip.name} does not have (its modes: {', '.join(chip.modes)}); "
                "change the node, or choose another chip"
            )

    def weight(self, suffix: str, array: Array, element: str | Uniform | None = None) -> Value:
        array = as_array(array)
        held = element if isinstance(element, Uniform) else ScalarType(element or _ELEMENT_OF[array.dtype.name])
        return self._constant(self._lowerer.unique(f"{self._name}_{suffix}"), array, TensorType(array.shape, held))

    def _constant(self, name: str, array: Array, type_: TensorType) -> Value:
        self._lowerer.module.weights[name] = array
        operation = Operation(top.Weight(), (), [type_], Location((name,)))
        self._lowerer.append(operation)
        return operation.result

    def none(self) -> Value:
        operation = Operation(top.None_(), (), [NoneType()])
        self._lowerer.append(operation)
        return operation.result
