"""Ops of several results: parts of a tensor, and where its extremes are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import helper
from tpuc_driver.session import Session

from tests.chips.cv18.op_networks import Net

SHAPE = (2, 9, 5, 6)
PLACES = ("first", "last", "least")


@pytest.mark.parametrize("mode", ["int8", "bf16"])
def test_extremes_and_parts(mode: str, tmp_path: Path) -> None:
    net = Net()
    net.op("ArgMax", ["x"], "first", axis=1)
    net.op("ArgMax", ["x"], "last", axis=3, keepdims=0, select_last_index=1)
    net.op("ArgMin", ["x"], "least", axis=2)
    sizes = net.constant("sizes", np.array([2, 3, 4], np.int64))
    net.nodes.append(helper.make_node("Split", ["x", sizes], ["a", "b", "c"], name="split", axis=1))
    corner = [net.constant(name, np.array(places, np.int64)) for name, places in (("from", (0, 0)), ("to", (1, 1)))]
    plane = net.op("Slice", ["x", *corner, net.constant("axes", np.array([0, 1], np.int64))], "plane")
    pool = helper.make_node("MaxPool", [plane], ["most", "where"], name="pool", kernel_shape=[2, 2], strides=[2, 2])
    net.nodes.append(pool)
    names = ["first", "last", "least", "a", "b", "c", "most", "where"]
    path = net.save(tmp_path / "net.onnx", {"x": SHAPE}, names)
    # Whole numbers up to 127, which both modes hold; several are equal.
    x = np.random.default_rng(2).integers(-12, 13, SHAPE).astype(np.float32)
    x[0, 0, 0, 0] = 127
    session = Session(chip="cv183x", quantize=mode)
    module = session.transform(path)
    table = None
    if mode == "int8":
        np.savez(tmp_path / "samples.npz", x=x[None])
        table = session.calibrate(module, dataset=tmp_path / "samples.npz", method="max", options={"tune_num": 0})
    got = session.chip.load(session.build(module, table).data).run({"x": x})
    values = {name.removesuffix("_f32"): np.asarray(array, np.float32) for name, array in got.items()}
    windows = x[0, 0, :4].reshape(2, 2, 3, 2).swapaxes(1, 2).reshape(2, 3, 4)
    tap = windows.argmax(2)
    places = (np.arange(2)[:, None] * 2 + tap // 2) * SHAPE[3] + np.arange(3) * 2 + tap % 2
    wanted = {
        "first": x.argmax(1)[:, None],
        "last": SHAPE[3] - 1 - x[..., ::-1].argmax(3),
        "least": x.argmin(2)[:, :, None],
        "a": x[:, :2],
        "b": x[:, 2:5],
        "c": x[:, 5:],
        "most": windows.max(2),
        "where": places,
    }
    for name, array in wanted.items():
        found = values[name].reshape(array.shape)
        # A scale that is not exact moves a value by less than a step, and an index not at all; behind `where` there is
        # a sum over planes, in bytes up to 16.
        allowed = 0.0 if name in PLACES else 16 / 255 if name == "where" else 0.999
        assert np.abs(found - array).max() <= allowed, name
