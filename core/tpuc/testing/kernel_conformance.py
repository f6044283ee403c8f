"""What every kernel promises: the instructions compute what the op's `evaluate` says, however the op is tiled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt

from tpuc.interpreter import Interpreter
from tpuc.ir import Block, DictAttr, Function, FunctionType, IntegerAttr, Module, Op, Operation, Return, TensorType, Value
from tpuc.ir.builder import Builder
from tpuc.ir.dtypes import scalar_of
from tpuc.ir.types import ElementType, ScalarType
from tpuc.registry import Registry
from tpuc.schedule import PassContext, PassManager
from tpuc.testing.op_conformance import Typed

Array: TypeAlias = npt.NDArray[Any]
Sizes: TypeAlias = Mapping[str, int]

FLOAT_BOUND = 1e-4
"""Of the tensor's range, for f32 results of identical inputs (DESIGN 5)."""

_TILING = "tiling"


@dataclass(frozen=True, eq=False)
class Fixed:
    """A constant operand; `element` where the dtype does not say it (`si8`)."""

    array: Array
    element: str | None = None


Operand: TypeAlias = "Array | Typed | Fixed | None"
"""A computed operand, one with a type of its own, a constant, or None for one that is not there."""


@dataclass(frozen=True, eq=False)
class Sample:
    """One op on given operands.

    `result`: element type, or whole type, where the op does not infer it. Besides the tiling that the compiler chooses,
    the op is compiled under each of `tilings`: tile sizes by axis, the others as chosen.
    """

    op: Op
    operands: Sequence[Operand]
    result: ElementType | TensorType | None = None
    tilings: Sequence[Sizes] = ()


@dataclass(frozen=True, eq=False)
class CompiledKernels:
    """Samples in one file: every result is an output."""

    module: Module
    data: bytes
    inputs: Mapping[str, Array]

    def expected(self) -> dict[str, Array]:
        """What the interpreter computes."""
        return Interpreter(self.module).run(self.inputs)

    def compare(self, got: Mapping[str, Array]) -> dict[str, float]:
        """Assert that outputs equal `expected`: integers in all bits, floats within the bound.

        Returns the largest error of each float, as a part of its tensor's range.
        """
        errors: dict[str, float] = {}
        wanted = self.expected()
        assert wanted, "there is nothing to compare"
        for name, reference in wanted.items():
            found = got[name].reshape(reference.shape)
            if reference.dtype.kind in "iu":
                count = np.count_nonzero(found != reference)
                assert not count, f"{name}: {count} of {reference.size} integers differ"
                continue
            errors[name] = float_error(found, reference)
            assert errors[name] <= FLOAT_BOUND, f"{name}: {errors[name]:.3g} of its range"
        return errors


def float_error(found: Array, reference: Array) -> float:
    """The largest difference as a part of the reference's range; infinities must be the same ones."""
    finite = np.isfinite(reference)
    if not np.array_equal(found[~finite], reference[~finite], equal_nan=True):
        return np.inf
    values = reference[finite].astype(np.float64)
    if not values.size:
        return 0.0
    spread = max(float(values.max() - values.min()), float(np.abs(values).max()) * 1e-3, 1e-30)
    return float(np.abs(found[finite] - values).max()) / spread


class KernelConformance:
    """Inherit, and state `chip` and `samples`: lists of operands for ops under several tilings."""

    chip: ClassVar[str]
    samples: ClassVar[Mapping[str, Sample]]

    def test_the_simulator_equals_the_evaluation(self) -> None:
        registry = Registry()
        compiled = compile_kernels(self.samples, self.chip, registry)
        loaded = registry.get("tpuc.chips", self.chip).load(compiled.data, type(self).__name__)
        compiled.compare(loaded.run(compiled.inputs))


@dataclass
class _Assembly:
    """A module under construction."""

    registry: Registry
    module: Module = field(default_factory=lambda: Module("kernels"))
    body: Block = field(default_factory=lambda: Block([]))
    inputs: dict[str, Array] = field(default_factory=dict[str, Array])
    results: list[Value] = field(default_factory=list[Value])
    tilings: dict[str, Sizes] = field(default_factory=dict[str, Sizes])

    def __post_init__(self) -> None:
        self._absent: Value | None = None
        weight, none = self._op("top.Weight"), self._op("top.None")
        self.build = Builder(self.module, self.body, constant=weight, absent=none)
        self._input = self._op("top.Input")

    def _op(self, name: str) -> Op:
        definition = self.registry.resolve_op(name)
        assert definition is not None, f"no installed dialect has {name}"
        return definition()

    def add(self, name: str, sample: Sample) -> None:
        """All operations of a sample."""
        operands = [self._operand(f"{name}_x{index}", operand) for index, operand in enumerate(sample.operands)]
        for number, sizes in enumerate(({}, *sample.tilings)):
            label = f"{name}_{number}" if number else name
            if sizes:
                self.tilings[label] = sizes
            self.results.append(self.build(sample.op, operands, self._result(sample, operands), label))

    def _result(self, sample: Sample, operands: Sequence[Value]) -> TensorType | None:
        if sample.result is None or isinstance(sample.result, TensorType):
            return sample.result
        types = tuple(v.type if isinstance(v.type, TensorType) else TensorType((0,), ScalarType("f32")) for v in operands)
        inferred = sample.op.infer(types)
        dims = inferred[0].dims if inferred is not None else types[0].dims
        return TensorType(dims, sample.result)

    def _operand(self, name: str, operand: Operand) -> Value:
        match operand:
            case None:
                self._absent = self._absent or self.build.none()
                return self._absent
            case Fixed(array=array, element=element):
                return self.build.weight(name, array, element)
            case Typed(array=array, type=type):
                pass
            case array:
                type = TensorType(array.shape, scalar_of(array.dtype))
        self.inputs[name] = array
        return self.build(self._input, [self.body.add_argument(type)], type, name)

    def finish(self) -> Module:
        """The verified module."""
        self.body.append(Operation(Return(), self.results))
        function = Function("main", FunctionType((), ()), self.body)
        function.update_type()
        self.module.functions.append(function)
        self.module.verify()
        return self.module


def compile_kernels(samples: Mapping[str, Sample], chip: str, registry: Registry | None = None) -> CompiledKernels:
    """All samples in one file of the chip, through the passes that every network goes through."""
    registry = registry if registry is not None else Registry()
    assembly = _Assembly(registry)
    for name, sample in samples.items():
        assembly.add(name, sample)
    module = assembly.finish()
    context = PassContext(registry, registry.get("tpuc.chips", chip), {})
    manager = PassManager(context)
    manager.run(module, ["group-layers"], "finalize")
    for operation in module.main.operations:
        chosen = operation.extra_attributes.get(_TILING)
        sizes = assembly.tilings.get(operation.name)
        if isinstance(chosen, DictAttr) and sizes is not None:
            operation.extra_attributes[_TILING] = _forced(chosen, sizes)
    manager.run(module, ["pack-weights", "assign-addresses"], "finalize")
    manager.run(module, ["generate-code"], "generate")
    return CompiledKernels(module, context.results["artifact"], assembly.inputs)


def _forced(chosen: DictAttr, sizes: Sizes) -> DictAttr:
    unknown = set(sizes) - {name for name, _ in chosen.items}
    assert not unknown, f"the op has no axes {sorted(unknown)}"
    return DictAttr(tuple((name, IntegerAttr(sizes[name]) if name in sizes else size) for name, size in chosen.items))
