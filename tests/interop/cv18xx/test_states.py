"""States that files keep between runs of the vendor's runtime, which holds their constants in memory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tpuc_driver.session import Session
from tpuc_driver.session.boundary import Boundary

from tests.families import each
from tests.frontends.tflite.test_variables import frames, streaming

pytestmark = pytest.mark.interop
CHILD = """\
import ctypes, os, sys
import numpy as np
tools, model, given, results = sys.argv[1:]
sys.path.insert(0, tools)
import run_file
runtime = ctypes.CDLL(str(run_file.peer_package() / "lib" / "libcviruntime.so"))
runtime.CVI_NN_TensorPtr.restype = ctypes.c_void_p
handle, data = ctypes.c_void_p(), open(model, "rb").read()
assert runtime.CVI_NN_RegisterModelFromBuffer(data, len(data), ctypes.byref(handle)) == 0
ins, outs = (ctypes.POINTER(run_file.CviTensor)() for _ in range(2))
counts = ctypes.c_int32(), ctypes.c_int32()
parts = [ctypes.byref(one) for one in (ins, counts[0], outs, counts[1])]
assert runtime.CVI_NN_GetInputOutputTensors(handle, *parts) == 0
rows = []
for frame in np.load(given):
    ctypes.memmove(runtime.CVI_NN_TensorPtr(ctypes.byref(ins[0])), frame.ctypes.data, frame.nbytes)
    assert runtime.CVI_NN_Forward(handle, ins, counts[0], outs, counts[1]) == 0
    found = [(runtime.CVI_NN_TensorPtr(ctypes.byref(one)), one.bytes) for one in outs[: counts[1].value]]
    rows.append(b"".join(ctypes.string_at(*one) for one in found))
np.save(results, np.frombuffer(b"".join(rows), np.float32).reshape(len(rows), -1))
os._exit(0)  # exit handlers of the runtime crash now and then
"""


@each("chip", ["cv181x", "cv183x"])
def test_frames_are_those_of_the_simulator(chip: str, oracle_dir: Path, tmp_path: Path) -> None:
    (tmp_path / "net.tflite").write_bytes(streaming(start=1.5))
    session = Session(chip=chip, quantize="bf16")
    data = session.build(session.transform(tmp_path / "net.tflite"), boundary=Boundary(state="internal")).data
    (tmp_path / "net.cvimodel").write_bytes(data)
    loaded, samples = session.chip.load(data), frames("FLOAT32")[:20]
    np.save(tmp_path / "x.npy", np.stack(samples))
    runs = [loaded.run({"x": sample.reshape(loaded.inputs[0].shape)}) for sample in samples]
    wanted = np.stack([np.concatenate([one.ravel() for one in run.values()]) for run in runs])
    places = [str(one) for one in (oracle_dir, tmp_path / "net.cvimodel", tmp_path / "x.npy", tmp_path / "y.npy")]
    done = subprocess.run([sys.executable, "-c", CHILD, *places], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), wanted)
