"""Buffers inside operators are planned with all others; every planner's program runs, and keeps within its pools."""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np
from tpuc.api import Module, PlannedBuffer, PoolInfo
from tpuc.interpreter import Interpreter
from tpuc_driver.session import Session
from tpuc_driver.session.values import Built
from tpuc_plan.planners.arena import Lived, buffer_list, make_plan
from tpuc_plan.planners.greedy import GREEDY

from tests.chips.c.programs import DIGITS, needs_compiler, needs_lowerings
from tests.families import each

pytestmark = needs_lowerings
PLANNERS = ("greedy", "hill-climb{moves=50}", "exact", "reference-count")
POOLS = {"usmp-workspace-pools": "fast,slow", "usmp-workspace-pool-fast": "size=2000"}


@functools.cache
def digits() -> Module:
    return Session().transform(DIGITS / "digits.onnx")


def built(planner: str = "greedy", pools: dict[str, str] | None = None) -> tuple[Session, Built]:
    session = Session(chip="c", quantize="f32", planner=planner, targets=("c",), pools=pools)
    return session, session.build(digits())


def workspace(plan: Built) -> list[PlannedBuffer]:
    assert plan.memory_plan is not None
    return [buffer for buffer in plan.memory_plan.buffers if buffer.pool != "parameters"]


def is_inside(buffer: PlannedBuffer) -> bool:
    """Does the buffer belong to one operator?"""
    return "/" in buffer.name


def test_operators_show_their_buffers_to_the_planner() -> None:
    _, plan = built()
    inside = {buffer.name for buffer in workspace(plan) if is_inside(buffer)}
    assert {"relu1/windows", "relu2/windows", "scores/windows", "average/sums"} <= inside
    assert all(buffer.first == buffer.last for buffer in workspace(plan) if is_inside(buffer))


def test_one_plan_never_takes_more_than_two() -> None:
    """As before TVM's RFC: values in one arena, and behind it the buffers of the operator that runs."""
    _, plan = built()
    values = [Lived(b.name, b.size_bytes, b.first, b.last) for b in workspace(plan) if not is_inside(b)]
    arena = make_plan(GREEDY, buffer_list(values, 16), [PoolInfo("values", None, 16)], values).peak_bytes
    calls: dict[int, int] = {}
    for buffer in filter(is_inside, workspace(plan)):
        calls[buffer.first] = calls.get(buffer.first, 0) + buffer.size_bytes
    assert plan.memory_plan is not None
    (pool,) = [pool for pool in plan.memory_plan.pools if pool.name == "workspace"]
    # Sixteen and thirty-two maps of 8 x 8 floats, and four windows of 16 x 9 floats while the second is made.
    assert pool.peak_bytes == pool.bound_bytes == 48 * 64 * 4 + 4 * 144 * 4
    assert arena == 48 * 64 * 4
    assert pool.peak_bytes <= arena + max(calls.values())


@needs_compiler
@each("pools", [None, POOLS], ids=["one pool", "two pools"])
@each("planner", PLANNERS)
def test_every_planner_gives_a_program_with_the_same_results(planner: str, pools: dict[str, str] | None) -> None:
    session, plan = built(planner, pools)
    assert plan.memory_plan is not None
    sizes = {pool.name: pool.peak_bytes for pool in plan.memory_plan.pools}
    if pools:
        assert 0 < sizes["fast"] <= 2000
    with np.load(DIGITS / "digits_eval.npz") as data:
        x = data["x"][7].astype(np.float32).reshape(1, 1, 8, 8)
    got = session.chip.load(plan.data).run({"image": x})
    wanted = Interpreter(plan.module).run({"image": x})
    for name, array in wanted.items():
        np.testing.assert_allclose(got[name], array, rtol=0, atol=1e-6 * float(np.abs(array).max()))


def test_the_folder_names_what_lies_where(tmp_path: Path) -> None:
    """The places in the source are those of the plan."""
    session, plan = built()
    source = session.chip.files(plan.data)["digits_lib0.c"].decode()
    for buffer in workspace(plan):
        assert f"(void*)(workspace_pool + {buffer.offset}) /* {buffer.name} */" in source
