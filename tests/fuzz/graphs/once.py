"""Judges one file, as `tpuc reduce --command` wants it: exit code 1 and a line that is the same for the same fault.

python -m tests.fuzz.graphs.once graph.onnx --chip bm1684x --quantize int8 --values graph.npz
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import warnings
from functools import partial
from pathlib import Path

import click
import numpy as np
import onnx
from onnx import helper

from tests.fuzz.graphs.generate import RandomGraph
from tests.fuzz.graphs.judge import Samples, Subject, check_chip, check_import, judged
from tests.fuzz.graphs.maker import SAMPLES, Array, session_of
from tests.fuzz.graphs.vendor import vendor_of


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--chip", default="", help="without it only the import is judged")
    parser.add_argument("--quantize", default="f32")
    parser.add_argument("--values", type=Path, help="npz with samples of its inputs; random ones otherwise")
    parser.add_argument("--oracle", type=Path, help="folder with the vendor's tools: run it there as well")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    model = onnx.load(arguments.model)
    with tempfile.TemporaryDirectory() as folder:
        subject = Subject(model, _samples(model, arguments.values), Path(folder))
        verdict = judged(partial(check_import, subject), subject)
        if arguments.chip and subject.module is not None:
            run = vendor_of(arguments.oracle) if arguments.oracle else None
            verdict = judged(partial(check_chip, subject, arguments.chip, arguments.quantize, run), subject)
    click.echo(f"tpuc: {verdict.kind}: {verdict.cause}", err=True)
    click.echo(verdict.said, err=True)
    return 1 if verdict.kind in ("wrong", "internal") else 0


def _samples(model: onnx.ModelProto, values: Path | None) -> Samples:
    stored: dict[str, Array] = {}
    if values is not None:
        with np.load(values) as arrays:
            stored = dict(arrays)
    random = np.random.default_rng(0)
    for entry in model.graph.input:
        shape = [dim.dim_value for dim in entry.type.tensor_type.shape.dim]
        dtype = helper.tensor_dtype_to_np_dtype(entry.type.tensor_type.elem_type)
        if entry.name not in stored:
            drawn = (
                random.normal(0, 1, (SAMPLES, *shape)) if dtype.kind == "f" else random.random((SAMPLES, *shape)) < 0.5
            )
            stored[entry.name] = drawn.astype(dtype)
    return tuple({entry.name: stored[entry.name][index] for entry in model.graph.input} for index in range(SAMPLES))


def save(graph: RandomGraph, path: Path) -> Path:
    """The graph as a file, and beside it every value on every sample, so that parts of it can be judged on theirs."""
    path.write_bytes(graph.model.SerializeToString())
    everything = onnx.ModelProto.FromString(graph.model.SerializeToString())
    names = [name for node in graph.model.graph.node for name in node.output if name]
    del everything.graph.output[:]
    everything.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    session = session_of(everything)
    rows = [{**sample, **dict(zip(names, session.run(None, dict(sample)), strict=True))} for sample in graph.samples]
    values = path.with_suffix(".npz")
    np.savez(values, **{name: np.stack([row[name] for row in rows]) for name in rows[0]})  # type: ignore[arg-type]
    return values


if __name__ == "__main__":
    sys.exit(main())
