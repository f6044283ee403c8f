"""Pooling over rows and then over columns: numbers of the evaluation."""

from __future__ import annotations

from tpuc.registry import Registry
from tpuc_bm1684x.isa import PoolOrDepthwise
from tpuc_testing.kernel_conformance import compile_kernels

from tests.chips.bm1684x.kernels import pool_samples


def test_the_simulator_equals_the_evaluation_in_two_steps() -> None:
    registry = Registry()
    compiled = compile_kernels(pool_samples.ALL, "bm1684x", registry, opt=1)
    loaded = registry.get("tpuc.chips", "bm1684x").load(compiled.data)
    compiled.compare(loaded.run(compiled.inputs))
    entries = loaded.timeline("vendor").entries
    windows = [one.command.instruction for one in entries if isinstance(one.command.instruction, PoolOrDepthwise)]
    assert sum(1 in pool.kernel for pool in windows) >= 2 * len(pool_samples.ALL)  # small tiles may take one step
