"""No two buffers share a byte, and every one lies within its pool."""

from __future__ import annotations

from acme_tools.separate import SEPARATE
from tpuc.api import BufferInfo, PoolAllocation, PoolInfo
from tpuc_testing.planner_conformance import PlannerConformance


class TestSeparate(PlannerConformance):
    """Everything that holds for any planner."""

    planner = SEPARATE


def test_buffers_lie_one_behind_the_other() -> None:
    buffers = [BufferInfo(name, 10, 16) for name in ("a", "b")]
    plan = SEPARATE.plan(buffers, [PoolInfo("ddr", None, 16)])
    assert plan == {"a": PoolAllocation("ddr", 0), "b": PoolAllocation("ddr", 16)}
