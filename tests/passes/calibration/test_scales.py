"""Samples 255 times too small or too large for the biases are found, and samples without content refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from tpuc.errors import CalibrationError
from tpuc.ir import Module
from tpuc_driver.data import inputs_of
from tpuc_driver.session import Session
from tpuc_ops import top

from tests.families import each
from tests.passes.graphs import Network

RANDOM = np.random.default_rng(45)
FILTERS = RANDOM.standard_normal((8, 3, 3, 3)).astype(np.float32)
BIASES = RANDOM.standard_normal(8).astype(np.float32)
HEADS = RANDOM.standard_normal((5, 8, 6, 6)).astype(np.float32)
SMOOTH = np.cumsum(np.cumsum(RANDOM.standard_normal((20, 1, 3, 8, 8)), -1), -2)
SAMPLES = (SMOOTH / np.abs(SMOOTH).max()).astype(np.float32)


def network(*, biased: bool) -> Module:
    """Two outputs per sample, bounded as those of a trained network are."""
    net = Network(1, 3, 8, 8)
    bias = net.build.weight("b", BIASES) if biased else net.none
    value = net.op(top.Conv(kernel_shape=(3, 3)), net.input, net.build.weight("f", FILTERS), bias)
    value = net.op(top.Tanh(), value)
    heads = net.op(top.Conv(kernel_shape=(6, 6)), value, net.build.weight("h", HEADS), net.none)
    return net.finish(net.op(top.Concat(axis=1), heads, heads))


def remarks(folder: Path, samples: NDArray[np.float32], *, biased: bool = True, **options: object) -> str:
    module = network(biased=biased)
    np.savez(folder / "samples.npz", allow_pickle=False, **{inputs_of(module)[0].name: samples})
    said: list[str] = []
    options = {"lint": True, "tune_num": 0, "bias_num": 0, **options}
    Session(remark=said.append).calibrate(module, dataset=folder / "samples.npz", options=options)
    return " ".join(said)


@each(
    ("factor", "biased", "sentence"),
    [
        (1.0, True, ""),
        (0.3, True, ""),
        (1 / 255, True, "its values are too small beside the biases of the network, and its outputs differ"),
        (255.0, False, ""),
        (1 / 255, False, ""),
    ],
)
def test_scales(tmp_path: Path, factor: float, biased: bool, sentence: str) -> None:
    said = remarks(tmp_path, SAMPLES * np.float32(factor), biased=biased)
    assert sentence in said
    assert bool(said) == bool(sentence), said


def test_too_large(tmp_path: Path) -> None:
    """Inputs that saturate every Tanh make the outputs of all samples alike, as long as the samples have one sign."""
    said = remarks(tmp_path, (SAMPLES * 0.1 + 1) * np.float32(255))
    assert "too large beside the biases of the network, and its outputs differ" in said


def classified(folder: Path, factor: float) -> str:
    """What is said about samples of a classifier of six classes whose best logit is about 4 above the others."""
    net = Network(1, 3, 8, 8)
    value = net.op(
        top.Conv(kernel_shape=(3, 3)), net.input, net.build.weight("f", FILTERS), net.build.weight("b", BIASES)
    )
    classes = np.concatenate([HEADS, -HEADS.sum(0, keepdims=True)]) / 8
    value = net.op(top.Conv(kernel_shape=(6, 6)), value, net.build.weight("h", classes), net.none)
    module = net.finish(net.op(top.Softmax(axis=1), value))
    np.savez(folder / "samples.npz", allow_pickle=False, **{inputs_of(module)[0].name: SAMPLES * np.float32(factor)})
    said: list[str] = []
    options = {"lint": True, "tune_num": 0, "bias_num": 0}
    Session(remark=said.append).calibrate(module, dataset=folder / "samples.npz", options=options)
    return " ".join(said)


@each(
    ("factor", "sentence"), [(1.0, ""), (10.0, ""), (255.0, "zeros and ones, but not when values are divided by 255")]
)
def test_predictions_without_doubt(tmp_path: Path, factor: float, sentence: str) -> None:
    """Probabilities of 0 and 1 say that values are too large, although they differ as much between samples."""
    said = classified(tmp_path, factor)
    assert sentence in said
    assert bool(said) == bool(sentence), said


def test_samples_without_content_are_refused(tmp_path: Path) -> None:
    sentence = r"all 20 samples are -1 everywhere, so .* nothing\. Give real data, or calibrate anyway with --force\."
    constant = np.full_like(SAMPLES, -1)
    with pytest.raises(CalibrationError, match=sentence):
        remarks(tmp_path, constant)
    assert "constant (-1 everywhere)" in remarks(tmp_path, constant, force=True)
    assert remarks(tmp_path, constant, lint=False) == ""
