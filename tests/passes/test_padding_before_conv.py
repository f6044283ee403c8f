"""Padding that no window needs becomes an op of its own, and stays one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tpuc.api import F32, Module, TensorType
from tpuc.interpreter import Interpreter
from tpuc_driver.session import Session
from tpuc_importing.building import ModuleSource, TopBuilder
from tpuc_ops import top

from tests.families import each


def network(kernel: tuple[int, int], pads: tuple[int, int, int, int]) -> Module:
    """One convolution of `x: [1, 2, 6, 5]`."""
    build = TopBuilder(ModuleSource("net", "net", "TEST"), [("x", TensorType((1, 2, 6, 5), F32))])
    weight = build.weight("w", np.random.default_rng(0).uniform(-1, 1, (3, 2, *kernel)).astype(np.float32))
    bias = build.weight("b", np.arange(3, dtype=np.float32))
    op = top.Conv(kernel_shape=kernel, pads=pads)
    return build.finish([("y", build.build(op, [build.values["x"], weight, bias], "y"))])


def optimized(module: Module) -> Module:
    session = Session()
    module = module.clone()
    session.manager(session.context()).run_pipeline("top-optimize", module)
    return module


@each(
    ("kernel", "pads", "border", "rest"),
    [
        ((1, 1), (1, 1, 1, 1), (0, 0, 1, 1, 0, 0, 1, 1), (0, 0, 0, 0)),
        ((3, 2), (4, 1, 0, 3), (0, 0, 2, 0, 0, 0, 0, 2), (2, 1, 0, 1)),
        ((3, 3), (2, 2, 2, 2), None, (2, 2, 2, 2)),
    ],
)
def test_the_surplus_goes(
    kernel: tuple[int, int],
    pads: tuple[int, int, int, int],
    border: tuple[int, ...] | None,
    rest: tuple[int, ...],
) -> None:
    before = network(kernel, pads)
    after = optimized(before)
    after.verify()
    ops = {operation.op.name: operation.op for operation in after.walk()}
    assert getattr(ops.get("top.Pad"), "paddings", None) == border
    assert getattr(ops["top.Conv"], "pads", None) == rest
    x = np.random.default_rng(1).uniform(-1, 1, (1, 2, 6, 5)).astype(np.float32)
    got, wanted = (Interpreter(module).run({"x": x})["y"] for module in (after, before))
    np.testing.assert_allclose(got, wanted, rtol=1e-6, atol=1e-6)  # the sums may be blocked in another way
    assert [operation.op for operation in optimized(after).walk()] == [operation.op for operation in after.walk()]


@pytest.mark.chip("bm1684x")
def test_such_a_network_compiles(tmp_path: Path) -> None:
    Session(chip="bm1684x", quantize="f16").deploy(optimized(network((1, 1), (1, 1, 1, 1))), tmp_path / "net.bmodel")
    assert (tmp_path / "net.bmodel").stat().st_size > 0
