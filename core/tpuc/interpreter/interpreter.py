"""The host interpreter: it plans a module once and runs it any number of times."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Literal, NoReturn, TypeAlias

import numpy as np
import numpy.typing as npt

from tpuc.errors import InvalidModel, TpucError
from tpuc.interpreter.plan import ABSENT_SLOT, Input, Plan, Step, make_plan
from tpuc.ir.dtypes import as_stored, numpy_dtype, shown
from tpuc.ir.op import StructuredOp
from tpuc.ir.operation import Module, Operation
from tpuc.ir.types import DYNAMIC, TensorType

Array: TypeAlias = npt.NDArray[Any]
OnValue: TypeAlias = Callable[[str, Array], None]
Keep: TypeAlias = Collection[str] | Literal["all"] | None

_ABSENT: Array = np.zeros((0,), np.float32)


class InputError(TpucError):
    """Data that does not fit the inputs of the network."""


class EvaluationError(TpucError):
    """An op that cannot be evaluated, or whose result does not have its declared type."""


class Interpreter:
    """Runs the function `main` of a module. The module must not change while it is used."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._plan: Plan = make_plan(module)
        self._constants: list[tuple[int, Array]] | None = None
        self._known = frozenset(self._plan.names.values()) | {name for name, _ in self._plan.outputs}

    @property
    def inputs(self) -> dict[str, TensorType]:
        """The inputs by name."""
        return {item.name: item.type for item in self._plan.inputs}

    @property
    def output_names(self) -> tuple[str, ...]:
        """The outputs, in the order in which `main` returns them."""
        return tuple(name for name, _ in self._plan.outputs)

    @property
    def outputs(self) -> dict[str, TensorType]:
        """Their types; an output without a name is `output_0`, `output_1`, ... by its position."""
        types = zip(self.output_names, self._plan.output_types, strict=True)
        return {name: type for name, type in types if isinstance(type, TensorType)}

    def run(
        self, inputs: Mapping[str, Array], keep: Keep = None, *, on_value: OnValue | None = None
    ) -> dict[str, Array]:
        """The outputs by name, and the values named in `keep` ("all": every computed one) in order of computation.

        `on_value` is called with every named value once it is computed. Values are freed after their last use.
        """
        values: list[Array | None] = [None] * self._plan.slots
        values[ABSENT_SLOT] = _ABSENT
        self._bind(inputs, values)
        for slot, array in self._weights():
            values[slot] = array
        wanted = self._wanted(keep)
        kept: dict[str, Array] = {}
        names = self._plan.names
        for step in self._plan.steps:
            self._evaluate(step, values)
            for slot in step.results:
                name = names.get(slot)
                array = values[slot]
                if name is None or array is None:
                    continue
                if on_value is not None:
                    on_value(name, array)
                if name in wanted:
                    kept[name] = array
            for slot in step.frees:
                values[slot] = None
        for name, slot in self._plan.outputs:
            array = values[slot]
            assert array is not None
            kept[name] = array
        return kept

    def _wanted(self, keep: Keep) -> Collection[str]:
        if keep is None:
            return ()
        if keep == "all":
            return self._known
        for name in keep:
            if name not in self._known:
                raise InputError(f"value '{name}' is not in this module{_suggestion(name, self._known)}")
        return frozenset(keep)

    def _bind(self, inputs: Mapping[str, Array], values: list[Array | None]) -> None:
        expected = {item.name: item for item in self._plan.inputs}
        for name in inputs:
            if name not in expected:
                raise InputError(f"no input is named '{name}'{_suggestion(name, expected)}")
        for name, item in expected.items():
            if name not in inputs:
                raise InputError(f"input '{name}' is missing; give an array with {_described(item.type)}")
            values[item.slot] = _checked(item, inputs[name])

    def _weights(self) -> list[tuple[int, Array]]:
        """The weights, read at the first run and kept in their stored types."""
        if self._constants is None:
            self._constants = [(slot, self._weight(operation)) for slot, operation in self._plan.constants]
        return self._constants

    def _weight(self, operation: Operation) -> Array:
        try:
            array = as_stored(self._module.weights[operation.name], operation.result.tensor).view()
        except ValueError as error:
            raise InvalidModel(
                f"weight '{operation.name}': {error}; write the module and its weights together again"
            ) from None
        array.setflags(write=False)
        return array

    def _evaluate(self, step: Step, values: list[Array | None]) -> None:
        operation = step.operation
        operands = [_present(values[slot]) for slot in step.operands]
        try:
            with np.errstate(all="ignore"):  # infinities and NaN are results here, not accidents
                results = self._results(step, operands)
        except NotImplementedError as error:
            way_out = "install the package that brings it" if not operation.is_registered else "give it an evaluate"
            _fail(operation, f"{error}; {way_out}", error)
        except (ValueError, TypeError, LookupError, ArithmeticError, AttributeError) as error:
            _fail(operation, f"cannot be evaluated: {error}", error)
        if len(results) != len(step.results):
            _fail(operation, f"its evaluation gives {len(results)} results, it has {len(step.results)}; correct one")
        for slot, value, array in zip(step.results, operation.results, results, strict=True):
            type = value.type
            values[slot] = _as_declared(operation, type, array) if isinstance(type, TensorType) else array

    def _results(self, step: Step, operands: Sequence[Array]) -> Sequence[Array]:
        operation, op = step.operation, step.operation.op
        if not isinstance(op, StructuredOp):
            return op.evaluate(step.node, operands)
        values = (*operation.operands, *operation.captured())
        return op.run(operation, dict(zip(values, operands, strict=True)), self._module)


def _present(array: Array | None) -> Array:
    assert array is not None, "the plan frees values after their last use"
    return array


def _checked(item: Input, array: Array) -> Array:
    shape = item.type.shape
    if shape is not None and not _fits(array.shape, shape):
        raise InputError(f"input '{item.name}' has shape {shown(array.shape)}; give one of {shown(shape)}")
    dtype = numpy_dtype(item.type.storage)
    if array.dtype != dtype:
        raise InputError(
            f"input '{item.name}' has dtype {array.dtype.name}; convert it to {dtype.name}, for example with astype"
        )
    return array


def _as_declared(operation: Operation, type: TensorType, array: Array) -> Array:
    """The result in its declared storage type; a float op may compute in another float type."""
    array = np.asarray(array)
    if type.shape is not None and not _fits(array.shape, type.shape):
        _fail(
            operation, f"its evaluation gives shape {shown(array.shape)}, declared is {shown(type.shape)}; correct one"
        )
    dtype = numpy_dtype(type.storage)
    if array.dtype == dtype:
        return array
    if type.storage.is_float and array.dtype.kind == "f":
        return array.astype(dtype)
    return _fail(operation, f"its evaluation gives {array.dtype.name}, declared is {dtype.name}; correct one")


def _fits(shape: Sequence[int], declared: Sequence[int]) -> bool:
    return len(shape) == len(declared) and all(
        d in (DYNAMIC, extent) for extent, d in zip(shape, declared, strict=True)
    )


def _described(type: TensorType) -> str:
    return f"shape {shown(type.shape)} and dtype {numpy_dtype(type.storage).name}"


def _suggestion(name: str, known: Collection[str]) -> str:
    close = difflib.get_close_matches(name, sorted(known), 1)
    if close:
        return f"; did you mean '{close[0]}'?"
    return f"; there are {', '.join(sorted(known)[:8])}" if known else "; it has none"


def _fail(operation: Operation, reason: str, cause: BaseException | None = None) -> NoReturn:
    error = EvaluationError(f"op '{operation.name}' ({operation.op.name}): {reason}")
    if cause is None:  # it tells more than this
        error.blaming(operation.op, f"{operation.op.name} '{operation.name}': {reason.removesuffix('; correct one')}")
    raise error from cause
