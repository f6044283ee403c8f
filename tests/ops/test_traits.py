"""Which ops state each trait: the tables of ops that passes had of their own before there were traits."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from tpuc.api import Dialect, Op
from tpuc_ops import top, tpu
from tpuc_ops import traits as t
from tpuc_ops.quantized import Product

RESHAPES = "Flatten Reshape Squeeze Unsqueeze"
MOVES = f"{RESHAPES} Depth2Space Permute Slice Split Tile Upsample"

TABLES: Mapping[type, str] = {
    t.Bounded: "Clip Erf HardSigmoid Relu Sigmoid Softmax Softsign Tanh",
    t.ChoosesElements: "Concat Max Min",
    t.CommutesWithRounding: f"{MOVES} Clip Gather MaxPool Relu",
    t.ComputedInFloat: "Div Gather LSTM LayerNorm Softmax",
    t.Concatenates: "Concat",
    t.Differentiable: "Add AvgPool Conv Deconv MatMul MaxPool Mul PRelu Reduce Relu Scale Softmax Sub",
    t.ExtractsFeatures: "AvgPool Conv Deconv Interp LSTM MatMul MaxPool Upsample",
    t.FallsThenRises: "GELU HardSwish Mish SiLU",
    t.Homogeneous: "AvgPool LeakyRelu MaxPool PRelu Relu",
    t.KeepsGrid: f"{MOVES} MaxPool Pad Relu",
    t.KeepsRange: f"{MOVES} Abs LeakyRelu MaxConst MaxPool MinConst PRelu Pad Relu",
    t.KeepsSign: "Abs Add AddConst AvgPool MaxConst MaxPool MinConst Mul MulConst Sub SubConst",
    t.MovesElements: f"{MOVES} Gather",
    t.NoLarger: f"{RESHAPES} AvgPool Concat Depth2Space MaxPool Permute Relu Slice Split Tile Upsample",
    t.PicksElements: f"{MOVES} Gather MaxPool",
    t.ReadsIndices: "Gather GatherElements GatherND ScatterElements ScatterND",
    t.Rearranges: MOVES,
    t.Reorders: f"{RESHAPES} Permute",
    t.Repeats: "Tile",
    t.Reshapes: RESHAPES,
    t.RowByRow: "AvgPool Conv MaxPool Scale",
    t.StridedView: f"{RESHAPES} Permute Slice",
    t.TakesResultRange: f"{RESHAPES} Abs Depth2Space LeakyRelu MaxPool PRelu Permute Relu",
    t.Traceable: f"{MOVES} Concat Pad",
    Product: "Conv Deconv MatMul",
}
"""By trait, the ops of TOP that state it. `NoLarger` finds one more than its table had: Tile, which was forgotten."""

BELOW_ZERO = {
    "cut": "Relu",
    "sloped": "LeakyRelu PRelu",
    "mirrored": "Abs",
    "kept": f"{RESHAPES} Depth2Space MaxPool Permute",
}


def stating(dialect: Dialect, trait: type) -> list[type[Op]]:
    found = [dialect.op(name) for name in dialect.names()]
    return [op for op in found if op is not None and issubclass(op, trait)]


def names(ops: list[type[Op]]) -> list[str]:
    return sorted(op.name.partition(".")[2] for op in ops)


def test_every_trait_has_its_table() -> None:
    stated = {one for one in vars(t).values() if isinstance(one, type) and one.__module__ == t.__name__}
    assert stated == TABLES.keys() - {Product}


def test_ops_state_what_the_tables_of_passes_said() -> None:
    found = {trait.__name__: names(stating(top.DIALECT, trait)) for trait in TABLES}
    assert found == {trait.__name__: sorted(table.split()) for trait, table in TABLES.items()}


def test_lowered_ops_state_what_moves_pixels() -> None:
    assert names(stating(tpu.DIALECT, t.StridedView)) == ["Permute", "Reshape", "Slice"]


def test_lowered_ops_state_what_keeps_images_apart() -> None:
    found = names(stating(tpu.DIALECT, t.RowByRow))
    assert found == ["Cast", "Conv2D", "Deconv", "Pool2D", "Scale", "Upsample"]


def test_what_becomes_of_numbers_below_zero() -> None:
    for kind, table in BELOW_ZERO.items():
        ops = [op for op in stating(top.DIALECT, t.TakesResultRange) if getattr(op, "below_zero", "") == kind]
        assert names(ops) == sorted(table.split()), kind


def test_the_trait_of_core_states_what_reshapes_do() -> None:
    from tpuc.api import ShapeOnly

    class Renamed(Op, ShapeOnly):
        name = "strange.Renamed"

    bare = Renamed()
    assert [t.states(bare, *kinds) for kinds in ([t.KeepsRange], [t.Homogeneous, t.StridedView])] == [True, True]
    assert [t.states(bare, t.Homogeneous), t.states(top.Relu(), t.StridedView)] == [False, False]


def test_a_promise_without_its_method_names_it() -> None:
    class Endless(t.Bounded):
        pass

    class Steep(t.Differentiable):
        pass

    with pytest.raises(NotImplementedError, match=r"^Endless is Bounded, so it must implement bounds\(\)$"):
        Endless().bounds()
    with pytest.raises(NotImplementedError, match=r"^Steep is Differentiable, so it must implement adjoint\(\)$"):
        Steep().adjoint([], None, None)  # pyright: ignore[reportArgumentType]  # none of them is looked at
