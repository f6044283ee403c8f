"""A detector of bright spots keeps its decisions in int8, also in forms that have spoiled calibrations."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tpuc.api import Module
from tpuc.interpreter import Interpreter
from tpuc_driver.session import Session
from tpuc_ops import top

from tests.families import each
from tests.models.rows import lower, run
from tests.passes.calibration.stress import VARIANTS, Stressed
from tests.passes.graphs import Network
from tests.turns import first_few

Array = NDArray[Any]
CHIPS = ("bm1684x", "cv183x")
SIZE, CELLS, SPOT = 24, 6, 3.0
SAMPLES, ALLOWED = 60, 1


def images(count: int, seed: int) -> list[Array]:
    """Noise, in nine of ten with a spot of 3 x 3 pixels within a cell."""
    random = np.random.default_rng(seed)
    result = random.standard_normal((count, 1, 1, SIZE, SIZE)).astype(np.float32) * np.float32(0.3)
    for index, image in enumerate(result):
        y, x = random.integers(0, CELLS, 2) * (SIZE // CELLS)
        image[0, 0, y : y + 3, x : x + 3] += SPOT * float(index % 10 > 0)
    return list(result)


@functools.cache
def detector() -> Module:
    """Sums of 3 x 3 pixels and other filters, their largest in each cell, and logits and boxes from these."""
    random = np.random.default_rng(7)
    net = Network(1, 1, SIZE, SIZE)

    def conv(name: str, x: Any, filters: Array, bias: Array, **attributes: Any) -> Any:
        weights = [
            net.build.weight(f"{name}_{part}", array.astype(np.float32))
            for part, array in (("w", filters), ("b", bias))
        ]
        return net.op(top.Conv(kernel_shape=filters.shape[2:], **attributes), x, *weights)

    filters = random.standard_normal((8, 1, 3, 3)) * 0.3
    filters[0] = 1 / 9
    found = conv("found", net.input, filters, random.uniform(0, 0.2, 8), pads=(0, 0, 2, 2), do_relu=True)
    cells = net.op(top.MaxPool(kernel_shape=(4, 4), strides=(4, 4), pads=(0, 0, 0, 0)), found)
    mixing = random.standard_normal((12, 8, 1, 1)) * 0.2
    mixing[0] = 0
    mixing[0, 0] = 1
    mixed = conv("mixed", cells, mixing, random.uniform(-0.1, 0.1, 12), do_relu=True)
    scoring = random.standard_normal((1, 12, 1, 1)) * 0.02
    scoring[0, 0] = 4
    logits = conv("logits", mixed, scoring, np.array([-0.83 * 4 * SPOT]))
    boxes = conv("boxes", mixed, random.standard_normal((4, 12, 1, 1)), random.standard_normal(4))
    return net.finish(boxes, net.op(top.Reshape(shape=(1, CELLS * CELLS, 1)), logits))


def outputs(stressed: Stressed, module: Module, samples: list[Array]) -> list[list[Array]]:
    names = Interpreter(module).output_names
    return [stressed.restore([one[name] for name in names]) for one in run(module, [], samples)]


def decisions(results: list[list[Array]]) -> list[Any]:
    """The cells with a spot."""
    return [np.flatnonzero(one[1] > 0).tolist() for one in results]


@pytest.fixture(scope="module")
def calibrated(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A variant with its table, made when it is first asked for."""

    @functools.cache
    def make(name: str, headroom: float = 0.0) -> tuple[Stressed, Any]:
        samples = images(40, 1)
        stressed = VARIANTS[name](detector().clone(), samples)
        assert stressed is not None
        path: Path = tmp_path_factory.mktemp(name) / "samples.npz"
        np.savez(path, v0=np.stack(samples))
        return stressed, Session().calibrate(stressed.module, dataset=path, options={"headroom": headroom})

    return make


def test_the_detector_detects() -> None:
    found = decisions(outputs(Stressed(detector()), detector(), images(SAMPLES, 2)))
    assert [len(cells) for cells in found] == [int(index % 10 > 0) for index in range(SAMPLES)]


@each("chip", first_few(CHIPS, 1))
@each("name", VARIANTS)
def test_decisions_are_kept(name: str, chip: str, calibrated: Any) -> None:
    check(*calibrated(name), chip)


@pytest.mark.parametrize("chip", CHIPS)
def test_headroom_for_large_values_that_mean_little_costs_no_decisions(chip: str, calibrated: Any) -> None:
    check(*calibrated("large-biases", 1.6), chip)


def check(stressed: Stressed, table: Any, chip: str) -> None:
    """Are decisions on other samples kept?"""
    samples = images(SAMPLES, 2)
    wanted = decisions(outputs(Stressed(detector()), detector(), samples))
    got = decisions(outputs(stressed, lower(stressed.module, chip, table), samples))
    lost = sum(a != b for a, b in zip(wanted, got, strict=True))
    assert lost <= ALLOWED, f"{lost} of {SAMPLES} decisions are lost"
