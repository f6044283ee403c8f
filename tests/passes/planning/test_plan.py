"""A plan as a value: what is written on the operations of a module is read back equal, also under former names."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tpuc.api import DictAttr, InvalidModel, Module, UsageError
from tpuc.ir.text import parse_module, print_module
from tpuc.registry import Registry
from tpuc_driver.session import Session
from tpuc_ops import tpu
from tpuc_plan.tasks.plan import Alias, ConcatAlias, Plan, Residency, SliceView, Stripes, TilePlan
from tpuc_testing.kernel_conformance import Sample, compile_kernels

from tests.families import each
from tests.passes.planning.test_cascades import LANE_BYTES, Drawn

REGISTRY = Registry()
CHIPS = [chip for chip in LANE_BYTES if REGISTRY.has("tpuc.chips", chip)]
OPS = (
    TilePlan((("c", 64), ("n", 1)), 0, Residency.streamed(1)),
    TilePlan((("h", 7), ("n", 1)), 2, Residency(frozenset({0, 2}), frozenset({1}), frozenset({0}), frozenset())),
    TilePlan((("h", 7),), 0, Residency(resident_in=frozenset({0})), Stripes(3, 1, 4, resident=False)),
    Alias(),
    ConcatAlias((0, 4096)),
    ConcatAlias((0, 4096), in_lmem=True),
    SliceView(128),
    None,
)
FORMER = {
    "resident_in": "kept",
    "preloaded": "fetched",
    "resident_out": "held",
    "written_back": "stored",
    "stripes": "sliced",
    "concat_alias": "merged",
    "slice_view": "inside",
    "lmem_concat": "assembled",
}


def module_of(count: int) -> Module:
    """A chain of operations that nothing is known of, and the return behind them."""
    lines = [f'    %{i + 1} = "x.op"(%{i}) : (tensor<1xf32>) -> tensor<1xf32>' for i in range(count)]
    body = "\n".join(lines)
    return parse_module(
        "module @m {\n  func.func @main(%0: tensor<1xf32>) -> tensor<1xf32> {\n"
        f"{body}\n    return %{count} : tensor<1xf32>\n  }}\n}}\n",
        REGISTRY.resolve_op,
    )


def again(module: Module) -> Module:
    return parse_module(print_module(module), REGISTRY.resolve_op)


def test_every_kind_of_plan_is_read_back_from_text() -> None:
    module, plan = module_of(len(OPS)), Plan((*OPS, None), 1234, ("vendor", "measured"))
    plan.write(module)
    assert Plan.of(module) == plan
    assert Plan.of(again(module)) == plan
    assert hash(Plan.of(again(module))) == hash(plan)


def test_a_plan_takes_the_place_of_another_one() -> None:
    module, plan = module_of(len(OPS)), Plan((*OPS[::-1], None))
    Plan((*OPS, None), 1234, ("vendor",)).write(module)
    plan.write(module)
    assert Plan.of(module) == plan
    Plan((None,) * (len(OPS) + 1)).write(module)
    assert print_module(module) == print_module(module_of(len(OPS)))


def test_former_names_are_read_and_replaced() -> None:
    module, plan = module_of(len(OPS)), Plan((*OPS, None))
    plan.write(module)
    for operation in module.main.operations:
        attributes = operation.extra_attributes
        stripes = attributes.get("stripes")
        if isinstance(stripes, DictAttr):
            entries = (("run" if name == "cascade" else name, number) for name, number in stripes.items)
            attributes["stripes"] = DictAttr(tuple(entries))
        for name in [name for name in attributes if name in FORMER]:
            attributes[FORMER[name]] = attributes.pop(name)
    text = print_module(module)
    assert all(f"{name} = " in text or f"{name}}}" in text or f"{name}," in text for name in FORMER.values())
    assert not any(f"{name} " in text for name in FORMER)
    assert Plan.of(again(module)) == plan
    plan.write(module)
    assert not any(f"{name} = " in print_module(module) for name in FORMER.values())


@each("chip", CHIPS)
def test_the_plan_of_a_network_is_written_once_and_read_back(
    chip: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[Plan] = []
    write = Plan.write

    def counted(plan: Plan, module: Module) -> None:
        written.append(plan)
        write(plan, module)

    monkeypatch.setattr(Plan, "write", counted)
    path = tmp_path / "drawn.onnx"
    path.write_bytes(Drawn(2).model().SerializeToString())
    session = Session(chip=chip, quantize={"bm1684x": "f32", "cv183x": "bf16"}[chip])
    monkeypatch.setattr(session.chip.lmem, "lane_bytes", LANE_BYTES[chip])
    final = session.build(session.transform(path), None).module
    (plan,) = written
    assert plan.cycles is not None
    assert any(isinstance(op, TilePlan) and op.stripes is not None for op in plan.ops)
    assert Plan.of(again(final)) == plan


@pytest.mark.chip("bm1684x")
def test_a_tiling_of_an_axis_that_an_op_does_not_have_is_refused() -> None:
    x = np.arange(32, dtype=np.float32).reshape(1, 2, 4, 4)
    sample = Sample(tpu.Add(), [x, x], tilings=[{"h": 2}, {"depth": 2}])
    with pytest.raises(UsageError) as caught:
        compile_kernels({"sum": sample}, "bm1684x")
    assert str(caught.value) == "node 'sum_2' has no axis 'depth' to cut; it has c, h, n, w."


def test_stripes_that_do_not_say_everything_are_refused() -> None:
    module = module_of(1)
    Plan((OPS[2], None)).write(module)
    attributes = module.main.operations[0].extra_attributes
    stripes = attributes["stripes"]
    assert isinstance(stripes, DictAttr)
    attributes["stripes"] = DictAttr(tuple(item for item in stripes.items if item[0] in ("cascade", "resident")))
    with pytest.raises(InvalidModel, match="its stripes lack batches, parts"):
        Plan.of(module)
