"""Networks that ONNX Runtime's quantizer wrote, compiled as they come and compared with ONNX Runtime's own results.

`python benchmarks/quantized.py --model-data DIR [--samples N] [--forms NAME,...] [--chips NAME,...] [ROW ...]`

For each network and form: the share of values that lie more than one step of the output's scale away, before and
behind lowering (the TPU module's evaluation, which simulators give to the bit), and the decisions that are equal. ONNX
Runtime computes such a network in two ways, with integers and with floats between the casts, which differ from each
other by steps; values are compared with the nearer one, decisions with those of integers. No samples are given to
`compile`: ranges are the network's own.

Four columns say what such numbers mean. `op` gives every op the operands that ONNX Runtime computes without
optimizations, and is the largest share of integers of one op that differ from its own. `one step` is the share of
values of ONNX Runtime that move by more than a step when one element of the input moves by one. `floats` are the
decisions that both of its ways have in common. `inner` are those that it keeps when one integer of one tensor inside of
the network moves by a step, the fewest of three places; files of operators have no floats there to move.

Activations that are quantized as they come (`dynamic`) are floats on chips without float32: there decisions count.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import version_converter
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process
from tpuc.api import Module
from tpuc.interpreter import Interpreter
from tpuc.interpreter.values import real_values, types_of
from tpuc_driver.data import inputs_of
from tpuc_driver.session import Session
from tpuc_driver.session.running import as_stored
from tpuc_ops.quant.casts import Quantize

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.frontends.quantized.networks import session_options
from tests.frontends.quantized.op_by_op import steps_by_op
from tests.models.decisions import Agreement, deciding
from tests.models.onnx_of import onnx_of
from tests.models.rows import ROWS, Row, load, lower

CHIPS = ("bm1684x", "cv183x")
CALIBRATED = 8
"""Samples that the quantizer sees."""

MOST_TAPPED = 10
"""Samples of which every op is looked at by itself."""


@dataclass(frozen=True)
class Form:
    """How the quantizer writes the network."""

    opset: int
    activations: QuantType
    weights: QuantType
    per_channel: bool = False
    format: QuantFormat = QuantFormat.QDQ


S8, U8 = QuantType.QInt8, QuantType.QUInt8
FORMS: Mapping[str, Form | None] = {
    **{f"s8s8-channel-{opset}": Form(opset, S8, S8, True) for opset in (13, 21)},
    **{f"u8s8-{opset}": Form(opset, U8, S8) for opset in (13, 21)},
    **{f"u8u8-{opset}": Form(opset, U8, U8) for opset in (13, 21)},
    "qoperator-13": Form(13, U8, S8, False, QuantFormat.QOperator),
    "dynamic-13": None,
}


class Samples(CalibrationDataReader):
    """Inputs by name, for the quantizer."""

    def __init__(self, name: str, samples: Sequence[Any]) -> None:
        self._rows = iter([{name: sample} for sample in samples])

    def get_next(self) -> Any:
        return next(self._rows, None)


def source(row: Row, model_data: Path, opset: int, folder: Path) -> Path:
    """The float network as ONNX of an opset, prepared as the quantizer asks for it."""
    path, raw = folder / f"prepared{opset}.onnx", folder / f"raw{opset}.onnx"
    if path.exists():
        return path
    if not row.model.endswith(".onnx"):
        onnx.save(onnx_of(load(row, model_data), opset), path)
        return path
    model = onnx.load(model_data / row.model)
    constants = {entry.name for entry in model.graph.initializer}
    inputs = [entry for entry in model.graph.input if entry.name not in constants]
    del model.graph.input[:]
    model.graph.input.extend(inputs)
    model = version_converter.convert_version(model, opset)
    model.ir_version = max(model.ir_version, 8)
    onnx.save(model, raw)
    quant_pre_process(str(raw), str(path), skip_symbolic_shape=True)
    return path


def quantized(path: Path, form: Form | None, samples: Sequence[Any], result: Path) -> None:
    """Let the quantizer write its file."""
    if form is None:
        quantize_dynamic(path, result)
        return
    (name,) = (entry.name for entry in onnx.load(path).graph.input)
    kinds = {"activation_type": form.activations, "weight_type": form.weights, "per_channel": form.per_channel}
    quantize_static(path, result, Samples(name, samples), quant_format=form.format, **kinds)


def runtime(path: Path, samples: Sequence[Any], *, plain: bool = False) -> list[dict[str, Any]]:
    """What ONNX Runtime computes: by its kernels for integers, or with `plain` as the casts say it, in floats."""
    session = onnxruntime.InferenceSession(path, session_options(plain=plain))
    ((entry), names) = session.get_inputs()[0], [output.name for output in session.get_outputs()]
    return [dict(zip(names, session.run(names, {entry.name: one}), strict=True)) for one in samples]


def evaluated(module: Module, samples: Sequence[Any], names: Sequence[str]) -> list[dict[str, Any]]:
    """The module's outputs as real values under the names of the network."""
    interpreter, types, specs = Interpreter(module), types_of(module), inputs_of(module)
    (spec,) = specs
    rows: list[dict[str, Any]] = []
    for sample in samples:
        results = interpreter.run(as_stored(specs, {spec.name: sample.reshape(spec.shape)}))
        real = [real_values(array, types[key]) for key, array in results.items()]
        rows.append(dict(zip(names, real, strict=True)))
    return rows


def largest_share(module: Module, path: Path, samples: Sequence[Any]) -> float:
    """Of the integers of one op that differ from the runtime's where both have the same operands."""
    found = steps_by_op(module, path, samples, plain=True)
    return max(float((one.steps > 0).mean()) for one in found)


def moved_by_one_step(module: Module, path: Path, samples: Sequence[Any], wanted: Sequence[Mapping[str, Any]]) -> float:
    """The share of the runtime's values that change by more than a step where one element of the input does by one."""
    casts = [cast for cast in module.main.operations if isinstance(cast.op, Quantize)]
    step = casts[0].result.tensor.uniform.scale
    beside = [sample.copy() for sample in samples]
    for index, one in enumerate(beside):
        place = np.random.default_rng(index).integers(one.size)
        one.reshape(-1)[place] -= np.copysign(step, one.reshape(-1)[place])
    return beyond_one_step(runtime(path, beside, plain=True), wanted)


def beyond_one_step(got: Sequence[Mapping[str, Any]], wanted: Sequence[Mapping[str, Any]]) -> float:
    """The share of values that lie more than a step of their output away: the worst output's.

    A step is the smallest difference between two values that the runtime gives.
    """
    shares: list[float] = []
    for name in wanted[0]:
        theirs = np.stack([row[name].reshape(-1) for row in wanted]).astype(np.float64)
        ours = np.stack([row[name].reshape(-1) for row in got]).astype(np.float64)
        levels = np.unique(np.round(theirs, 7))
        step = np.diff(levels).min() if levels.size > 1 else 1.0
        shares.append(float((np.abs(ours - theirs) > 1.01 * step + 1e-6).mean()))
    return max(shares)


def decisions(
    name: str, data: Path, got: Sequence[Mapping[str, Any]], wanted: Sequence[Mapping[str, Any]]
) -> Agreement:
    """How many decisions of a row are the same in both runs; detections count as often as either has them."""
    first, second = ([list(values.values()) for values in rows] for rows in (wanted, got))
    return deciding(name, data).agreement(first, second)


PLACES = 3
"""Integers that move, one at a time."""


def one_inner_moved(path: Path, samples: Sequence[Any]) -> list[list[dict[str, Any]]]:
    """What the runtime computes, and then what it does when one integer of a tensor moves by a step, for some of them:
    the tensor a quarter down the network, of those that a cast makes of computed floats. Empty where there is none.
    """
    model = onnx.shape_inference.infer_shapes(onnx.load(path))
    constants = {entry.name: onnx.numpy_helper.to_array(entry) for entry in model.graph.initializer}
    computed = {name for entry in model.graph.node for name in entry.output}
    shapes = {
        entry.name: [dim.dim_value for dim in entry.type.tensor_type.shape.dim] for entry in model.graph.value_info
    }
    casts = [
        (index, entry)
        for index, entry in enumerate(model.graph.node)
        if entry.op_type == "QuantizeLinear" and entry.input[0] in computed and shapes.get(entry.output[0])
    ]
    if not casts:
        return []
    index, cast = casts[len(casts) // 4]
    size = int(np.prod(shapes[cast.output[0]]))
    step = constants[cast.input[1]]
    entry = onnx.helper.make_node("Add", [cast.input[0], "added"], ["moved"])
    cast.input[0] = "moved"
    model.graph.node.insert(index, entry)
    places = np.random.default_rng(0).choice(size, PLACES, replace=False)
    runs: list[list[dict[str, Any]]] = []
    for moved in (places[:0], *(places[at : at + 1] for at in range(PLACES))):
        added = np.zeros(size, np.float32)
        added[moved] = step
        added = added.reshape(shapes[cast.output[0]])
        model.graph.initializer.append(onnx.numpy_helper.from_array(added, "added"))
        changed = path.with_name("moved.onnx")
        onnx.save(model, changed)
        runs.append(runtime(changed, samples))
        del model.graph.initializer[-1]
    return runs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"of {', '.join(ROWS)}; all of them when left out")
    parser.add_argument("--model-data", type=Path, required=True)
    parser.add_argument("--samples", type=int, default=50)
    parser.add_argument("--forms", default=",".join(FORMS))
    parser.add_argument("--chips", default=",".join(CHIPS), help="may be empty: TOP alone")
    arguments = parser.parse_args()
    chips = [chip for chip in arguments.chips.split(",") if chip]
    heading = f"{'network':14}{'form':17}{'TOP':>18}{'op':>9}{'one step':>10}{'floats':>10}{'inner':>10}"
    print(heading + "".join(f"{chip:>18}" for chip in chips) + f"{'s':>7}")
    for name in arguments.rows or ROWS:
        row, data = ROWS[name], arguments.model_data / "data"
        samples = row.samples(data)[: arguments.samples]
        with tempfile.TemporaryDirectory() as folder:
            for form_name in arguments.forms.split(","):
                form = FORMS[form_name]
                path = Path(folder) / f"{name}_{form_name}.onnx"
                prepared = source(row, arguments.model_data, 13 if form is None else form.opset, Path(folder))
                try:
                    quantized(prepared, form, row.calibration(data)[:CALIBRATED], path)
                except Exception as error:  # noqa: BLE001  # whatever the quantizer itself fails with
                    print(f"{name:14}{form_name:17} the quantizer fails: {type(error).__name__}", flush=True)
                    continue
                same = partial(decisions, name, data)
                print(f"{name:14}{form_name:17}" + compared(same, path, samples, chips, form is None), flush=True)


def compared(
    same: Callable[[Sequence[Any], Sequence[Any]], Agreement],
    path: Path,
    samples: Sequence[Any],
    chips: Sequence[str],
    is_float: bool,
) -> str:
    """The columns behind the names."""
    wanted, plain = runtime(path, samples), runtime(path, samples, plain=True)
    start = process_time()
    module = Session().transform(path)
    names = list(wanted[0])

    def beside(got: Sequence[Mapping[str, Any]]) -> str:
        share = min(beyond_one_step(got, theirs) for theirs in (wanted, plain))
        return f"{'-' if is_float else f'{share:.2%}':>9}{_of(same(got, wanted)):>9}"

    text = beside(evaluated(module, samples, names))
    if is_float:
        text += "".join("-".rjust(width) for width in _WIDTHS)
    else:
        base, *moved = one_inner_moved(path, samples) or [[]]
        kept = [same(base, run) for run in moved]
        cells = (
            f"{largest_share(module, path, samples[:MOST_TAPPED]):.3%}",
            f"{moved_by_one_step(module, path, samples, plain):.2%}",
            _of(same(plain, wanted)),
            _of(min(kept, key=lambda one: one[0] / max(1, one[1]))) if kept else "-",
        )
        text += "".join(cell.rjust(width) for cell, width in zip(cells, _WIDTHS, strict=True))
    for chip in chips:
        lowered = lower(module, chip, None, None)
        text += beside(evaluated(lowered, samples, names))
    return text + f"{process_time() - start:7.1f}"


_WIDTHS = (9, 10, 10, 10)
"""Of the columns between TOP's and those of chips."""


def _of(agreement: Agreement) -> str:
    """Those that are the same, of all."""
    return "{}/{}".format(*agreement)


if __name__ == "__main__":
    main()
