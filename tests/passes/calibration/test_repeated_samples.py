"""Samples that occur twice under different names change neither table nor compiled file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from tpuc.ir import Module
from tpuc.ir.attributes import StringAttr
from tpuc_driver.session import Session
from tpuc_ops import top

from tests.passes.graphs import Network

RANDOM = np.random.default_rng(45)
FILTERS = [RANDOM.standard_normal(shape).astype(np.float32) for shape in ((8, 3, 3, 3), (8,), (5, 8, 3, 3))]
MATRICES = [RANDOM.standard_normal(shape).astype(np.float32) for shape in ((24, 16), (1, 16), (16, 5))]
SAMPLES = RANDOM.standard_normal((24, 192)) * np.linspace(0.5, 3, 24).reshape(-1, 1)


def convolutions() -> Module:
    net = Network(1, 3, 8, 8)
    first, bias, second = (net.build.weight(f"w{number}", array) for number, array in enumerate(FILTERS))
    value = net.op(top.Conv(kernel_shape=(3, 3), do_relu=True), net.input, first, bias)
    value = net.op(top.Conv(kernel_shape=(3, 3)), value, second, net.none)
    return net.finish(net.op(top.AvgPool(kernel_shape=(4, 4)), value))


def products() -> Module:
    net = Network(8, 24)
    first, bias, second = (net.build.weight(f"w{number}", array) for number, array in enumerate(MATRICES))
    value = net.op(top.GELU(), net.op(top.MatMul(), net.input, first, bias))
    return net.finish(net.op(top.Softmax(axis=1), net.op(top.MatMul(), value, second, net.none)))


def stored(folder: Path, order: Sequence[int], shape: Sequence[int]) -> Path:
    folder.mkdir()
    for name, place in enumerate(order):
        np.save(folder / f"{name:03}.npy", SAMPLES[place].reshape(shape).astype(np.float32))
    return folder


def test_repeated_samples_change_no_byte(tmp_path: Path) -> None:
    found: dict[str, list[bytes]] = {}
    for network, shape, spread in ((convolutions, (1, 3, 8, 8), 2), (products, (8, 24), 1)):
        folder = tmp_path / network.__name__
        folder.mkdir()
        cases = [
            (stored(folder / "once", range(24), shape), 1),
            (stored(folder / "twice", [*range(24), 3, 3, 7], shape), spread),
        ]
        module = network()
        module.attributes["module.name"] = StringAttr("network")
        for case, workers in cases:
            options = {"workers": workers, "hold_out": True, "tune_num": 3, "bias_num": 3}
            table, _ = Session().calibrate_and_check(module.clone(), dataset=case, options=options)
            table.write(case / "table")
            found.setdefault(f"{network.__name__}, table", []).append((case / "table").read_bytes())
            for chip in ("bm1684x", "cv183x"):
                model = case / chip
                Session(chip=chip, quantize="int8").deploy(module.clone(), model, calibration_table=case / "table")
                found.setdefault(f"{network.__name__}, {chip}", []).append(model.read_bytes())
    assert {name: len(set(contents)) for name, contents in found.items()} == dict.fromkeys(found, 1)
