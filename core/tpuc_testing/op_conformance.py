"""What every op promises, checked against another source of truth by inheriting one class."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt
from tpuc.ir.dtypes import numpy_dtype, scalar_of
from tpuc.ir.op import ABSENT, Node, Op, op_fields
from tpuc.ir.text import attributes_of, parse_attribute, print_attribute
from tpuc.ir.text.fields import op_from_attributes
from tpuc.ir.types import ElementType, ScalarType, TensorType, Uniform
from tpuc.registry import Registry

from tpuc_testing.families import run_all

Array: TypeAlias = npt.NDArray[Any]
Reference: TypeAlias = "Callable[..., Array | Sequence[Array]]"
"""Called with the operands of a sample, one by one; absent ones are empty arrays."""

Check: TypeAlias = "Callable[[Any], None]"

_NAME = re.compile(r"[a-z][a-z0-9_]*\.[A-Z][A-Za-z0-9]*")


@dataclass(frozen=True)
class Typed:
    """An operand whose type says more than its dtype does."""

    array: Array
    type: TensorType


Operand: TypeAlias = "Array | Typed | None"
"""An array, an array with its type, or None for an optional operand that is not there."""


def _check(method: Check) -> Check:
    """A check that `test_op` runs, so that pytest does not collect it as a test of its own."""
    setattr(method, "__test__", False)  # noqa: B010  # functions have any attribute
    return method


class OpConformance:
    """Inherit, and state `op`, `reference`, `samples` and `flops`; `test_op` then checks everything an op promises.

    It runs all checks and names each one that fails. A subclass may override a single check: its method is then a
    test of its own, with fixtures and marks as it likes.

    `samples` are lists of operands. `flops` are the arithmetic operations that each element of the first result takes,
    or a tuple of those that each sample takes. `result` is the element type of the results where the op cannot infer
    it. Integers must be equal; floats within `rtol` and `atol`, whose defaults allow for another order of summation.
    """

    op: ClassVar[Op]
    reference: ClassVar[Reference]
    samples: ClassVar[Sequence[Sequence[Operand]]]
    flops: ClassVar[int | tuple[int, ...]]
    result: ClassVar[ElementType | None] = None
    rtol: ClassVar[float] = 1e-5
    atol: ClassVar[float] = 1e-6

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        check_stated(cls, "op", "reference", "samples", "flops")

    def test_op(self) -> None:
        methods = {name: getattr(self, name) for name in dir(OpConformance) if name.startswith("test_")}
        run_all({name: method for name, method in methods.items() if not getattr(method, "__test__", True)})

    @_check
    def test_evaluate_equals_the_reference(self) -> None:
        for number, sample in enumerate(self.samples):
            for found, expected in zip(*self._both(sample), strict=True):
                what = f"sample {number} of {self.op!r}"
                assert found.shape == expected.shape, what
                if found.dtype.kind in "iub":
                    np.testing.assert_array_equal(found, expected, what)
                else:
                    found, expected = found.astype(np.float64), expected.astype(np.float64)
                    np.testing.assert_allclose(found, expected, self.rtol, self.atol, err_msg=what)

    @_check
    def test_infer_agrees_with_evaluate(self) -> None:
        for number, sample in enumerate(self.samples):
            arrays, types = operands_of(sample)
            inferred = self.op.infer(types)
            results = self.op.evaluate(self.node(sample), arrays)
            for type, array in zip(inferred or (), results, strict=inferred is not None):
                what = f"sample {number} of {self.op!r}"
                assert array.shape == type.shape, what
                if self.result is None:
                    assert array.dtype == numpy_dtype(type.storage), what

    @_check
    def test_evaluate_leaves_its_operands_alone(self) -> None:
        for sample in self.samples:
            arrays, _ = operands_of(sample)
            before = [array.copy() for array in arrays]
            self.op.evaluate(self.node(sample), arrays)
            for array, copy in zip(arrays, before, strict=True):
                np.testing.assert_array_equal(array, copy)

    @_check
    def test_flops_are_those_of_the_formula(self) -> None:
        nodes = [self.node(sample) for sample in self.samples]
        found = [self.op.flops(node) for node in nodes]
        expected = self.flops
        if isinstance(expected, int):
            expected = tuple(expected * node.result_types[0].size for node in nodes)
        definition = type(self.op)
        has_flops = definition.flops is not Op.flops or not any(expected)
        assert has_flops, f"{self.op.name} ({definition.__module__}) has no `flops`; add one"
        assert found == list(expected), f"flops of {self.op!r}: {found}, the formula says {list(expected)}"
        assert all(type(count) is int for count in found)

    @_check
    def test_attributes_round_trip_through_text(self) -> None:
        text = {name: print_attribute(attribute) for name, attribute in attributes_of(self.op).items()}
        parsed = {name: parse_attribute(attribute) for name, attribute in text.items()}
        assert op_from_attributes(type(self.op), parsed) == (self.op, {})

    @_check
    def test_definition_is_frozen_named_and_documented(self) -> None:
        cls = type(self.op)
        own = vars(cls)
        assert own["__dataclass_params__"].frozen
        assert not own["__doc__"].startswith(f"{cls.__name__}("), "the docstring is the generated one"
        assert _NAME.fullmatch(cls.name), cls.name
        fields = {field.name: getattr(self.op, field.name) for field in op_fields(cls)}
        assert hash(self.op) == hash(cls(**fields))

    @_check
    def test_the_dialect_has_it_under_its_name(self) -> None:
        registered = Registry().resolve_op(self.op.name)
        assert registered is not None, f"no installed dialect has {self.op.name}; add it to the package's `Dialect`"
        assert registered is type(self.op), f"{self.op.name} is {registered.__module__}.{registered.__qualname__}"

    def node(self, sample: Sequence[Operand]) -> Node:
        """The op on that sample, with inferred result types, or those that the reference gives."""
        _, types = operands_of(sample)
        inferred = self.op.infer(types)
        if inferred is None:
            inferred = tuple(TensorType(array.shape, scalar_of(array.dtype)) for array in self._expected(sample))
        if self.result is not None:
            inferred = tuple(type.with_element(self.result) for type in inferred)
        return Node(self.op, types, inferred, "conformance")

    def _both(self, sample: Sequence[Operand]) -> tuple[list[Array], list[Array]]:
        arrays, _ = operands_of(sample)
        return list(self.op.evaluate(self.node(sample), arrays)), self._expected(sample)

    def _expected(self, sample: Sequence[Operand]) -> list[Array]:
        arrays, _ = operands_of(sample)
        reference: Any = inspect.getattr_static(self, "reference")
        if isinstance(reference, staticmethod):
            reference = reference.__func__
        expected: Array | Sequence[Array] = reference(*arrays)
        return [expected] if isinstance(expected, (np.ndarray, np.generic)) else list(expected)


def check_stated(definition: type[Any], *names: str) -> None:
    """Raise TypeError for a class of tests that leaves one of its statements out, or states no samples."""
    if not definition.__name__.startswith("Test"):
        return
    missing = [name for name in names if not hasattr(definition, name)]
    if missing:
        raise TypeError(f"{definition.__name__} must state {', '.join(missing)}")
    if "samples" in names and not len(definition.samples):
        raise TypeError(f"{definition.__name__}.samples is empty, so nothing would be tested; state at least one")


def operands_of(sample: Sequence[Operand]) -> tuple[list[Array], tuple[TensorType, ...]]:
    """Arrays and types as `evaluate` gets them."""
    arrays: list[Array] = []
    types: list[TensorType] = []
    for operand in sample:
        match operand:
            case None:
                arrays.append(np.zeros(0, np.float32))
                types.append(ABSENT)
            case Typed(array=array, type=type):
                arrays.append(array)
                types.append(type)
            case array:
                arrays.append(array)
                types.append(TensorType(array.shape, scalar_of(array.dtype)))
    return arrays, tuple(types)


def f32(*values: npt.ArrayLike) -> Array:
    """float32 values: a vector, or what one nested list says."""
    return np.asarray(values[0] if len(values) == 1 and np.ndim(values[0]) else values, np.float32)


def zeros(*shape: int) -> Array:
    """A float32 tensor of zeros."""
    return np.zeros(shape, np.float32)


def uniform(*shape: int, low: float = -1.0, high: float = 1.0, seed: int = 0) -> Array:
    """A float32 tensor of evenly spread values, the same in every run."""
    return np.random.default_rng([seed, *shape]).uniform(low, high, shape).astype(np.float32)


def integers(*shape: int, dtype: str = "int8", seed: int = 0) -> Array:
    """An integer tensor over the whole range of its type, the same in every run."""
    limits = np.iinfo(dtype)
    return np.random.default_rng([seed, *shape]).integers(limits.min, limits.max, shape, dtype, endpoint=True)


def quantized(array: Array, scale: float, zero_point: int = 0) -> Typed:
    """An operand that stores integers of that scale."""
    return Typed(array, TensorType(array.shape, quantized_element(array.dtype.name, scale, zero_point)))


def quantized_element(dtype: str, scale: float, zero_point: int = 0) -> Uniform:
    """The element type of such integers, spelled as MLIR does inside a quantized type."""
    storage = dtype.replace("uint", "u").replace("int", "i")
    return Uniform(ScalarType(storage), ScalarType("f32"), scale, zero_point)


@dataclass(frozen=True, eq=False)
class OnnxNode:
    """A reference: one node, run by the reference implementation of ONNX."""

    op_type: str
    attributes: dict[str, Any]
    inputs: Sequence[int | Array] | None
    outputs: int

    def __call__(self, *operands: Array) -> Sequence[Array]:
        from onnx import TensorProto, helper
        from onnx.reference import ReferenceEvaluator

        chosen = self.inputs if self.inputs is not None else range(len(operands))
        arrays = [operands[item] if isinstance(item, int) else item for item in chosen]
        names = [f"x{index}" if array.shape != (0,) else "" for index, array in enumerate(arrays)]
        results = [f"y{index}" for index in range(self.outputs)]
        node = helper.make_node(self.op_type, names, results, **self.attributes)
        float_type = TensorProto.FLOAT
        graph = helper.make_graph(
            [node],
            "reference",
            [
                helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
                for name, array in zip(names, arrays, strict=True)
                if name
            ],
            [helper.make_tensor_value_info(name, float_type, None) for name in results],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self._opset())])
        feeds = {name: array for name, array in zip(names, arrays, strict=True) if name}
        evaluator: Any = ReferenceEvaluator(model)
        return [np.asarray(result) for result in evaluator.run(None, feeds)]

    def _opset(self) -> int:
        """The newest opset in which the operator has all these attributes."""
        from onnx import defs

        version = defs.onnx_opset_version()
        while version > 0:
            schema = defs.get_schema(self.op_type, version, "")
            if set(self.attributes) <= set(schema.attributes):
                return version
            version = schema.since_version - 1
        raise ValueError(f"no version of {self.op_type} has all of {', '.join(sorted(self.attributes))}")


def onnx_node(
    op_type: str, /, *, inputs: Sequence[int | Array] | None = None, outputs: int = 1, **attributes: Any
) -> OnnxNode:
    """The ONNX operator as reference.

    `inputs` where its inputs are not the op's operands in order: a number is the operand of that index, an array is a
    constant.
    """
    return OnnxNode(op_type, attributes, inputs, outputs)
