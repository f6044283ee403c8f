"""Networks of many kinds on the vendor's functional models: the compiled file gives what our simulator gives."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from tpuc_driver.data import inputs_of
from tpuc_driver.session import Session
from tpuc_testing.kernel_conformance import float_error

from tests.conftest import RunVendor
from tests.models.zoo import NETWORKS

pytestmark = [pytest.mark.interop, pytest.mark.slow]

RUNS = (
    *(("bm1684x", mode) for mode in ("f16", "bf16", "f32", "int8", "int8-asym")),
    ("cv183x", "int8"),
    ("cv183x", "bf16"),
    ("cv180x", "int8"),
    ("cv180x", "bf16"),
)
BOUNDS = {"bm1684x": 0.0, "cv183x": 2.0**-7, "cv180x": 2.0**-7}
"""Of a float output's range: on the last two sums and series of 16-bit floats may be formed in another order there,
which a network of many layers carries on; this is two units of the last place of bf16.
"""


@pytest.mark.parametrize(("chip", "mode"), [pytest.param(*run, marks=pytest.mark.chip(run[0])) for run in RUNS])
@pytest.mark.parametrize("name", NETWORKS)
def test_the_vendors_model_gives_what_ours_gives(
    name: str, chip: str, mode: str, run_vendor: RunVendor, tmp_path: Path
) -> None:
    _compare(name, chip, mode, 0, run_vendor, tmp_path)


@pytest.mark.chip("bm1684x")
@pytest.mark.parametrize("name", ["u_shape", "sound"])
def test_no_step_of_an_int8_value_hangs_on_the_order_of_a_sum(name: str, run_vendor: RunVendor, tmp_path: Path) -> None:
    """An f32 transposed convolution is scaled and cast to int8 here; summed in another order, one value of 65,536 (of
    6,368) lies on the other side of a half with this sample, and the output is 0.0095 (0.0008) away.
    """
    _compare(name, "bm1684x", "int8-asym", 102, run_vendor, tmp_path)


def _compare(name: str, chip: str, mode: str, seed: int, run_vendor: RunVendor, tmp_path: Path) -> None:
    path = tmp_path / f"{name}.onnx"
    onnx.save(NETWORKS[name](), path)
    session = Session(chip=chip, quantize=mode)
    module = session.transform(path)

    def drawn(seed: int) -> dict[str, NDArray[np.float32]]:
        random = np.random.default_rng(seed)
        return {
            spec.name: random.integers(0, 100, spec.shape).astype(np.float32)
            if name == "words"
            else random.normal(0, 1, spec.shape).astype(np.float32)
            for spec in inputs_of(module)
        }

    given = drawn(seed)
    np.savez(tmp_path / "sample.npz", **drawn(0))
    data_set = tmp_path / "sample.npz"
    table = session.calibrate(module, dataset=data_set, options={"tune_num": 0}) if mode.startswith("int8") else None
    data = session.build(module, table).data
    suffix = session.chip.description.suffix
    file = tmp_path / f"{name}{suffix}"
    file.write_bytes(data)
    ours = session.chip.load(data).run(given)
    theirs = run_vendor(file, given)
    assert set(theirs) >= set(ours)
    for key, array in ours.items():
        found = theirs[key].reshape(array.shape)
        if array.dtype.kind in "iu":
            np.testing.assert_array_equal(found, array.view(found.dtype) if found.itemsize == array.itemsize else array)
        else:
            found = found.view(array.dtype) if found.dtype.kind == "u" else found
            assert float_error(found, array) <= BOUNDS[chip], key
