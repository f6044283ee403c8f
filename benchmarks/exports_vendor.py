"""Run compiled exports on the vendor's functional models: the same bits as in the simulators?

python benchmarks/exports_vendor.py --oracle DIR [NAME ...] [--again] [--python PYTHON]

DIR has the tools that run the vendor's models; PYTHON exports as for benchmarks/exports.py. Results go to
benchmarks/exports_vendor.json; `python docs/generate.py` shows them in docs/models.md.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tpuc.errors import TpucError
from tpuc_driver.session import Session

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.architectures import ARCHITECTURES, Architecture  # noqa: E402  # they lie beside this file
from benchmarks.architectures.measure import sentence  # noqa: E402  # they lie beside this file
from benchmarks.exports import exported  # noqa: E402  # they lie beside this file
from tests.vendor_runs import VendorRunError, VendorRuns  # noqa: E402  # the interop tests' way to run files

RESULTS = Path(__file__).with_suffix(".json")
NETWORKS = (
    *(("vit_tiny_patch16_224", "dynamo"), ("mobilenet_v2", "legacy"), ("swin_tiny_patch4_window7_224", "legacy")),
    *(("yolo11n", "legacy"), ("detr", "dynamo"), ("segformer", "dynamo"), ("bert", "legacy"), ("llama", "dynamo")),
    *(("crnn_gru", "legacy"), ("conformer", "legacy")),
)
"""Architectures of many families, by name and exporter."""
CELLS = (("bm1684x", "f16"), ("bm1684x", "int8"), ("cv181x", "bf16"), ("cv181x", "int8"))
SAMPLES = 4
SECONDS = 900.0
"""Of one run on the vendor's model."""

Array = NDArray[Any]


def compared(ours: Mapping[str, Array], theirs: Mapping[str, Array]) -> dict[str, Any]:
    """`bits` where all outputs have the same bits, else the worst difference as a part of an output's range."""
    worst = 0.0
    for name, array in ours.items():
        found = theirs[name].reshape(-1)
        array = array.reshape(-1)
        if found.tobytes() == array.tobytes():
            continue
        found = found.view(array.dtype) if found.dtype != array.dtype and found.itemsize == array.itemsize else found
        ranged = max(float(np.ptp(array.astype(np.float64))), 1e-30)
        worst = max(worst, float(np.abs(found.astype(np.float64) - array.astype(np.float64)).max()) / ranged)
    return {"result": "bits"} if worst == 0.0 else {"result": "differs", "worst": float(f"{worst:.2g}")}


def run(row: Architecture, file: Path, chip: str, mode: str, vendor: VendorRuns) -> dict[str, Any]:
    """One network on one chip."""
    session = Session(chip=chip, quantize=mode)
    with tempfile.TemporaryDirectory() as folder:
        try:
            module = session.transform(file)
            names = {value.name for value in module.main.inputs}
            drawn = [{one.name: one.array(seed) for one in row.inputs if one.name in names} for seed in range(SAMPLES)]
            table = None
            if mode == "int8":
                samples = Path(folder) / "samples"
                samples.mkdir()
                for seed, sample in enumerate(drawn):
                    np.savez(samples / f"{seed}.npz", **sample)  # type: ignore[arg-type]
                table = session.calibrate(module, dataset=samples, options={"tune_num": 0, "bias_num": 0})
            data = session.build(module, table).data
            loaded = session.chip.load(data)
            integers = {one.name for one in loaded.inputs if str(one.element).endswith("i32")}
            fed = {
                key: array.astype(np.int32 if key in integers else np.float32)
                for key, array in drawn[0].items()
                if key in {one.name for one in loaded.inputs}
            }
            ours = loaded.run(fed)
            target = Path(folder) / f"net{session.chip.description.suffix}"
            target.write_bytes(data)
            return compared(ours, vendor.run(target, fed, timeout=SECONDS))
        except (TpucError, VendorRunError) as error:
            return {"result": "failed", "why": sentence(error)[:300]}


def read() -> dict[str, Any]:
    """All results by architecture and exporter."""
    return json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--oracle", type=Path, required=True)
    parser.add_argument("--again", action="store_true", help="run what has a result, too")
    parser.add_argument("--python", default=sys.executable, help="the interpreter that exports")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    vendor = VendorRuns(arguments.oracle)
    for name, exporter in NETWORKS:
        if arguments.names and name not in arguments.names:
            continue
        row = next(row for row in ARCHITECTURES if row.name == name)
        file, why = exported(row, exporter, arguments.python)
        if why:
            print(f"{name}: no export: {why}", flush=True)
            continue
        for chip, mode in CELLS:
            found, step = read(), f"{chip} {mode}"
            entry = found.setdefault(f"{name} {exporter}", {})
            if step in entry and not arguments.again:
                continue
            entry[step] = run(row, file, chip, mode, vendor)
            lines = [f"{json.dumps(one)}: {json.dumps(value)}" for one, value in found.items()]
            RESULTS.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
            print(f"{name} {step}: {entry[step]}", flush=True)
    vendor.close()


if __name__ == "__main__":
    main()
