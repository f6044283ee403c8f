"""What becomes of a random graph: right, refused in a sentence, wrong, or an internal error."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from tpuc.api import FLOAT_MODES, InvalidModel, Module, TpucError, Uniform, Unsupported
from tpuc.errors import LmemOverflow
from tpuc.interpreter import Interpreter
from tpuc.interpreter.values import types_of
from tpuc_driver.data import inputs_of
from tpuc_driver.session import Session
from tpuc_driver.session.compare import meanings
from tpuc_importing.obstacles import ImportRefused
from tpuc_testing.kernel_conformance import FLOAT_BOUNDS, float_error
from tpuc_testing.values import build_exposed

from tests.fuzz.graphs.envelope import Deviation, Known, Precision, deviations
from tests.fuzz.graphs.maker import Array, session_of
from tests.fuzz.graphs.stepwise import differences

Samples = tuple[Mapping[str, Array], ...]
RunVendor = Callable[[Path, Mapping[str, Array]], Mapping[str, Array]]
RUNS = (
    ("bm1684x", "f32"),
    ("bm1684x", "f16"),
    ("bm1684x", "bf16"),
    ("bm1684x", "int8"),
    ("bm1684x", "int8-asym"),
    ("cv183x", "bf16"),
    ("cv183x", "int8"),
)
QUICK = 1
"""How local memory is planned: `--opt 1`."""
LARGEST = {"f16": 65504.0, "bf16": 3.3895e38}
"""Of narrow floats, whose infinities mean what is larger in others."""
STEPS = 127
"""Of a signed byte, to which an op in an integer mode may round an operand that is a float."""
REFUSALS = (Unsupported, LmemOverflow, ImportRefused)
"""What a file that ONNX Runtime runs may meet; no other error, as nothing is wrong with it."""

HOST = Precision(relative=2.0**-21, share=2e-5)
"""Two programs in float32 that sum in different orders."""
PRECISIONS = {
    "f32": Precision(relative=2.0**-21, share=2e-4),
    "f16": Precision(relative=2.0**-11, share=2.0**-8),
    "bf16": Precision(relative=2.0**-8, share=2.0**-5),
    "int8": Precision(relative=0.0, share=2.0**-6, requantized=0.5 / 127, steps=1.5),
    "int8-asym": Precision(relative=0.0, share=2.0**-6, requantized=0.5 / 127, steps=1.5),
}
BF16_BESIDE_INTEGERS = replace(PRECISIONS["int8"], relative=3 * 2.0**-9)
"""Integer networks of cv183x: what is no table and no product is computed in bf16. Three roundings are between a byte
and a number that it is compared with: of the scale, of the product with it, and of the number.
"""


def precision_of(chip: str, mode: str) -> Precision:
    """What a chip's way to compute may change."""
    return BF16_BESIDE_INTEGERS if (chip, mode) == ("cv183x", "int8") else PRECISIONS[mode]


@dataclass
class Verdict:
    """`kind`: ok, refused, wrong or internal; `cause` is the same for the same fault, `said` has the details."""

    kind: str
    cause: str = ""
    said: str = ""
    ratios: dict[str, float] = field(default_factory=dict[str, float])


class Wrong(Exception):
    """A wrong value: what computed it, and how far it is off."""

    def __init__(self, cause: str, said: str) -> None:
        super().__init__(said)
        self.cause = cause


@dataclass
class Subject:
    """A model with sets of inputs, imported once for all chips. `ratios` gathers how close to the bounds ops came."""

    model: onnx.ModelProto
    samples: Samples
    folder: Path
    module: Module | None = None
    tables: dict[bool, Any] = field(default_factory=dict[bool, Any])
    ratios: dict[str, float] = field(default_factory=dict[str, float])

    def inputs(self, module: Module) -> dict[str, Array]:
        """The first sample as the module takes it."""
        return {spec.name: self.samples[0][spec.name].astype(np.float32) for spec in inputs_of(module)}

    def see(self, found: Deviation, where: str) -> None:
        """Raise Wrong where the op is off."""
        name = found.operation.op.name
        self.ratios[name] = max(self.ratios.get(name, 0.0), found.ratio)
        if not found.ratio <= 1:
            raise Wrong(f"{where}: {name}", f"{found}")


def judged(check: Callable[[], None], subject: Subject) -> Verdict:
    """How a check ended."""
    subject.ratios = {}
    try:
        check()
    except Wrong as wrong:
        return Verdict("wrong", wrong.cause, str(wrong), subject.ratios)
    except InvalidModel as error:
        if "does not depend on any input" not in str(error):
            return Verdict("internal", f"{type(error).__name__}: {reason(str(error))}", str(error))
        return Verdict("refused", reason(str(error)), str(error))
    except REFUSALS as refusal:
        return Verdict("refused", reason(str(refusal)), str(refusal))
    except TpucError as error:
        return Verdict("internal", f"{type(error).__name__}: {reason(str(error))}", str(error))
    except Exception as error:  # noqa: BLE001  # whatever comes out is what is looked for
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(place.filename).name}:{place.name}"
        return Verdict("internal", f"{type(error).__name__} in {where}", "".join(traceback.format_exception(error)))
    return Verdict("ok", ratios=subject.ratios)


_BITS_AND_PLACES = (
    *("BitShift", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Det", "GatherElements", "GatherND", "GridSample", "Mod"),
    *("ReverseSequence", "RoiAlign", "ScatterElements", "ScatterND", "TopK"),
)
_CURVES = ("Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Cosh", "Sinh", "Tan")
WITHOUT_LOWERING: Mapping[tuple[str, str], frozenset[str]] = {
    ("cv183x", "bf16"): frozenset((*_BITS_AND_PLACES, *_CURVES)),
    ("cv183x", "int8"): frozenset(_BITS_AND_PLACES),
}
"""Operators that a chip has no lowering for in a mode. Most graphs leave them out: one is enough for a refusal."""
EVERYTHING_EVERY = 10
"""Each so many-th graph may have them."""


def left_out(seed: int, chip: str, mode: str) -> frozenset[str]:
    """Operators that the graph of this seed for a chip and mode does not have."""
    return WITHOUT_LOWERING.get((chip, mode), frozenset()) if seed % EVERYTHING_EVERY else frozenset()


def check_import(subject: Subject) -> None:
    """Front end and host evaluation against ONNX Runtime: floats within rounding, all else exactly."""
    path = subject.folder / "graph.onnx"
    path.write_bytes(subject.model.SerializeToString())
    subject.module = module = Session().transform(path)
    values = _reference(subject.model, subject.samples[0])
    known = {
        name: Known(array.astype(np.float32) if array.dtype.kind != "f" else array) for name, array in values.items()
    }
    for found in deviations(module, subject.inputs(module), known, HOST):
        subject.see(found, "import")
    outputs = Interpreter(module).run(subject.inputs(module))
    wanted = [values[entry.name] for entry in subject.model.graph.output]
    # Function bodies of ONNX make vectors of one element of scalars.
    if [array.shape or (1,) for array in outputs.values()] != [array.shape or (1,) for array in wanted]:
        raise Wrong("import: shapes of outputs", f"{[array.shape for array in outputs.values()]}")


def _reference(model: onnx.ModelProto, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Every value of the graph."""
    everything = onnx.ModelProto.FromString(model.SerializeToString())
    names = {name: None for node in model.graph.node for name in node.output if name}
    del everything.graph.output[:]
    everything.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    session = session_of(everything)
    return {name: np.asarray(array) for name, array in zip(names, session.run(None, dict(inputs)), strict=True)}


def check_chip(
    subject: Subject,
    chip: str,
    mode: str,
    run_vendor: RunVendor | None = None,
    *,
    plain: bool = True,
    tuned: bool = False,
) -> None:
    """The lowered module against TOP, and the simulator against the lowered module; or the vendor's model too.

    All values are outputs of the file, so that every op can be looked at, and it has the quick plan. With `plain` a
    file as users get it is made as well, which has to give the same. With `tuned` integer modes are calibrated as users
    do: corrections move biases to where errors upstream are made up for, and then no op is right by itself.
    """
    assert subject.module is not None
    session = Session(chip=chip, quantize=mode, opt=QUICK)
    table = None if mode in FLOAT_MODES else _table(subject, tuned)
    final, exposed = build_exposed(session, subject.module, table)
    inputs = subject.inputs(final)
    values = session.chip.load(exposed).run(inputs)
    _check_steps(chip, final, {**values, **inputs}, "simulator")
    if table is None or not tuned:
        _check_meaning(subject, final, values, chip, mode, table)
    if plain:
        data = Session(chip=chip, quantize=mode).build(subject.module, table).data
        _check_plain(session.chip.load(data).run(inputs), values)
    if run_vendor is not None and all(array.ndim for array in inputs.values()):  # its tools take no scalar inputs
        file = subject.folder / f"graph{session.chip.description.suffix}"
        file.write_bytes(exposed)
        _check_steps(chip, final, {**run_vendor(file, inputs), **inputs}, "vendor")


def _table(subject: Subject, tuned: bool) -> Any:
    assert subject.module is not None
    if tuned not in subject.tables:
        path = subject.folder / "samples.npz"
        names = [spec.name for spec in inputs_of(subject.module)]
        rows = {name: np.stack([sample[name].astype(np.float32) for sample in subject.samples]) for name in names}
        np.savez(path, **rows)  # type: ignore[arg-type]
        session = Session()
        if tuned:
            subject.tables[tuned] = session.calibrate(subject.module, dataset=path)
        else:
            options = {"tune_num": 0, "bias_num": 0}
            subject.tables[tuned] = session.calibrate(subject.module, dataset=path, method="max", options=options)
    return subject.tables[tuned]


def _check_steps(chip: str, final: Module, values: Mapping[str, Array], who: str) -> None:
    for operation, said in differences(chip, final, values):
        raise Wrong(f"{who} of {chip}: {operation.op.name}", f"{who} and evaluation differ: {said}")


def _check_meaning(
    subject: Subject, final: Module, values: Mapping[str, Array], chip: str, mode: str, table: Any
) -> None:
    assert subject.module is not None
    types, known = types_of(final), dict[str, Known]()
    for name, array in meanings(final, values).items():
        array, element = array.reshape(types[name].dims), types[name].element
        if isinstance(element, Uniform):
            low, high = ((bound - element.zero_point) * element.scale for bound in element.bounds)
            known[name] = Known(array, element.scale / 2, low, high)
        else:
            largest = LARGEST.get(types[name].storage.name, np.inf)
            threshold = np.inf if table is None or name not in table.entries else table.entries[name].threshold
            noise = 0.0 if threshold == np.inf else threshold / STEPS
            known[name] = Known(np.clip(array, -largest, largest), 0.0, -largest, largest, noise, threshold)
    for found in deviations(subject.module, subject.inputs(subject.module), known, precision_of(chip, mode)):
        subject.see(found, f"{chip} {mode}")


def _check_plain(outputs: Mapping[str, Array], values: Mapping[str, Array]) -> None:
    """Without further outputs another plan is made, and with it perhaps another order of sums."""
    for name, array in outputs.items():
        wanted = values[name].reshape(array.shape)
        if array.dtype.kind in "iu" and not np.array_equal(array, wanted):
            raise Wrong("plan: integers", f"{name} depends on what else is an output")
        if array.dtype.kind not in "iu" and float_error(array, wanted) > FLOAT_BOUNDS.get(array.dtype.name, 0.01):
            raise Wrong("plan: floats", f"{name} depends on what else is an output")


def reason(said: str) -> str:
    """A sentence without what differs from graph to graph."""
    said = re.sub(r"^.*?\.onnx: ", "", said.splitlines()[0])
    said = re.sub(r" \(and \d+ more:.*", "", said)
    return re.sub(r"\d+(\.\d+)?", "N", re.sub(r"'[^']*'", "'..'", said))
