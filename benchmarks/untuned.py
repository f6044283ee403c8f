"""Cycles on BM1684X of networks that the planner was not tuned for, beside those of the vendor's own files.

python benchmarks/untuned.py [--mode MODE] [--update] [--vendor BIN] [NAME ...]

The networks are in benchmarks/architectures/untuned.py, with random weights, one sample and four at once. Results are
compared with benchmarks/untuned.json, and `--update` writes them there. `--vendor`: the folder with the vendor's
`model_transform`, `run_calibration` and `model_deploy`, for rows that lack the vendor's cycles; both compilers' files
are timed by the same model. `python docs/generate.py` shows the table in docs/figures.md.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from math import exp, log
from pathlib import Path

import numpy as np
from tpuc_driver.session import Session

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import traffic
from benchmarks.architectures.untuned import NETWORKS, network

RESULTS = Path(__file__).with_suffix(".json")
CHIP = "bm1684x"
MODES = ("f16", "int8")
BATCH = 4
SECONDS = 900
"""Of one command of the vendor's."""

Row = dict[str, int]
"""`cycles` of one sample, of `four` at once, and of the `vendor`'s file for one."""


def read() -> dict[str, dict[str, Row]]:
    """Committed results, by network and mode."""
    return json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}


def write(found: Mapping[str, Mapping[str, Row]]) -> None:
    lines = [f"{json.dumps(name)}: {json.dumps(found[name], sort_keys=True)}" for name in NETWORKS if name in found]
    RESULTS.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def cycles_of(session: Session, data: bytes) -> int:
    """Cycles of a compiled file."""
    return session.chip.load(data).timeline(session.chip.profiles[0]).cycles


def ours(name: str, mode: str, folder: Path) -> Row:
    """Cycles of one sample and of four."""
    found: list[int] = []
    for batch in (1, BATCH):
        path = folder / f"{name}_{batch}.onnx"
        path.write_bytes(network(name, batch).SerializeToString())
        session, built = traffic.compiled(name, path, CHIP, mode, folder)
        found.append(cycles_of(session, built.data))
    return {"cycles": found[0], "four": found[1]}


def vendors(name: str, mode: str, programs: Path, folder: Path) -> int:
    """Cycles of the file that the vendor's compiler makes for one sample."""
    model = network(name)
    (folder / "net.onnx").write_bytes(model.SerializeToString())
    samples = folder / "samples"
    samples.mkdir()
    random = np.random.default_rng(0)
    shapes = {one.name: [dim.dim_value for dim in one.type.tensor_type.shape.dim] for one in model.graph.input}
    for index in range(2):
        drawn = {key: random.uniform(0, 1, shape).astype(np.float32) for key, shape in shapes.items()}
        np.savez(samples / f"{index}.npz", **drawn)  # type: ignore[arg-type]
    deploy = ["model_deploy", "--mlir", "net.mlir", "--quantize", mode.upper(), "--chip", CHIP, "--model", "net.bmodel"]
    steps = [["model_transform", "--model_name", name, "--model_def", "net.onnx", "--mlir", "net.mlir"]]
    if mode == "int8":
        steps.append(["run_calibration", "net.mlir", "--dataset", "samples", "--input_num", "2", "-o", "table"])
        deploy += ["--calibration_table", "table"]
    environment = {**os.environ, "PATH": f"{programs.resolve()}{os.pathsep}{os.environ['PATH']}"}
    for command, *arguments in (*steps, deploy):
        subprocess.run(
            [programs.resolve() / command, *arguments],
            check=True, cwd=folder, env=environment, timeout=SECONDS, capture_output=True,
        )  # fmt: skip
    return cycles_of(Session(chip=CHIP, quantize=mode), (folder / "net.bmodel").read_bytes())


def mean(ratios: list[float]) -> float:
    """Geometric mean."""
    return exp(sum(map(log, ratios)) / len(ratios))


def to_vendor(row: Row) -> float:
    return row["cycles"] / row["vendor"]


def of_four(row: Row) -> float:
    """Four samples at once, over four times one."""
    return row["four"] / (BATCH * row["cycles"])


def ratios(mode: str) -> dict[str, float]:
    """The committed ratios to the vendor's cycles, by network."""
    return {name: to_vendor(found[mode]) for name, found in read().items() if "vendor" in found[mode]}


def fours(mode: str) -> dict[str, float]:
    """The committed ratios of four samples at once to four times one, by network."""
    return {name: of_four(found[mode]) for name, found in read().items()}


def summary(rows: Mapping[str, Row]) -> Iterator[str]:
    """Means and worst rows of a mode."""
    known = {name: to_vendor(row) for name, row in rows.items() if "vendor" in row}
    four = {name: of_four(row) for name, row in rows.items()}
    for told, found in (("over the vendor's cycles", known), ("four samples over four times one", four)):
        if found:
            worst = max(found, key=lambda name: found[name])
            average = f"geometric mean {mean([*found.values()]):.2f}"
            yield f"{told}: {average}, worst {found[worst]:.2f} ({worst}), {len(found)} networks"


def table() -> Iterator[str]:
    """The committed rows, for docs/figures.md."""
    yield f"| untuned network |{''.join(f' {mode} | vendor | ratio | four / 4 |' for mode in MODES)}"
    yield f"|---|{'--:|' * 4 * len(MODES)}"
    for name, found in read().items():
        cells = [f"{row['cycles']:,} | {_vendor(row)} | {of_four(row):.2f}" for row in (found[mode] for mode in MODES)]
        yield f"| {name} | {' | '.join(cells)} |"


def _vendor(row: Row) -> str:
    return f"{row['vendor']:,} | {to_vendor(row):.2f}" if "vendor" in row else "refused |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mode", choices=MODES)
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--vendor", type=Path, metavar="BIN")
    parser.add_argument("names", nargs="*", default=[*NETWORKS], metavar="NAME")
    arguments = parser.parse_args()
    committed = read()
    for mode in MODES if arguments.mode is None else (arguments.mode,):
        rows: dict[str, Row] = {}
        print(f"{mode:14} {'cycles':>11} {'vendor':>11} ratio {'four':>12} ratio")
        for name in arguments.names:
            known = committed.get(name, {}).get(mode, {})
            with tempfile.TemporaryDirectory() as folder:
                row = rows[name] = ours(name, mode, Path(folder))
            if "vendor" in known:
                row["vendor"] = known["vendor"]
            elif arguments.vendor is not None:
                with tempfile.TemporaryDirectory() as folder:
                    try:
                        row["vendor"] = vendors(name, mode, arguments.vendor, Path(folder))
                    except subprocess.SubprocessError as error:
                        print(f"{name}: {error}", file=sys.stderr)
            vendor = f"{row['vendor']:>11,} {to_vendor(row):5.2f}" if "vendor" in row else " " * 17
            changed = "".join(f" {key} was {known[key]:,}" for key in known if known[key] != row[key])
            print(
                f"{name:14} {row['cycles']:>11,} {vendor} {row['four']:>12,} {of_four(row):5.2f}{changed}", flush=True
            )
            committed.setdefault(name, {})[mode] = row
            if arguments.update:
                write(committed)
        print(*summary(rows), sep="\n")


if __name__ == "__main__":
    main()
