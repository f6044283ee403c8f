"""Values, use lists, blocks, clones and the builder."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tpuc.errors import InvalidModel
from tpuc.ir.builder import Builder
from tpuc.ir.builtin import Return
from tpuc.ir.dtypes import numpy_dtype, scalar_of
from tpuc.ir.operation import Block, Function, Module, Operation, Value
from tpuc.ir.text import parse_module
from tpuc.ir.types import BF16, DYNAMIC, F32, I8, U8, FunctionType, NoneType, OpaqueType, ScalarType, TensorType
from tpuc.ir.weights import Weights
from tpuc_testing.equality import same_module

from tests.core.ir.ops import Add, Everything, Input, MatMul, Nothing, Relu, Split, Weight, resolve
from tests.core.ir.test_text import GROUPED

X = TensorType((2, 4), F32)


def network() -> tuple[Module, Builder]:
    """An empty `main` of one argument, and a builder at its end."""
    body = Block([X])
    module = Module("m", functions=[Function("main", FunctionType((X,), ()), body)])
    return module, Builder(module, body, constant=Weight(), absent=Nothing())


def finished() -> Module:
    """`relu(x @ w)`, returned."""
    module, build = network()
    x = build(Input(), [module.main.inputs[0]], name="x")
    w = build.weight("w", np.ones((4, 3), np.float32))
    y = build(Relu(), [build(MatMul(), [x, w, build.none()], name="mm")], name="y")
    build.operation(Return(), [y], ())
    module.main.update_type()
    return module


def test_the_builder_infers_types_and_names_values() -> None:
    module = finished()
    y = module.main.outputs[0]
    assert (y.name, y.type) == ("y", TensorType((2, 3), F32))
    assert module.main.type == FunctionType((X,), (TensorType((2, 3), F32),))
    assert module.weights["w"].shape == (4, 3)
    assert [operation.name for operation in module.main.operations] == ["x", "w", "", "mm", "y", ""]
    module.verify()


def test_the_builder_inserts_before_and_takes_ops_from_the_module() -> None:
    module = finished()
    build = Builder(module)
    build.at(module.main.terminator)
    w = build.weight("w", np.zeros((3,), np.int8), "si8")
    assert (w.name, w.type) == ("w_1", TensorType((3,), ScalarType("si8")))
    assert isinstance(build.none().type, NoneType)
    halves = build.build_many(
        Split(), [module.main.outputs[0]], [TensorType((2, 1), F32), TensorType((2, 2), F32)], "s"
    )
    assert [value.name for value in halves] == ["s", "s_r1"]
    assert module.main.operations[-1] is module.main.terminator


def test_the_builder_says_what_it_lacks() -> None:
    module, build = network()
    x = module.main.inputs[0]
    with pytest.raises(InvalidModel, match=r"op 'a' \(t\.Add\): its result types cannot be inferred; state them"):
        build(Add(), [x, x], name="a")
    w = build.weight("w", np.ones((5, 3), np.float32))
    with pytest.raises(InvalidModel, match=r"op 'm' \(t\.MatMul\): inner extents 4 and 5 differ"):
        build(MatMul(), [x, w, build.none()], name="m")
    with pytest.raises(ValueError, match="the module has no constant to take the op from; give it to the builder"):
        Builder(Module("empty")).weight("w", np.ones(1))
    with pytest.raises(ValueError, match="the builder has no insertion point; call at_end_of or at first"):
        Builder(module).operation(Return(), (), ())


def test_use_lists_follow_operands() -> None:
    module = finished()
    x, _, _, mm, relu, end = module.main.operations
    assert list(mm.result.uses) == [(relu, 0)]
    relu.set_operand(0, x.result)
    assert mm.result.users == []
    assert x.result.users == [mm, relu]
    relu.result.replace_with(x.result)
    assert end.operands == (x.result,)
    assert x.result.uses[-1] == (end, 0)
    with pytest.raises(ValueError, match="operation 'x' is still used"):
        x.erase()
    relu.erase()
    assert relu.block is None
    assert relu not in module.main.operations


def test_an_erased_group_lets_go_of_what_it_used_inside() -> None:
    module = parse_module(GROUPED, resolve)
    part = module.modules[0].functions[1]
    group = part.operations[0]
    for result in group.results:
        result.replace_with(part.inputs[0])
    group.erase()
    assert {user.op.name for user in part.inputs[0].users} == {"t.Relu", "func.return"}


def test_twenty_thousand_insertions_and_removals_keep_their_order() -> None:
    block = Block()
    anchors = [block.append(Operation(Relu(), (), (X,))) for _ in range(10_000)]
    for anchor in anchors:
        block.insert_before(anchor, Operation(Add(), (), (X,)))
    for anchor in reversed(anchors):
        block.insert_after(anchor, Operation(Split(), (), (X,)))
    assert [operation.op.name for operation in block.operations] == ["t.Add", "t.Relu", "t.Split"] * 10_000
    for anchor in anchors:
        anchor.erase()
    assert [operation.op.name for operation in block.operations] == ["t.Add", "t.Split"] * 10_000
    with pytest.raises(ValueError, match="operation '' is not in this block"):
        block.position(anchors[0])


def test_one_value_with_many_users_is_released_quickly_and_in_order() -> None:
    value = Block([X]).arguments[0]
    users = [Operation(Relu(), (value,), (X,)) for _ in range(20_000)]
    other = Block([X]).arguments[0]
    value.replace_with(other)
    assert len(value.uses) == 0
    assert other.users == users


def test_a_clone_is_equal_and_shares_nothing_but_arrays() -> None:
    module = parse_module(GROUPED, resolve)
    module.weights["w"] = np.ones(3)
    copy = module.clone()
    assert same_module(module, copy)
    originals: set[Operation | Value] = {
        *module.walk(),
        *(v for op in module.walk() for v in (*op.results, *op.operands)),
    }
    assert not originals & {*copy.walk(), *(v for op in copy.walk() for v in (*op.results, *op.operands))}
    copy.weights["v"] = np.ones(1)
    assert list(module.weights) == ["w"]
    assert copy.weights["w"] is module.weights["w"]
    copy.verify()


def test_element_types_and_dtypes() -> None:
    pairs = {
        "i8": "int8",
        "ui8": "uint8",
        "si32": "int32",
        "i4": "int8",
        "i1": "bool",
        "f16": "float16",
        "index": "int64",
    }
    assert {name: numpy_dtype(ScalarType(name)).name for name in pairs} == pairs
    assert numpy_dtype(U8) == np.uint8
    assert numpy_dtype(BF16).name == "bfloat16"
    assert scalar_of(np.dtype("int8")) == I8
    assert scalar_of(np.dtype("uint16")) == ScalarType("ui16")
    assert scalar_of(numpy_dtype(BF16)) == BF16
    with pytest.raises(
        InvalidModel, match="elements of type f80 cannot be held in an array; convert them to f32 first"
    ):
        numpy_dtype(ScalarType("f80"))
    with pytest.raises(InvalidModel, match="arrays of str96 have no element type; convert them to float32 first"):
        scalar_of(np.dtype("U3"))


def test_values_that_are_no_tensors_say_so() -> None:
    module, build = network()
    with pytest.raises(TypeError, match="value '' is not a tensor"):
        _ = build.none().tensor
    assert module.main.inputs[0].tensor == X
    assert Everything(1, ()) == Everything(1, ())


def test_weights_are_read_when_needed_and_filtered_then(tmp_path: Path) -> None:
    written = Weights()
    for name in ("a", "b", "c"):
        written[name] = np.ones(1)
    written.save(tmp_path / "w.npz")
    weights = Weights(tmp_path / "w.npz")
    weights.keep_only({"a", "b"})
    weights.keep_only({"b", "c"})
    copy = weights.copy()
    assert not weights.is_loaded
    assert list(weights) == list(copy) == ["b"]
    weights["c"] = np.ones(2)
    weights.keep_only({"c"})
    assert list(weights) == ["c"]
    with pytest.raises(
        InvalidModel, match=r"weight 'b' is missing in .*w\.npz: the npz does not belong to this module"
    ):
        _ = weights["b"]
    with pytest.raises(InvalidModel, match=r"no\.npz: no such npz"):
        _ = Weights(tmp_path / "no.npz")["a"]


def test_questions_that_a_type_cannot_answer() -> None:
    with pytest.raises(ValueError, match=r"^the shape of this tensor is not static$"):
        _ = TensorType((2, DYNAMIC), F32).dims
    with pytest.raises(ValueError, match=r"^the shape of this tensor is not static$"):
        _ = TensorType(None, F32).rank
    with pytest.raises(ValueError, match=r"^elements of type !acme\.half have no known storage$"):
        _ = TensorType((2,), OpaqueType("acme.half")).storage
    with pytest.raises(ValueError, match=r"^this tensor has no per-tensor quantization$"):
        _ = TensorType((2,), F32).uniform
