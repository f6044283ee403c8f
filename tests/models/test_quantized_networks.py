"""Networks that come quantized, as chips compute them, against what LiteRT gives for the same bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tpuc_driver.data import inputs_of
from tpuc_driver.session import Session

from tests.families import each

Array = NDArray[Any]
TINY = ("ad01_autoencoder_int8", "ic01_resnet8_int8", "kws01_dscnn_int8", "vww01_mobilenet025_96_int8")
UNSIGNED = "mobilenet_v1_0.25_128_quant"


def answers(name: str, chip: str, model_data: Path) -> tuple[Array, Array]:
    """What the simulated file and LiteRT give for the reference inputs, in steps of the output."""
    folder = model_data / "tflite" / ("mlperf_tiny" if name in TINY else "")
    with np.load(model_data / "ref" / "tflite" / f"{name}.npz") as stored:
        samples, expected = stored["in0"], stored["out0"]
    session = Session(chip=chip, quantize="int8")
    top = session.transform(folder / f"{name}.tflite")
    source = next(o.result.tensor.uniform for o in top.main.operations if o.op.name == "top.Input")
    target = top.main.outputs[0].tensor.uniform
    dims = top.main.inputs[0].tensor.dims
    built = session.build(top)
    loaded, (given,) = session.chip.load(built.data), inputs_of(built.module)
    results: list[Array] = []
    for sample in samples:
        real = ((sample.astype(np.float64) - source.zero_point) * source.scale).astype(np.float32)
        image = real.transpose(0, 3, 1, 2) if real.ndim == 4 and real.shape != dims else real
        image = np.ascontiguousarray(image.reshape(dims))
        (result,) = loaded.run({given.name: image if given.store is None else given.store(image)}).values()
        results.append(result.reshape(-1).astype(np.float64) / target.scale + target.zero_point)
    return np.array(results), expected.reshape(len(samples), -1).astype(np.float64)


@pytest.mark.chip("bm1684x")
@each("name", [*TINY, UNSIGNED])
def test_bm1684x_gives_what_litert_gives(name: str, model_data: Path) -> None:
    got, wanted = answers(name, "bm1684x", model_data)
    # Integers, but for the rounding of a division by the scale.
    np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-3)


@pytest.mark.chip("cv183x")
@each("name", [*TINY, UNSIGNED])
def test_cv183x_gives_the_same_answers(name: str, model_data: Path) -> None:
    got, wanted = answers(name, "cv183x", model_data)
    noise = np.linalg.norm(got - wanted) / np.linalg.norm(wanted - wanted.mean())
    assert noise < 10 ** (-30 / 20)  # 30 dB
    if name.startswith("ad01"):  # reconstructs its input and has no classes
        return
    np.testing.assert_array_equal(got.argmax(axis=1), wanted.argmax(axis=1))
