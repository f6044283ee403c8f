"""Networks of many kinds, from ONNX to the simulators: nothing crashes, integers are exact, answers are close."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from tpuc.api import Module
from tpuc.interpreter import Interpreter
from tpuc_driver.session import Session
from tpuc_quantize.tables.table import CalibrationTable

from tests.families import each
from tests.models.zoo import NETWORKS
from tests.turns import quick_pairs

onnxruntime = pytest.importorskip("onnxruntime")

SAMPLES = 4
LEAST_COSINE = {"f32": 0.999999, "f16": 0.999, "bf16": 0.99, "int8": 0.99, "int8-asym": 0.98}
"""Random networks spread their values widely, so that 8 bits hold them well."""
_MODES = {
    "bm1684x": ("int8", "int8-asym", "f32", "f16"),
    **dict.fromkeys(("cv183x", "cv181x", "cv180x"), ("int8", "bf16")),
}
RUNS = {f"{chip}-{mode}": (chip, mode) for chip, modes in _MODES.items() for mode in modes}
IN_TURN = [name for name, (chip, _) in RUNS.items() if chip in ("bm1684x", "cv183x")]
"""Fewer lanes are tried with other networks in the quick run."""
LONG = ("long_wave", "wide_images")
"""Networks that take most of a minute in most modes."""
IN_FLOATS = {"text_lines": "bm1684x-f16", "wide_images": "bm1684x-f32"}
"""Quick in this run only: cells of an LSTM are one op in floats and many in integers."""
QUICK = {
    *IN_FLOATS.items(),
    *(
        (name, run)
        for name, run in quick_pairs(
            {name: name for name in [one for one in NETWORKS if one not in LONG][::2]}, IN_TURN, lambda _: "network"
        )
        if name not in IN_FLOATS
    ),
}
"""Every other network on one chip in one mode, in turn; only the widest images are reduced in parts, in floats."""
PAIRS = [
    pytest.param(
        *(name, *RUNS[run]),
        marks=[pytest.mark.chip(RUNS[run][0]), *([] if (name, run) in QUICK else [pytest.mark.slow])],
        id=f"{name}-{run}",
    )
    for name in NETWORKS
    for run in RUNS
]


def _inputs(session: Any, seed: int) -> dict[str, NDArray[Any]]:
    random = np.random.default_rng(seed)
    return {
        one.name: random.integers(0, 100, one.shape)
        if "int" in one.type
        else random.normal(0, 1, one.shape).astype(np.float32)
        for one in session.get_inputs()
    }


class Prepared:
    """A network in a file, samples of its inputs, and what ONNX Runtime makes of the first one."""

    def __init__(self, name: str, folder: Path) -> None:
        self._folder, self.path = folder / "samples", folder / f"{name}.onnx"
        self._folder.mkdir()
        onnx.save(NETWORKS[name](), self.path)
        runtime = onnxruntime.InferenceSession(str(self.path), providers=["CPUExecutionProvider"])
        for seed in range(SAMPLES):
            np.savez(self._folder / f"{seed}.npz", **_inputs(runtime, seed))
        inputs = _inputs(runtime, 0)
        self.given = {key: array.astype(np.float32) for key, array in inputs.items()}
        answers = (one.name for one in runtime.get_outputs())
        self.wanted: dict[str, NDArray[Any]] = dict(zip(answers, runtime.run(None, inputs), strict=True))

    def module(self) -> Module:
        """The network, imported; its floats are those of ONNX Runtime."""
        module = Session().transform(self.path)
        top = Interpreter(module).run(self.given)
        assert max(float(np.abs(x - y).max()) for x, y in zip(top.values(), self.wanted.values(), strict=True)) < 1e-3
        return module

    @cached_property
    def table(self) -> CalibrationTable:
        """Made once for all chips and modes of integers."""
        return Session().calibrate(Session().transform(self.path), dataset=self._folder, input_num=SAMPLES)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Prepared]:
    """Networks by name; the last one is remembered, as its chips and modes follow one another."""
    return lru_cache(maxsize=1)(lambda name: Prepared(name, tmp_path_factory.mktemp(name)))


@each(("name", "chip", "mode"), PAIRS)
def test_network_compiles_and_answers(name: str, chip: str, mode: str, prepared: Callable[[str], Prepared]) -> None:
    network = prepared(name)
    session = Session(chip=chip, quantize=mode)
    final, data, *_ = session.build(network.module(), network.table if mode.startswith("int8") else None)
    got = session.chip.load(data).run(network.given)
    lowered = Interpreter(final).run(network.given)
    assert len(got) == len(network.wanted)
    for (key, array), answer in zip(got.items(), network.wanted.values(), strict=True):
        if array.dtype.kind in "iu" and lowered[key].dtype.kind in "iu":
            np.testing.assert_array_equal(array.reshape(lowered[key].shape), lowered[key])
        found, exact = array.astype(np.float64).ravel(), answer.astype(np.float64).ravel()
        cosine = found @ exact / np.sqrt((found @ found) * (exact @ exact))
        assert cosine >= LEAST_COSINE[mode], f"{key}: cosine {cosine:.5f}"
