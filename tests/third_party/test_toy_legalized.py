"""A stranger's chip with simple cells in floats runs what legalizations compose, without a cell for any of it."""

from __future__ import annotations

import numpy as np
import pytest
from tpuc.interpreter import Interpreter
from tpuc.registry import Registry
from tpuc_driver.session import Session
from tpuc_ops import top
from tpuc_testing import uniform
from tpuc_testing.kernel_conformance import Fixed, Operand, Sample, sample_module
from tpuc_testing.packages import offers_of

from tests.core.fakes import offer
from tests.families import each
from tests.third_party.distributions import ROOT
from tests.third_party.float_toy import KERNELS, LOWERINGS, NAME, FloatToy

H = 5


def constant(*shape: int, seed: int = 3) -> Fixed:
    return Fixed(uniform(*shape, low=-0.6, high=0.6, seed=seed))


def lstm(directions: int = 1) -> list[Operand]:
    return [
        uniform(4, 2, 3),
        constant(directions, 4 * H, 3),
        constant(directions, 4 * H, H, seed=4),
        constant(directions, 8 * H, seed=5),
        uniform(directions, 2, H, seed=6),
        uniform(directions, 2, H, seed=7),
    ]


SAMPLES = {
    "softmax": Sample(top.Softmax(axis=-1), [uniform(3, 20, 17, low=-9, high=9)]),
    "softmax_log": Sample(top.Softmax(axis=-1, log=True, beta=0.5), [uniform(2, 9, low=-9, high=9)]),
    "layer_norm": Sample(top.LayerNorm(axis=-1), [uniform(3, 30, 24), constant(24), constant(24, seed=6)]),
    "layer_norm_of_two": Sample(top.LayerNorm(axis=-2, eps=1e-3), [uniform(3, 4, 8), None, None]),
    "grid": Sample(
        top.GridSampler(mode="bilinear", padding_mode="zeros", align_corners=False),
        [uniform(1, 3, 5, 6), uniform(1, 4, 3, 2, low=-1.3, high=1.3)],
    ),
    "grid_border": Sample(
        top.GridSampler(mode="bilinear", padding_mode="border", align_corners=True),
        [uniform(2, 3, 5, 6), uniform(2, 4, 3, 2, low=-1.3, high=1.3)],
    ),
    "lstm": Sample(top.LSTM(hidden_size=H), lstm()),
    "lstm_both_ways": Sample(top.LSTM(hidden_size=H, bidirectional=True), lstm(2)),
}
VOLUMES = {
    "max_volumes": Sample(
        top.MaxPool(kernel_shape=(2, 3, 2), strides=(1, 2, 3), pads=(1, 1, 0, 0, 2, 1)), [uniform(2, 3, 5, 6, 7)]
    ),
    "average_volumes": Sample(
        top.AvgPool(kernel_shape=(2, 3, 2), strides=(1, 2, 3), pads=(1, 1, 0, 0, 2, 1)), [uniform(2, 3, 5, 6, 7)]
    ),
    "average_whole_volumes": Sample(
        top.AvgPool(kernel_shape=(5, 6, 7), strides=(1, 1, 1), pads=(0,) * 6), [uniform(2, 3, 5, 6, 7)]
    ),
}
"""The chip's own cells take windows over images only."""


@pytest.fixture(scope="module")
def registry() -> Registry:
    return Registry(
        offers=[
            *offers_of(ROOT),
            offer("chips", NAME, FloatToy()),
            offer("lowerings", f"{NAME}.top", LOWERINGS),
            offer("kernels", f"{NAME}.top", KERNELS),
        ]
    )


def test_the_chip_has_no_cell_for_what_is_composed() -> None:
    composed = {sample.op.name for sample in SAMPLES.values()}
    assert composed.isdisjoint({op for op, _ in LOWERINGS.cells})
    assert composed.isdisjoint(KERNELS.cells)


@each("name", [*SAMPLES, *VOLUMES])
def test_the_simulator_computes_what_is_composed(name: str, registry: Registry) -> None:
    module, inputs = sample_module({name: (SAMPLES | VOLUMES)[name]}, registry)
    wanted = Interpreter(module).run(inputs)
    session = Session(registry, chip=NAME, quantize="f32")
    data = session.build(module).data
    got = session.chip.load(data).run(inputs)
    for key, array in wanted.items():
        np.testing.assert_allclose(got[key].reshape(array.shape), array, rtol=0, atol=2e-6 * np.abs(array).max())
