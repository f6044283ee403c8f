"""What every kernel promises: the instructions compute what the op's `evaluate` says, however the op is tiled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt
from tpuc.interpreter import Interpreter
from tpuc.ir import ABSENT, Block, Function, FunctionType, Module, Op, Operation, Return, TensorType, Value
from tpuc.ir.builder import Builder
from tpuc.ir.dtypes import scalar_of
from tpuc.ir.types import ElementType
from tpuc.registry import Registry
from tpuc.schedule import PassContext, PassManager
from tpuc.schedule.results import ARTIFACT

from tpuc_testing.op_conformance import Typed, check_stated

Array: TypeAlias = npt.NDArray[Any]
Sizes: TypeAlias = Mapping[str, int]

FLOAT_BOUND = 1e-4
"""Of the tensor's range, for f32 results of identical inputs: chips add in another order than numpy."""

FLOAT_BOUNDS = {"float32": FLOAT_BOUND, "float16": 1e-3, "bfloat16": 2.0**-7}
"""The same by dtype."""


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
        wanted = self.expected()
        assert wanted, "there is nothing to compare"
        errors = {name: check_array(name, got[name], reference) for name, reference in wanted.items()}
        return {name: error for name, error in errors.items() if wanted[name].dtype.kind not in "iu"}


def check_array(name: str, got: Array, reference: Array) -> float:
    """Assert that an output equals its reference: integers in all bits, floats within the bound.

    Returns the largest error as a part of the reference's range.
    """
    found = as_stored(got, reference)
    if reference.dtype.kind in "iu":
        count = np.count_nonzero(found != reference)
        assert not count, f"{name}: {count} of {reference.size} integers differ"
        return 0.0
    error = float_error(found, reference)
    assert error <= FLOAT_BOUNDS[reference.dtype.name], f"{name}: {error:.3g} of its range"
    return error


def as_stored(got: Array, reference: Array) -> Array:
    """An output in shape and dtype of its reference: runtimes give bf16 and unsigned bytes as their bits."""
    found = got.reshape(reference.shape)
    if found.dtype != reference.dtype and found.dtype.itemsize == reference.dtype.itemsize:
        return found.view(reference.dtype)
    return found


def float_error(found: Array, reference: Array) -> float:
    """The largest difference as a part of the reference's range; infinities must be the same ones."""
    found, reference = found.astype(np.float64), reference.astype(np.float64)
    finite = np.isfinite(reference)
    if not np.array_equal(found[~finite], reference[~finite], equal_nan=True):
        return np.inf
    values = reference[finite]
    if not values.size:
        return 0.0
    spread = max(float(values.max() - values.min()), float(np.abs(values).max()) * 1e-3, 1e-30)
    return float(np.abs(found[finite] - values).max()) / spread


class KernelConformance:
    """Inherit, and state `chip` and `samples`: by name, ops on operands, each under several tilings."""

    chip: ClassVar[str]
    samples: ClassVar[Mapping[str, Sample]]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        check_stated(cls, "chip", "samples")

    def test_the_simulator_equals_the_evaluation(self) -> None:
        registry = Registry()
        compiled = compile_kernels(self.samples, self.chip, registry)
        loaded = registry.get("tpuc.chips", self.chip).load(compiled.data, type(self).__name__)
        compiled.compare(loaded.run(compiled.inputs))

    def test_the_same_input_gives_the_same_bytes(self) -> None:
        for name, sample in self.samples.items():
            first, second = (compile_kernels({name: sample}, self.chip).data for _ in range(2))
            whose = _provider(sample.op, self.chip)
            assert first == second, (
                f"{name}: two compilations of {sample.op.name} differ; correct the kernel of {whose}"
            )


def _provider(op: Op, chip: str) -> str:
    """The package whose kernel runs an op on a chip."""
    registry = Registry()
    owners = registry.get("tpuc.chips", chip).description.owners
    cell = registry.find_cell("tpuc.kernels", owners, op.name.partition(".")[0], op.name)
    return "nobody" if cell is None else cell.offer.provider


class _Assembly:
    """A module of samples, under construction."""

    def __init__(self, registry: Registry, samples: Mapping[str, Sample]) -> None:
        self._registry = registry
        self.module = Module("kernels")
        self.inputs: dict[str, Array] = {}
        self.tilings: dict[str, Sizes] = {}
        types: dict[str, TensorType] = {}
        for name, sample in samples.items():
            for index, operand in enumerate(sample.operands):
                if isinstance(operand, (Typed, np.ndarray)):
                    label = f"{name}_x{index}"
                    typed = operand if isinstance(operand, Typed) else Typed(operand, _plain_type(operand))
                    self.inputs[label], types[label] = typed.array, typed.type
        self._body = Block(list(types.values()))
        self._build = Builder(self.module, self._body, constant=self._op("top.Weight"), absent=self._op("top.None"))
        self._values = {
            label: self._build(self._op("top.Input"), [argument], argument.type, label)
            for label, argument in zip(types, self._body.arguments, strict=True)
        }
        self._results: list[Value] = []
        for name, sample in samples.items():
            self._add(name, sample)
        self._finish()

    def _op(self, name: str) -> Op:
        definition = self._registry.resolve_op(name)
        assert definition is not None, f"no installed dialect has {name}"
        return definition()

    def _add(self, name: str, sample: Sample) -> None:
        operands = [self._operand(f"{name}_x{index}", operand) for index, operand in enumerate(sample.operands)]
        for number, sizes in enumerate(({}, *sample.tilings)):
            label = f"{name}_{number}" if number else name
            if sizes:
                self.tilings[label] = sizes
            self._results.append(self._build(sample.op, operands, self._result(sample, operands), label))

    def _result(self, sample: Sample, operands: Sequence[Value]) -> TensorType | None:
        if sample.result is None or isinstance(sample.result, TensorType):
            return sample.result
        types = tuple(value.type if isinstance(value.type, TensorType) else ABSENT for value in operands)
        inferred = sample.op.infer(types)
        dims = inferred[0].dims if inferred is not None else types[0].dims
        return TensorType(dims, sample.result)

    def _operand(self, label: str, operand: Operand) -> Value:
        match operand:
            case None:
                return self._build.none()
            case Fixed(array=array, element=element):
                return self._build.weight(label, array, element)
            case _:
                return self._values[label]

    def _finish(self) -> None:
        self._body.append(Operation(Return(), self._results))
        function = Function("main", FunctionType((), ()), self._body)
        function.update_type()
        self.module.functions.append(function)
        self.module.verify()


def _plain_type(array: Array) -> TensorType:
    return TensorType(array.shape, scalar_of(array.dtype))


def sample_module(samples: Mapping[str, Sample], registry: Registry) -> tuple[Module, dict[str, Array]]:
    """A verified module of samples of any dialect, and its inputs: `<sample>_x<operand>`."""
    assembly = _Assembly(registry, samples)
    return assembly.module, assembly.inputs


def compile_kernels(
    samples: Mapping[str, Sample], chip: str, registry: Registry | None = None, *, opt: int | None = None
) -> CompiledKernels:
    """All samples in one file of the chip, through the passes that every network goes through; `opt`: how it is
    planned, as usual where it is not given.
    """
    registry = registry if registry is not None else Registry()
    assembly = _Assembly(registry, samples)
    module = assembly.module
    options = {"tilings": assembly.tilings, "is_test": True, "opt": opt}
    context = PassContext(registry, registry.get("tpuc.chips", chip), options)
    manager = PassManager(context)
    manager.run_pipeline("finalize", module)
    manager.run(module, ["generate-code"], "generate")
    return CompiledKernels(module, context.result(ARTIFACT), assembly.inputs)
