"""What each tuning constant of calibration is worth: on how many networks it matters, and what it gains elsewhere.

`python benchmarks/ablation.py --model-data DIR`: every number in `tpuc_quantize.options` at its value, halved, doubled,
and at what switches it off where `NEUTRAL` has that. Each form calibrates small networks and is
scored on samples that calibration did not see: decibels of the worst output plus the percentage of predictions that
agree with the float network. The leave-one-out column chooses one of the forms by all networks but one, and shows what
today's value gains over that choice on the network that was left out. `--update` writes `benchmarks/ablation.json`;
figures that are there already are kept with `--resume`. `--only NAME` looks at one constant. A process of its own runs
each form, with the number replaced in the module's source as it is imported.
"""

from __future__ import annotations

import argparse
import ast
import importlib.abc
import importlib.machinery
import json
import math
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

TABLE = Path(__file__).with_name("ablation.json")
PACKAGE = "tpuc_quantize"
LEFT_OUT = ("CheckOptions.", "Budgets.check", "Budgets.most_checked", "Budgets.least_colors", "Budgets.most_colors")
"""What only remarks and the self-check depend on."""
NEUTRAL: Mapping[str, float] = {
    "AgreementOptions.softer": 1.0,
    "Budgets.quick": 0.0,
    "ComparisonOptions.clear_gain": 0.0,
    "ComparisonOptions.clearly": 0.0,
    "ComparisonOptions.deviations": 0.0,
    "ComparisonOptions.equalized": 0.0,
    "ComparisonOptions.equalized_early": 0.0,
    "ComparisonOptions.hopeless": 120.0,
    "ComparisonOptions.hopeless_early": 120.0,
    "Margins.few": 0.0,
    "Margins.output": 1.0,
    "Margins.rare": 1.0,
    "SearchGrid.least_gain": 0.0,
}
NETWORKS = ("mnist", "kws01", "ic01")
CALIBRATED, CHECKED = 100, 60
"""Samples for calibration, and others for the score."""
CHANGES_DB = 0.005
Figures = dict[str, list[float]]
"""By network: decibels of the worst output, percentage of predictions that agree."""


def constants() -> dict[str, float]:
    """Defaults of options, as `file:Class.field`."""
    root = Path(__file__).resolve().parents[1] / "plugins" / "passes" / PACKAGE / "options"
    found: dict[str, float] = {}
    for path in sorted(root.glob("*.py")):
        for name, node in _numbers(ast.parse(path.read_text())):
            if not name.startswith(LEFT_OUT):
                found[f"{path.stem}:{name}"] = float(_value(node))
    return found


def _numbers(tree: ast.Module) -> Iterable[tuple[str, ast.expr]]:
    """Fields of classes with a number as default."""
    for node in (one for one in tree.body if isinstance(one, ast.ClassDef)):
        for field in node.body:
            match field:
                case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value) if _is_number(value):
                    yield f"{node.name}.{name}", value
                case _:
                    pass


def _value(node: ast.expr) -> Any:
    return eval(compile(ast.Expression(node), "", "eval"), {})  # noqa: S307  # our own source, such as 1 << 15


def _is_number(node: ast.expr) -> bool:
    try:
        value = _value(node)
    except NameError:
        return False
    return isinstance(value, (int, float)) and not isinstance(value, bool)


class Replacing(importlib.abc.SourceLoader):
    """Loads a module with one number replaced."""

    def __init__(self, path: str, name: str, value: float) -> None:
        self._path, self._name, self._value = path, name, value

    def get_filename(self, fullname: str) -> str:
        return self._path

    def get_data(self, path: str | bytes) -> bytes:
        text = Path(str(path)).read_text()
        node = dict(_numbers(ast.parse(text)))[self._name]
        lines = text.splitlines(keepends=True)
        line = lines[node.lineno - 1]
        lines[node.lineno - 1] = line[: node.col_offset] + repr(self._value) + line[node.end_col_offset :]
        return "".join(lines).encode()


class Finder(importlib.abc.MetaPathFinder):
    """Finds the module that defines a constant before others do."""

    def __init__(self, constant: str, value: float) -> None:
        place, _, self._name = constant.partition(":")
        self._module = f"{PACKAGE}.options.{place}"
        self._value = value

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if fullname != self._module:
            return None
        found = importlib.machinery.PathFinder.find_spec(fullname, path)
        if found is None or found.origin is None:
            return None
        return importlib.machinery.ModuleSpec(fullname, Replacing(found.origin, self._name, self._value))


def prepare(name: str, data: Path, work: Path) -> None:
    """A network as text, and its samples."""
    from tpuc_driver.data import inputs_of
    from tpuc_driver.session import Session

    from tests.models.rows import ROWS, load

    row = ROWS[name]
    module = load(row, data, 1)
    (spec,) = inputs_of(module)
    Session().save(module, work / f"{name}.mlir")
    for part, samples in (("calib", row.calibration(data / "data")), ("eval", row.samples(data / "data"))):
        count = CALIBRATED if part == "calib" else CHECKED
        chosen = [samples[place * len(samples) // count] for place in range(count)] if len(samples) > count else samples
        arrays: dict[str, Any] = {spec.name: np.stack([one.reshape(spec.shape) for one in chosen])}
        np.savez(work / f"{name}_{part}.npz", **arrays)


def score(names: Sequence[str], work: Path) -> Figures:
    """What calibration gives today, on samples that it did not see."""
    from tpuc_driver.data import inputs_of, open_samples
    from tpuc_driver.session import Session
    from tpuc_driver.session.checking import self_check

    result: Figures = {}
    for name in names:
        session = Session()
        module = session.load(work / f"{name}.mlir")
        table = session.calibrate(module, dataset=work / f"{name}_calib.npz")
        samples = open_samples(inputs_of(module), work / f"{name}_eval.npz")
        found = self_check(session.configuration, module, None, table, samples, tuned=False)
        assert found is not None
        same, total = (sum(getattr(one, field) for one in found.outputs) for field in ("same", "total"))
        worst = min(min(max(one.decibels, 0.0), 80.0) for one in found.outputs)
        result[name] = [round(worst, 3), round(100.0 * same / max(total, 1), 3)]
    return result


def forms_of(constant: str, value: float) -> dict[str, float]:
    """The numbers that are tried instead; whole numbers stay whole."""
    whole = value == int(value) and abs(value) >= 1
    forms = {"halved": value / 2, "doubled": value * 2}
    forms = {word: float(max(int(one), 1)) if whole else one for word, one in forms.items()}
    neutral = NEUTRAL.get(constant.partition(":")[2])
    return forms if neutral is None else {"neutral": neutral, **forms}


def run_form(constant: str, value: float, names: Sequence[str], work: Path) -> Figures | None:
    """In a process of its own; None where calibration fails with such a number."""
    whole = value == int(value) and abs(value) >= 1
    given = ["--child", constant, repr(int(value) if whole else value), str(work), *names]
    done = subprocess.run([sys.executable, __file__, *given], capture_output=True, text=True, check=False)
    return json.loads(done.stdout) if done.returncode == 0 else None


def total(figures: Sequence[float]) -> float:
    """Decibels and predictions in one number."""
    return sum(figures)


def row(forms: Mapping[str, Figures], today: Figures) -> tuple[int, dict[str, float], float]:
    """On how many networks something changes, the mean gain of today's value over each form, and leave-one-out: its
    gain over what the other networks would choose.
    """
    changed = {
        name
        for figures in forms.values()
        for name in today
        if max(abs(a - b) for a, b in zip(figures[name], today[name], strict=True)) > CHANGES_DB
    }
    gains = {
        word: float(np.mean([total(today[name]) - total(figures[name]) for name in today]))
        for word, figures in forms.items()
    }
    unseen: list[float] = []
    every = {"today": today, **forms}
    for left in today:
        best = max(every, key=lambda word: sum(total(every[word][name]) for name in today if name != left))
        unseen.append(total(today[left]) - total(every[best][left]))
    return len(changed), gains, float(np.mean(unseen))


def show(results: Mapping[str, Any]) -> None:
    """The table of what is known."""
    today: Figures = results["today"]
    print(f"{'constant':58}{'value':>10}{'changes':>9}{'neutral':>9}{'halved':>9}{'doubled':>9}{'unseen':>9}")
    for constant, entry in results["constants"].items():
        forms = {word: one for word, one in entry["forms"].items() if one is not None}
        if not forms:
            continue
        changed, gains, unseen = row(forms, today)
        cells = "".join(f"{gains.get(word, math.nan):9.2f}" for word in ("neutral", "halved", "doubled"))
        print(f"{constant:58}{entry['value']:10.4g}{changed:6}/{len(today)}{cells}{unseen:9.2f}")


def main() -> None:
    if sys.argv[1:2] == ["--child"]:
        constant, value, work, *names = sys.argv[2:]
        if constant != "today":
            sys.meta_path.insert(0, Finder(constant, ast.literal_eval(value)))
        print(json.dumps(score(names, Path(work))))
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model-data", type=Path)
    parser.add_argument("--networks", nargs="+", default=list(NETWORKS))
    parser.add_argument("--only", action="append", default=[], metavar="NAME")
    parser.add_argument("--update", action="store_true", help=f"write {TABLE.name}")
    parser.add_argument("--resume", action="store_true", help="keep what the table has")
    arguments = parser.parse_args()
    results: dict[str, Any] = json.loads(TABLE.read_text()) if TABLE.exists() else {"constants": {}}
    if arguments.model_data is None:
        show(results)
        return
    if not arguments.resume:
        results = {"constants": {}}
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        for name in arguments.networks:
            prepare(name, arguments.model_data, work)
        results["today"] = run_form("today", 0.0, arguments.networks, work)
        assert results["today"] is not None, "calibration fails as it is"
        for constant, value in constants().items():
            if constant in results["constants"] or (
                arguments.only and constant.partition(":")[2] not in arguments.only
            ):
                continue
            forms = {
                word: run_form(constant, one, arguments.networks, work)
                for word, one in forms_of(constant, value).items()
            }
            results["constants"][constant] = {"value": value, "forms": forms}
            print(constant, json.dumps(forms), flush=True)
            if arguments.update:
                TABLE.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")
    show(results)


if __name__ == "__main__":
    main()
