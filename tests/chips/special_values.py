"""Functions of every element at special values: what chips compute beside what ONNX Runtime does.

`python -m tests.chips.special_values` writes the tables of `docs/special-values.md`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import tpuc
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from tpuc.errors import Unsupported

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]

PAGE = Path(__file__).resolve().parents[2] / "docs" / "special-values.md"
RUNS = (
    ("bm1684x", "f32"),
    ("bm1684x", "f16"),
    ("bm1684x", "bf16"),
    ("cv183x", "bf16"),
    ("cv181x", "bf16"),
    ("c", "f32"),
    ("cv186x", "f32"),
    ("cv186x", "f16"),
    ("cv186x", "bf16"),
)
_TYPES = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16}
_STEP = {"f32": 4e-6, "f16": 2.0**-9, "bf16": 2.0**-6}
"""Of a result, relative: functions in bf16 round at two or three steps."""
_OPSET = 20
_LEAST = {"f32": 2.0**-126, "f16": 2.0**-14, "bf16": 2.0**-126}
"""Normal numbers."""
_MOST = {"f32": 3.4028234663852886e38, "f16": 65504.0, "bf16": 3.3895313892515355e38}
_LARGE = 2.0**15
"""Angles from here on."""
_FAR = 2.0**63
"""Magnitudes from here on, and below their inverses."""
_COMPARISONS = ("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "IsInf", "IsNaN")


@dataclass(frozen=True)
class Case:
    """One operator with its constants: `before` and `after` the operand."""

    kind: str
    before: tuple[float, ...] = ()
    after: tuple[float | None, ...] = ()
    attributes: tuple[tuple[str, float | str], ...] = ()
    pairs: bool = False
    """Is `y` another operand?"""

    def __str__(self) -> str:
        constants = [*(f"{one:g}" for one in self.before), "x", *("" if o is None else f"{o:g}" for o in self.after)]
        constants += ["y"] if self.pairs else []
        given = [f"{name}={value}" for name, value in self.attributes]
        return f"{self.kind}({', '.join(constants + given)})"


def _unary() -> Iterator[Case]:
    plain = "Abs Acos Acosh Asin Asinh Atan Atanh Ceil Cos Cosh Elu Erf Floor Gelu HardSigmoid HardSwish Identity "
    plain += "IsInf IsNaN LeakyRelu Mish Neg Relu Round Selu Sigmoid Sign Sin Sinh Softplus Softsign "
    plain += "Tan Tanh"
    yield from map(Case, plain.split())
    yield Case("Celu", attributes=(("alpha", 1.5),))
    yield Case("Gelu", attributes=(("approximate", "tanh"),))
    yield Case("Shrink", attributes=(("lambd", 0.5),))
    yield Case("ThresholdedRelu", attributes=(("alpha", 0.5),))


def _powers() -> Iterator[Case]:
    for exponent in (0, -0.0, 1, 2, 3, 4, 7, 9, 10, 65, 66, -1, -2, -3, -10, -65, 0.5, -0.5, 1.5, -1.5, 0.25, 1 / 3):
        yield Case("Pow", after=(float(exponent),))
    for base in (0, 1, 2, 10, 0.5, 1.5, -1, -2, -0.5):
        yield Case("Pow", before=(float(base),))
    yield from map(Case, ("Reciprocal", "Sqrt", "Log", "Exp"))


def _binary() -> Iterator[Case]:
    for number in (0.0, 1.0, -2.0):
        for kind in ("Add", "Sub", "Mul", "Div", "Max", "Min", "Mod", *_COMPARISONS[:5]):
            attributes = (("fmod", 1),) if kind == "Mod" else ()
            yield Case(kind, after=(number,), attributes=attributes)
            yield Case(kind, before=(number,), attributes=attributes)
        yield Case("PRelu", after=(number,))
        yield Case("Clip", after=(number,))
        yield Case("Clip", after=(None, number))


def _pairs() -> Iterator[Case]:
    for kind in ("Add", "Sub", "Mul", "Div", "Max", "Min", "Pow", "Mod", "Where", *_COMPARISONS[:5]):
        yield Case(kind, attributes=(("fmod", 1),) if kind == "Mod" else (), pairs=True)
    yield Case("Cast", attributes=(("to", TensorProto.INT32),))
    yield Case("SiLU")
    yield Case("Rsqrt")


GROUPS: Mapping[str, Sequence[Case]] = {
    "functions": tuple(_unary()),
    "powers": tuple(_powers()),
    "constants": tuple(_binary()),
    "pairs": tuple(_pairs()),
}


def values(mode: str, *, ends: bool) -> Floats:
    """Zeros, denormals, ends of the range, powers of two, whole numbers, halves; of a chip with `ends` those beyond."""
    powers = [2.0**k for k in (-126, -125, -120, -100, -64, -63, -62, -25, -24, -15, -14, 15, 16, 63, 64, 65, 100, 126)]
    fine = [2.0**k for k in range(-12, 13)]
    whole = [float(k) for k in range(3, 41)] + [81.0, 88.0, 100.0, 104.0, 144.0, 400.0, 710.0, 1000.0]
    halves = [k + 0.5 for k in range(20)] + [k / 16 for k in range(1, 24)]
    others = [1e-45, 1e-40, 3e-5, 1e-3, 65504.0, 1e10, 1e30, 3.3895313892515355e38, 3.4028234663852886e38]
    angles = [1.57079637, 3.14159274]
    positive = np.array([0.0, *powers, *fine, *whole, *halves, *others, *angles, np.inf], np.float32)
    all_ = np.concatenate([positive, -positive, np.float32([np.nan])])
    with np.errstate(over="ignore"):
        stored = all_.astype(_TYPES[mode]).astype(np.float32)
    _, first = np.unique(stored.view(np.uint32), return_index=True)  # both zeros
    stored = stored[np.sort(first)]
    return stored if ends else stored[np.isfinite(stored)]


def kind_of(x: float, mode: str) -> str:
    """In words."""
    size = abs(x)
    for name, holds in (
        ("NaN", np.isnan(x)),
        ("infinite", np.isinf(x)),
        ("zero", size == 0),
        ("denormal", size < _LEAST[mode]),
        ("below 2**-63", size < 1 / _FAR),
        ("from 2**63", size >= _FAR),
        ("from 2**15", size >= _LARGE),
    ):
        if holds:
            return f"negative, {name}" if np.signbit(x) and not np.isnan(x) else name
    return "negative" if x < 0 else "positive"


def model_of(cases: Sequence[Case], extent: int) -> onnx.ModelProto:
    """From `x` and, for pairs, `y: [1, extent]` to an output of each case, named by its place."""
    nodes: list[onnx.NodeProto] = []
    constants = [numpy_helper.from_array(np.float32([0.0]), "zero")]
    for index, case in enumerate(cases):
        operands: list[str] = []
        for number in (*case.before, "x", *case.after, *(("y",) if case.pairs else ())):
            if isinstance(number, float):
                shape = (1,) if case.kind == "PRelu" else ()
                constants.append(numpy_helper.from_array(np.full(shape, number, np.float32), f"c{len(constants)}"))
                operands.append(constants[-1].name)
            else:
                operands.append(number or "")
        nodes += _nodes(case, operands, index)
    infos = [helper.make_tensor_value_info(f"o{index}", TensorProto.FLOAT, [1, extent]) for index in range(len(cases))]
    read = {name for step in nodes for name in step.input}
    constants = [constant for constant in constants if constant.name in read]
    names = ("x", "y") if any(case.pairs for case in cases) else ("x",)
    given = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, extent]) for name in names]
    graph = helper.make_graph(nodes, "special", given, infos, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=9)


def _nodes(case: Case, operands: Sequence[str], index: int) -> list[onnx.NodeProto]:
    inner, result = f"b{index}", f"o{index}"
    steps: list[tuple[str, Sequence[str], str]]
    match case.kind:
        case "SiLU":
            steps = [("Sigmoid", operands, inner), ("Mul", ["x", inner], result)]
        case "Rsqrt":
            steps = [("Sqrt", operands, inner), ("Reciprocal", [inner], result)]
        case "Where":
            steps = [("Greater", ["x", "zero"], inner), ("Where", [inner, *operands], result)]
        case kind if kind in _COMPARISONS or kind == "Cast":
            steps = [(kind, operands, inner), ("Cast", [inner], result)]
        case kind:
            steps = [(kind, operands, result)]
    made: list[onnx.NodeProto] = []
    for place, (kind, names, name) in enumerate(steps):
        given = dict(case.attributes) if kind == case.kind and place == 0 else {}
        given = {"to": TensorProto.FLOAT} if kind == "Cast" and not given else given
        made.append(helper.make_node(kind, names, [name], f"n{index}_{place}", **given))
    return made


def inputs_of(model: onnx.ModelProto, x: Floats) -> dict[str, Floats]:
    """The values, and beside them others of the same."""
    turned = np.roll(x[::-1], 7)
    return dict(zip((info.name for info in model.graph.input), (x, turned), strict=False))


def expected(model: onnx.ModelProto, x: Floats) -> list[Doubles]:
    """By ONNX Runtime, each operator by itself."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    results = onnxruntime.InferenceSession(model.SerializeToString(), options).run(
        None, {k: v.reshape(1, -1) for k, v in inputs_of(model, x).items()}
    )
    return [result.reshape(-1).astype(np.float64) for result in results]


def computed(model: onnx.ModelProto, x: Floats, chip: str, mode: str, folder: Path) -> list[Doubles]:
    """By the chip, with inputs that `tpuc run` takes for mistakes."""
    path = folder / "special.onnx"
    onnx.save(model, path)
    compiled = tpuc.load(path).compile(chip, mode=mode)
    loaded = compiled._loaded
    given = inputs_of(model, x)
    results = loaded.run(
        {info.name: given[info.name.removesuffix("_f32")].reshape(info.shape) for info in loaded.inputs}
    )
    names = {name.removesuffix("_f32"): array for name, array in results.items()}
    return [np.asarray(names[f"o{index}"], np.float64).reshape(-1) for index in range(len(names))]


def known_to(chip: str, mode: str, cases: Sequence[Case], folder: Path) -> list[Case]:
    """Those that the chip computes."""
    found: list[Case] = []

    def look(some: Sequence[Case]) -> None:
        onnx.save(model_of(some, 4), folder / "some.onnx")
        try:
            tpuc.load(folder / "some.onnx").compile(chip, mode=mode)
            found.extend(some)
        except Unsupported:
            if len(some) > 1:
                look(some[: len(some) // 2])
                look(some[len(some) // 2 :])

    look(cases)
    return found


def is_right(got: Doubles, wanted: Doubles, case: Case, mode: str) -> NDArray[np.bool_]:
    """Equal, or within a few steps; powers in proportion to the logarithm that they round. A denormal may be 0, and
    what the type cannot hold its largest number or infinite.
    """
    with np.errstate(all="ignore"):
        steep = np.abs(np.log(np.abs(wanted))) if case.kind in ("Pow", "Exp", "Cosh", "Sinh") else 0.0
        rtol = _STEP[mode] * np.maximum(1.0, np.nan_to_num(steep, posinf=1.0))
        near = np.abs(got - wanted) <= rtol * np.abs(wanted) + 2 * _LEAST[mode] + _STEP[mode] / 4
        beyond = (np.abs(wanted) >= _MOST[mode] * (1 - rtol)) & (np.abs(got) >= _MOST[mode] * (1 - rtol))
    same_sign = np.sign(got) == np.sign(wanted)
    return (np.isnan(got) & np.isnan(wanted)) | (got == wanted) | near | (beyond & same_sign)


@dataclass(frozen=True)
class Difference:
    """One kind of number at which a chip gives another answer."""

    case: str
    kind: str
    x: float
    got: float
    wanted: float

    def __str__(self) -> str:
        return f"{self.kind}: {self.x:.4g} gives {self.got:.3g} ({self.wanted:.3g})"


def differences(cases: Sequence[Case], chip: str, mode: str, folder: Path) -> tuple[int, list[Difference]]:
    """Results, and the first difference of each kind of number of each case that the chip computes."""
    x = values(mode, ends=not chip.startswith("cv"))
    model = model_of(cases, x.size)
    try:
        results = computed(model, x, chip, mode, folder)
    except Unsupported:
        return differences(known_to(chip, mode, cases, folder), chip, mode, folder)
    found: dict[tuple[str, str], Difference] = {}
    for case, got, wanted in zip(cases, results, expected(model, x), strict=True):
        for place in np.nonzero(~is_right(got, wanted, case, mode))[0]:
            kind = kind_of(float(x[place]), mode) if not np.isnan(wanted[place]) or np.isnan(x[place]) else "no value"
            one = Difference(str(case), kind, float(x[place]), float(got[place]), float(wanted[place]))
            found.setdefault((one.case, kind), one)
    return x.size * len(cases), list(found.values())


def rows(found: Sequence[Difference]) -> list[str]:
    """A table's rows, one for each case."""
    cases = dict.fromkeys(one.case for one in found)
    return [f"| `{case}` | {'; '.join(str(one) for one in found if one.case == case)} |" for case in cases]


def section(chip: str, mode: str) -> str:
    """What the page says of a chip in a mode."""
    lines = [f"## {chip}, {mode}", "", "| function | x, the chip's answer (the float reference) |", "|---|---|"]
    with tempfile.TemporaryDirectory() as folder:
        for cases in GROUPS.values():
            lines += rows(differences(cases, chip, mode, Path(folder))[1])
    return "\n".join(lines) + "\n"


def write_page() -> None:
    """All sections, below the page's text."""
    head = PAGE.read_text(encoding="utf-8").partition("\n## ")[0].rstrip("\n")
    PAGE.write_text("\n\n".join([head, *(section(*run) for run in RUNS)]), encoding="utf-8")


if __name__ == "__main__":
    write_page()
