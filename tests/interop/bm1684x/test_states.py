"""States that files keep between runs of the vendor's runtime, and programs of deployment folders that reset them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tpuc.npz import write_npz
from tpuc_driver.session import Session
from tpuc_driver.session.boundary import Boundary

from tests.families import each
from tests.frontends.tflite.test_variables import frames, streaming
from tests.interop.bundles import printed, vendor_library
from tests.interop.test_bundle import Deployed

pytestmark = [pytest.mark.interop, pytest.mark.usefixtures("oracle_dir")]
CHILD = """\
import os, sys
import numpy as np
package, model, given, results = sys.argv[1:]
sys.path.append(package + "/python")
import pyruntime_bm
model = pyruntime_bm.Model(model, 0, "")
net, data, rows = model.Net(model.networks[0]), np.load(given), []
for frame in range(len(data["x"])):
    for one in net.inputs:
        one.data[:] = data[one.name][frame].reshape(one.data.shape)
    net.forward_dynamic([tuple(one.data.shape) for one in net.inputs])
    rows.append(np.concatenate([np.array(one.data).ravel() for one in net.outputs]))
np.save(results, np.stack(rows))
os._exit(0)
"""
FIRST = (0, 8)
"""The frames before which the states are reset."""


@each(("chip", "firsts"), [("bm1684x", FIRST), ("cv186x", FIRST[:1])])
def test_frames_are_those_of_the_simulator(chip: str, firsts: tuple[int, ...], tmp_path: Path) -> None:
    """CV186x has no input that resets; its constants are loaded once."""
    (tmp_path / "net.tflite").write_bytes(streaming(start=1.5))
    session = Session(chip=chip, quantize="f32")
    built = session.build(session.transform(tmp_path / "net.tflite"), boundary=Boundary(state="internal"))
    (tmp_path / "net.bmodel").write_bytes(built.data)
    loaded, samples = session.chip.load(built.data), np.stack(frames("FLOAT32")[:12])
    rows: list[np.ndarray[tuple[int], np.dtype[np.float32]]] = []
    for number, sample in enumerate(samples):
        if number in firsts:
            loaded.reset()
        found = loaded.run({"x": sample.reshape(loaded.inputs[0].shape)})
        rows.append(np.concatenate([one.ravel() for one in found.values()]))
    inputs = {"x": samples}
    if loaded.reset_input is not None:
        inputs[loaded.reset_input.name] = np.isin(np.arange(len(samples)), firsts).astype(np.int32)
    write_npz(tmp_path / "x.npz", inputs)
    libraries, models = vendor_library(), tmp_path / "model"
    models.mkdir()
    kind = "bm1688" if chip == "cv186x" else chip
    (models / "libcmodel.so").symlink_to(libraries / f"libcmodel_{kind}.so")
    python = libraries.parents[4] / "bin" / "python"
    places = [str(one) for one in (libraries.parent, *(tmp_path / name for name in ("net.bmodel", "x.npz", "y.npy")))]
    environment = os.environ | {"LD_LIBRARY_PATH": str(models)}
    done = subprocess.run(
        [python, "-c", CHILD, *places], cwd=models, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), np.stack(rows))


def test_programs_of_a_folder_reset_states_once(tmp_path: Path) -> None:
    """`total` is the sum of all frames and the last frame again; a program starts from zeros, run by run."""
    (tmp_path / "net.tflite").write_bytes(streaming())
    made = Deployed("bm1684x", tmp_path)
    made.compile(tmp_path / "net.tflite", "--state", "internal", "--quantize", "f32")
    x = np.array([4, 3, 2, 1], np.float32)
    (made.bundle / "x.bin").write_bytes(x.tobytes())
    runtime = made.runtime()
    program = runtime.build(made.bundle)
    for _ in range(2):
        ran = runtime.run([program, "--frames", "3", "x.bin"], made.bundle)
        assert ran.returncode == 0, ran.stderr
        totals = ran.stdout.split("frame ")[1:]
        found = [[float(row[1]) for row in printed(part, "total", 2)[:4]] for part in totals]
        np.testing.assert_allclose(found, [(count + 1) * x for count in (1, 2, 3)])
    ran = runtime.run([sys.executable, "run.py", "x.bin"], made.bundle)
    assert ran.returncode == 0, ran.stderr
    np.testing.assert_allclose([float(row[1]) for row in printed(ran.stdout, "total", 2)[:4]], 2 * x)
