"""Values that 8 bits cannot hold because of huge ones beside them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tpuc.api import Module
from tpuc_driver.session import Session
from tpuc_ops import top
from tpuc_quantize.observers.bimodal_ranges import find_bimodal_ranges, sentence
from tpuc_quantize.observers.histogram import Histogram

from tests.families import each
from tests.passes.graphs import Network

RANDOM = np.random.default_rng(5)
SMALL = RANDOM.normal(0, 1, 4000).astype(np.float32)


def histogram(*parts: np.ndarray) -> Histogram:
    result = Histogram("t")
    result.update(np.concatenate(parts).astype(np.float32))
    return result


@each("hidden", [-1e4, -1e9, -3.4e38, 2000.0])
def test_a_mask_beside_values_is_found(hidden: float) -> None:
    ((small, large),) = find_bimodal_ranges({"t": histogram(SMALL, SMALL[:9] + np.float32(hidden))}).values()
    assert large == pytest.approx(abs(hidden), rel=0.01)
    assert np.abs(SMALL).max() <= small <= abs(hidden) / 256


def test_what_bytes_hold_is_not_named() -> None:
    quiet = {
        "plain": histogram(SMALL),
        "mask": histogram(np.where(SMALL > 0, 0, -1e9)),
        "outliers": histogram(SMALL, SMALL * 50),
        "tail": histogram(np.exp(SMALL * 3)),
        "probabilities": histogram(np.full(9, 1e-4), np.full(1, 0.999)),
        "zeros": histogram(np.zeros(9)),
        "one": histogram(np.full(9, 1e9)),
        "ranges": Histogram("r", counting=False),
    }
    assert find_bimodal_ranges(quiet) == {}


def test_the_sentence_names_a_few() -> None:
    said = sentence(dict.fromkeys("abcdef", (3.0, 1000000000.0)))
    assert said == (
        "small and huge values in one tensor (a mask?): 'a' (below 3, then up to 1e+09), 'b' (below 3, then up to "
        "1e+09), 'c' (below 3, then up to 1e+09), 'd' (below 3, then up to 1e+09) and 2 more; int8 cannot represent "
        "both. Keep the ops that compute and read it in float: `--min-accuracy` finds them, or list them in "
        "--quantize-table"
    )


def masked_attention() -> Module:
    net = Network(1, 16)
    mask = net.weight(1, 16)
    result = net.finish(net.op(top.Softmax(axis=1), net.op(top.Add(), net.input, mask)))
    result.weights[mask.name] = np.where(np.arange(16) % 2, -1e9, 0).reshape(1, 16).astype(np.float32)
    return result


def test_calibration_remarks_on_masks(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", v0=RANDOM.normal(0, 1, (8, 1, 16)).astype(np.float32))
    said: list[str] = []
    Session(remark=said.append).calibrate(masked_attention(), dataset=tmp_path / "x.npz")
    assert [text.startswith("small and huge values in one tensor (a mask?): 'v") for text in said] == [True]
