"""Digests of compiled files: which ones a change of the compiler alters, byte by byte.

python benchmarks/digests.py [--model-data DIR] [--workers N] [--update] [NAME | SEED ...]

Networks by name (see `NETWORKS`), and random graphs by number, which together have nearly every operator. Without
`--update` the digests are compared with benchmarks/digests.json, and every difference is printed. int8 ranges come from
one random sample. The bytes do not depend on the processor.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import hashlib
import json
import sys
import tempfile
import warnings
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from tpuc.api import FLOAT_MODES, TpucError
from tpuc_driver.session import Session

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.traffic import ENDS, compiled, network_file
from tests.fuzz.graphs.generate import random_graph
from tests.fuzz.graphs.judge import RUNS, left_out

DIGESTS = Path(__file__).with_name("digests.json")
GOLDEN = Path(__file__).resolve().parents[1] / "tests" / "golden"
Pair = tuple[str, str, int]
"""Chip, mode, batch."""

BOTH: tuple[Pair, ...] = (
    *(("bm1684x", "int8", 1), ("bm1684x", "f16", 1)),
    *(("cv183x", "int8", 1), ("cv183x", "bf16", 1)),
)
MORE: tuple[Pair, ...] = (
    *(("bm1684x", "f32", 1), ("bm1684x", "bf16", 1), ("bm1684x", "int8-asym", 1)),
    *(("bm1684x", "int8", 4), ("bm1684x", "f16", 4), ("cv183x", "int8", 4)),
)
NETWORKS: dict[str, tuple[Pair, ...]] = {
    **dict.fromkeys(("digits", "resnet8", "kws", "mnist", "lenet"), (*BOTH, *MORE)),
    **dict.fromkeys(("vww", "ad", "blazeface", "ultraface_slim_320", "squeezenet"), BOTH),
    "mobilenet_v2_quant": (("bm1684x", "int8", 1), ("bm1684x", "int8-asym", 1), ("cv183x", "int8", 1)),
    "mobilenet_v1_0.25_128": (("bm1684x", "int8", 1), ("cv183x", "int8", 1)),
    "yunet_n_320": (("bm1684x", "f16", 1), ("cv183x", "int8", 1)),
    "yolox_nano_416": (("bm1684x", "int8", 1),),
    "resnet50": (("bm1684x", ENDS, 1),),
}
"""Some seventy pairs; most networks need `--model-data`."""
SEEDS = range(60)


def digest(data: bytes) -> str:
    """Enough of SHA-256 to tell files apart."""
    return hashlib.sha256(data).hexdigest()[:16]


def of_network(name: str, data: Path | None) -> dict[str, str]:
    """Digests of one network's files."""
    found: dict[str, str] = {}
    for chip, mode, batch in NETWORKS[name]:
        with tempfile.TemporaryDirectory() as text:
            path = network_file(name, data, Path(text), batch)
            found[f"{chip} {mode} {batch}"] = digest(compiled(name, path, chip, mode, Path(text), batch)[1].data)
    return found


def of_graph(seed: int) -> dict[str, str]:
    """Digests of one random graph's files, or that it is refused."""
    found: dict[str, str] = {}
    for chip, mode in RUNS:
        graph = random_graph(seed, left_out(seed, chip, mode))
        with tempfile.TemporaryDirectory() as text, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about values that no graph should have
            path, samples = Path(text) / "graph.onnx", Path(text) / "samples.npz"
            path.write_bytes(graph.model.SerializeToString())
            rows: dict[str, Any] = {name: array[None].astype(np.float32) for name, array in graph.samples[0].items()}
            np.savez(samples, **rows)
            session = Session(chip=chip, quantize=mode)
            try:
                module = session.transform(path)
                table = None
                if mode not in FLOAT_MODES:
                    options = {"tune_num": 0, "bias_num": 0}
                    table = session.calibrate(module, dataset=samples, method="max", options=options)
                found[f"{chip} {mode}"] = digest(session.build(module, table).data)
            except TpucError:
                found[f"{chip} {mode}"] = "refused"
    return found


def of_goldens() -> dict[str, str]:
    """Digests of the golden texts."""
    files = sorted(path for path in GOLDEN.iterdir() if path.suffix in (".mlir", ".npz"))
    return {path.name: digest(path.read_bytes()) for path in files}


def of(name: str, data: Path | None) -> dict[str, str]:
    """Digests by what is asked for."""
    if name == "goldens":
        return of_goldens()
    return of_graph(int(name)) if name.isdigit() else of_network(name, data)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model-data", type=Path)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--update", action="store_true")
    parser.add_argument("names", nargs="*", default=["goldens", *map(str, SEEDS), *NETWORKS])
    arguments = parser.parse_args()
    committed: dict[str, dict[str, str]] = json.loads(DIGESTS.read_text()) if DIGESTS.exists() else {}
    changed = total = 0
    with ProcessPoolExecutor(arguments.workers) as pool:
        found = pool.map(partial(of, data=arguments.model_data), arguments.names)
        for name, digests in zip(arguments.names, found, strict=True):
            known = committed.get(name, {})
            total += len(digests)
            for key in sorted(known.keys() | digests.keys()):
                if known.get(key) != digests.get(key):
                    changed += 1
                    print(f"{name}, {key}: {known.get(key)} -> {digests.get(key)}", flush=True)
            committed[name] = digests
            if arguments.update:
                DIGESTS.write_text(json.dumps(committed, indent=1, sort_keys=True) + "\n")
    print(f"{changed} of {total} digests differ")
    return 1 if changed and not arguments.update else 0


if __name__ == "__main__":
    sys.exit(main())
