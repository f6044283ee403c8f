"""Layers of the processor run by the vendor's runtime and its library of layers."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from tpuc_bm1684x.chip import CHIP
from tpuc_driver.session import Session

from tests.chips.bm1684x.test_cpu_layers import built, built_detections
from tests.chips.layered_networks import TEXTS, write_best
from tests.chips.pooled_regions import REGIONS
from tests.chips.single_shot import read_detections
from tests.conftest import RunVendor

pytestmark = pytest.mark.interop

PEER = Path(os.environ.get("PEER") or Path.home() / ".cache" / "tpuc-peer")
RUN_TWICE = """
import sys
import numpy as np
package, model, source, target = sys.argv[1:]
sys.path.append(package + "/python")
import pyruntime_bm
loaded = pyruntime_bm.Model(model, 0, "")
net, found = loaded.Net(loaded.networks[0]), {}
for run in "01":
    with np.load(source) as arrays:
        for tensor in net.inputs:
            tensor.data[:] = arrays[tensor.name + run].reshape(tensor.data.shape)
    net.forward_dynamic([tuple(tensor.data.shape) for tensor in net.inputs])
    found[run] = np.array(net.outputs[0].data)
np.savez(target, **found)
"""


@pytest.mark.parametrize("case", TEXTS)
def test_parts_of_the_tpu_and_of_the_processor(case: str, run_vendor: RunVendor, tmp_path: Path) -> None:
    target = tmp_path / "net.bmodel"
    target.write_bytes(built(case, tmp_path))
    ours, theirs = CHIP.load(target.read_bytes()).run(REGIONS), run_vendor(target, REGIONS)
    assert ours.keys() == theirs.keys()
    for name, array in ours.items():
        assert np.array_equal(theirs[name].reshape(array.shape), array), name


def test_the_best_of_more_than_the_chip_ranks(run_vendor: RunVendor, tmp_path: Path) -> None:
    path, given = write_best(tmp_path / "net.onnx")
    session = Session(chip="bm1684x", quantize="f32", cpu_ops=("TopK",))
    target = tmp_path / "net.bmodel"
    target.write_bytes(session.build(session.transform(path)).data)
    ours, theirs = CHIP.load(target.read_bytes()).run(given), run_vendor(target, given)
    for name, array in ours.items():
        assert np.array_equal(theirs[name].reshape(array.shape), array), name


@pytest.mark.parametrize("code", ["CORNER", "CENTER_SIZE", "CORNER_SIZE"])
@pytest.mark.parametrize("threshold", [0.5, 0.98, 1.0])
def test_detections(code: str, threshold: float, run_vendor: RunVendor, tmp_path: Path) -> None:
    module, operands = read_detections(tmp_path, code, threshold)
    target = tmp_path / "net.bmodel"
    target.write_bytes(built_detections(module))
    (ours,) = CHIP.load(target.read_bytes()).run(operands).values()
    (theirs,) = run_vendor(target, operands).values()
    # Boxes in float32, whose products are taken in another order.
    np.testing.assert_allclose(theirs.reshape(ours.shape), ours, rtol=0, atol=1e-6)


@pytest.mark.parametrize("shares", [(1, 1, 1), (0.3, 1, 0.6), (1, 0.1, 0.1), (0.1, 0.1, 0.1)])
def test_detections_of_several_images(shares: tuple[float, ...], run_vendor: RunVendor, tmp_path: Path) -> None:
    module, operands = read_detections(tmp_path, images=len(shares))
    operands["s"] *= np.array(shares, np.float32)[:, None]
    target = tmp_path / "net.bmodel"
    target.write_bytes(built_detections(module))
    (ours,) = CHIP.load(target.read_bytes()).run(operands).values()
    (theirs,) = run_vendor(target, operands).values()
    np.testing.assert_allclose(theirs.reshape(ours.shape), ours, rtol=0, atol=1e-6)


def test_rows_of_the_last_run_do_not_come_again(oracle_dir: Path, tmp_path: Path) -> None:
    module, operands = read_detections(tmp_path)
    model, source, target = (tmp_path / name for name in ("net.bmodel", "in.npz", "out.npz"))
    model.write_bytes(built_detections(module))
    fewer = {**operands, "s": operands["s"] * np.float32(0.55)}
    np.savez(
        source, **{name + run: one[name] for run, one in zip("01", (operands, fewer), strict=True) for name in one}
    )
    package = next(PEER.glob("lib/python3.*/site-packages/tpu_mlir"))
    (tmp_path / "libcmodel.so").symlink_to(package / "lib" / "libcmodel_bm1684x.so")
    command = [PEER / "bin" / "python", "-c", RUN_TWICE, package, model, source, target]
    # It may fail when it ends, after it has written the results.
    environment = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path)}
    subprocess.run([*map(str, command)], env=environment, capture_output=True, timeout=200, check=False)
    with np.load(target) as runs:
        found = [runs[run].reshape(-1, 7) for run in "01"]
    counts = [int((rows[:, 2] > 0).sum()) for rows in found]
    assert 0 < counts[1] < counts[0]
    (ours,) = CHIP.load(model.read_bytes()).run(fewer).values()
    np.testing.assert_allclose(found[1], ours.reshape(-1, 7), rtol=0, atol=1e-6)
