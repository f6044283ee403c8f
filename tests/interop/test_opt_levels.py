"""Real networks at every level of planning, on the vendor's functional models: the same bits at all of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tpuc_driver.data import inputs_of
from tpuc_driver.session import Session
from tpuc_testing.kernel_conformance import FLOAT_BOUNDS, float_error

from tests.conftest import RunVendor
from tests.models.measures import TASKS
from tests.models.real import network_file, samples_of

pytestmark = [pytest.mark.interop, pytest.mark.slow]


@pytest.mark.parametrize("chip", [pytest.param(chip, marks=pytest.mark.chip(chip)) for chip in ("bm1684x", "cv183x")])
@pytest.mark.parametrize("name", [*TASKS, "mnist", "resnet50"])
def test_every_level_gives_the_same_bits(
    name: str, chip: str, model_data: Path, run_vendor: RunVendor, tmp_path: Path
) -> None:
    module = Session().transform(network_file(name, model_data, tmp_path))
    (spec,) = inputs_of(module)
    samples = samples_of(name, spec.shape, model_data)
    np.savez(tmp_path / "samples.npz", **{spec.name: samples.reshape(-1, *spec.shape)})
    table = Session().calibrate(module, dataset=tmp_path / "samples.npz", options={"tune_num": 0})
    inputs = {spec.name: samples[0]}
    first: dict[str, bytes] = {}
    for opt in (1, 2, 3):
        session = Session(chip=chip, quantize="int8", opt=opt)
        data = session.build(module, table).data
        path = tmp_path / f"level{opt}{session.chip.description.suffix}"
        path.write_bytes(data)
        ours = session.chip.load(data).run(inputs)
        theirs = run_vendor(path, inputs)
        for key, array in ours.items():
            assert first.setdefault(key, array.tobytes()) == array.tobytes(), f"{key} at --opt {opt}"
            found = theirs[key].reshape(array.shape)
            if array.dtype.kind in "iu":
                np.testing.assert_array_equal(found.view(array.dtype), array)
            else:
                assert float_error(found, array) <= FLOAT_BOUNDS["float32"], f"{key} at --opt {opt}"
