"""What each tuning constant and each proposer of calibration is worth, on networks that it was not chosen on.

`python benchmarks/ablation.py --model-data DIR --update`: calibrates small networks with every constant at what
switches it off (where `NEUTRAL` has that), and with every proposer left out; `--vary` also halves and doubles
constants. Each form is scored on samples that calibration did not see: decibels of the worst output plus the percentage
of predictions that agree with the float network. The leave-one-out column chooses one of the forms by all networks but
one, and shows what today's form gains over that choice on the network that was left out. `--update` writes
`benchmarks/ablation.json` and the page `benchmarks/ablation.md`; figures that are there already are kept with
`--resume`. `--only NAME` looks at one constant or proposer. A process of its own runs each form, with the number
replaced in the module's source as it is imported.
"""

from __future__ import annotations

import argparse
import ast
import importlib.abc
import importlib.machinery
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

ROOT = Path(__file__).resolve().parents[1]
TABLE = Path(__file__).with_name("ablation.json")
PAGE = TABLE.with_suffix(".md")
PACKAGE = "tpuc_quantize"
ROOMS = ("options", "remedies")
"""Folders of the package with option dataclasses that calibration reads."""
LEFT_OUT = ("CheckOptions.", "TailOptions.", "Budgets.most_checked", "Budgets.least_colors", "Budgets.most_colors")
"""What only remarks, the self-check and lowering depend on."""
NEUTRAL: Mapping[str, float] = {
    "AgreementOptions.sure": 0.0,
    "AgreementOptions.softer": 1.0,
    "AgreementOptions.unseen_weight": 1.0,
    "Budgets.quick": 0.0,
    "ChannelOptions.range_margin": 1.0,
    "ComparisonOptions.clear_gain": 0.0,
    "ComparisonOptions.clearly": 0.0,
    "ComparisonOptions.deviations": 0.0,
    "ComparisonOptions.enough": 1e9,
    "ComparisonOptions.equalized": 0.0,
    "ComparisonOptions.hopeless": 120.0,
    "Margins.far": 1e9,
    "Margins.few": 0.0,
    "Margins.most": 1.0,
    "Margins.output": 1.0,
    "Margins.rare": 1.0,
    "RoundingOptions.least_gain": 0.0,
    "SearchGrid.least_gain": 0.0,
    "SearchGrid.many_elements": 1e9,
    "SearchGrid.much_work": 1e18,
    "SearchGrid.nearly_all": 0.0,
}
"""The number with which a constant has no effect."""
SMALL = ("mnist", "kws01", "ic01")
"""What the constants were varied on first: `--vary` halves and doubles them on these."""
NETWORKS = (*SMALL, "lenet", "vww01", "ad01", "blazeface", "ultraface")
CALIBRATED, CHECKED = 100, 60
"""Samples for calibration, and others for the score."""
CHANGES_DB = 0.005
LEFT = "left out"
PROPOSER = "proposer:"
Figures = dict[str, list[float]]
"""By network: decibels of the worst output, percentage of predictions that agree."""


def constants() -> dict[str, float]:
    """Defaults of options, as `file:Class.field`."""
    found: dict[str, float] = {}
    for path in _option_files():
        for name, node in _numbers(ast.parse(path.read_text())):
            if not name.startswith(LEFT_OUT):
                found[f"{path.stem}:{name}"] = float(_value(node))
    return found


def _option_files() -> Iterator[Path]:
    for room in ROOMS:
        yield from sorted((ROOT / "plugins" / "passes" / PACKAGE / room).glob("*.py"))


def _numbers(tree: ast.Module) -> Iterable[tuple[str, ast.expr]]:
    """Fields of frozen dataclasses of options with a number as default."""
    for node in (one for one in tree.body if isinstance(one, ast.ClassDef) and not one.bases):
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
        (file,) = (path for path in _option_files() if path.stem == place)
        self._module = f"{PACKAGE}.{file.parent.name}.{place}"
        self._value = value

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if fullname != self._module:
            return None
        found = importlib.machinery.PathFinder.find_spec(fullname, path)
        if found is None or found.origin is None:
            return None
        return importlib.machinery.ModuleSpec(fullname, Replacing(found.origin, self._name, self._value))


def proposers() -> list[str]:
    """Those that the race names."""
    from tpuc_quantize.calibration.race import RACE, UNSEEN_RACE

    return sorted({name for stage in (*RACE, *UNSEEN_RACE) for name in stage.proposers})


def leave_out(proposer: str) -> None:
    """Let a proposer propose nothing in this process."""
    from tpuc.registry import Registry

    definition: Any = Registry().get("tpuc.proposers", proposer)
    definition.propose = lambda *_: iter(())


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


def forms_of(constant: str, value: float, *, vary: bool) -> dict[str, float]:
    """The numbers that are tried instead, by word; whole numbers stay whole."""
    neutral = NEUTRAL.get(constant.partition(":")[2])
    forms = {} if neutral is None else {"neutral": neutral}
    if vary:
        forms |= {"halved": value / 2, "doubled": value * 2}
    whole = value == int(value) and abs(value) >= 1
    return {word: float(int(one)) if whole else one for word, one in forms.items()}


def run_form(constant: str, value: float, names: Sequence[str], work: Path) -> Figures | None:
    """In a process of its own; None where calibration fails with such a number."""
    whole = value == int(value) and abs(value) >= 1
    given = ["--child", constant, repr(int(value) if whole else value), str(work), *names]
    threads = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, __file__, *given], capture_output=True, text=True, check=False, env=threads)
    return json.loads(done.stdout) if done.returncode == 0 else None


def child(arguments: Sequence[str]) -> None:
    """One form, whose figures are printed."""
    constant, value, work, *names = arguments
    if constant.startswith(PROPOSER):
        leave_out(constant.removeprefix(PROPOSER))
    elif constant != "today":
        sys.meta_path.insert(0, Finder(constant, ast.literal_eval(value)))
    print(json.dumps(score(names, Path(work))))


def total(figures: Sequence[float]) -> float:
    """Decibels and predictions in one number."""
    return sum(figures)


def changed(forms: Mapping[str, Figures], today: Figures) -> set[str]:
    """The networks on which some form differs."""
    return {
        name
        for figures in forms.values()
        for name, figure in figures.items()
        if max(abs(a - b) for a, b in zip(figure, today[name], strict=True)) > CHANGES_DB
    }


def gain(figures: Figures, today: Figures) -> float:
    """What today's form gains over another in the mean of the networks."""
    return float(np.mean([total(today[name]) - total(figures[name]) for name in figures]))


def unseen(forms: Mapping[str, Figures], today: Figures) -> float:
    """Leave one out: what today's form gains over what the other networks would choose."""
    names = set[str].intersection(*(set(figures) for figures in forms.values()))
    every = {"today": today, **forms}
    gains: list[float] = []
    for left in sorted(names):
        best = max(every, key=lambda word: sum(total(every[word][name]) for name in names - {left}))
        gains.append(total(today[left]) - total(every[best][left]))
    return float(np.mean(gains))


HEAD = """# What calibration's constants and proposers are worth

Written by `python benchmarks/ablation.py --model-data DIR --update`. Every row compares today's calibration with a form
that has one constant switched off, halved or doubled, or one proposer left out. A score is decibels of the worst output
plus the percentage of predictions that agree with the float network, on {checked} samples that calibration did not see.

- changes: networks on which the form differs, of those that ran it
- gain: what today's form gains in the mean of these networks; negative where the other form is better
- unseen: what today's form gains on a network for which one of the forms was chosen by all the other networks
- least, most: the smallest and largest gain on one network

Figures kept by `--resume` are of the tree that measured them, and are compared with that tree's own calibration.

Networks: {networks}.
"""
REMOVED = """
## Removed

Options that another one says as well are merged with it; a proposer or constant without effect is gone. These rows are
compared with calibration as it was before the removal.
"""


def page(results: Mapping[str, Any]) -> str:
    """The tables of what is known: of what there is, and of what is removed."""
    today: Figures = results["today"]
    there = {*constants(), *(f"{PROPOSER}{name}" for name in proposers())}
    kept, removed = (
        [
            _row(constant, entry["value"], word, figures, entry.get("today", today))
            for constant, entry in sorted(results["constants"].items())
            for word, figures in sorted(entry["forms"].items())
            if figures is not None and (constant in there) == is_there
        ]
        for is_there in (True, False)
    )
    head = HEAD.format(checked=CHECKED, networks=", ".join(sorted(today)))
    columns = ("constant or proposer", "value", "form", "changes", "gain", "unseen", "least", "most")
    table = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    return "\n".join([head, *table, *kept, REMOVED, *table, *removed, ""])


def _row(constant: str, value: float | None, word: str, figures: Figures, today: Figures) -> str:
    gains = [total(today[name]) - total(figures[name]) for name in figures]
    differ = f"{len(changed({word: figures}, today))} of {len(figures)}"
    numbers = " | ".join(
        f"{number:+.2f}" for number in (gain(figures, today), unseen({word: figures}, today), min(gains), max(gains))
    )
    name = constant.partition(":")[2]
    return f"| `{name}` | {'' if value is None else f'{value:g}'} | {word} | {differ} | {numbers} |"


def wanted(arguments: argparse.Namespace) -> Iterator[tuple[str, float | None, dict[str, float]]]:
    """Constants and proposers with the forms that are asked for."""
    only = arguments.only
    for proposer in proposers():
        if not only or proposer in only:
            yield f"{PROPOSER}{proposer}", None, {LEFT: 0.0}
    for constant, value in constants().items():
        if not only or constant.partition(":")[2] in only:
            yield constant, value, forms_of(constant, value, vary=arguments.vary)


def measure(results: dict[str, Any], arguments: argparse.Namespace, work: Path) -> None:
    """Add the figures that are missing, network by network."""
    for name in arguments.networks:
        prepare(name, arguments.model_data, work)
        if name not in results["today"]:
            found = run_form("today", 0.0, [name], work)
            assert found is not None, f"{name}: calibration fails as it is"
            results["today"] |= found
    for constant, value, forms in wanted(arguments):
        entry = results["constants"].setdefault(constant, {"value": value, "forms": {}})
        for word, number in forms.items():
            known = entry["forms"].get(word) or {}
            names = [name for name in arguments.networks if name not in known]
            if names and (found := run_form(constant, number, names, work)) is not None:
                entry["forms"][word] = {**known, **found}
                print(constant, word, json.dumps(found), flush=True)
        if arguments.update:
            write(results)


def write(results: Mapping[str, Any]) -> None:
    """The figures and their page."""
    TABLE.write_text(json.dumps(results, sort_keys=True, indent=1) + "\n")
    PAGE.write_text(page(results))


def main() -> None:
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2:])
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model-data", type=Path)
    parser.add_argument("--networks", nargs="+", default=list(NETWORKS))
    parser.add_argument("--only", action="append", default=[], metavar="NAME")
    parser.add_argument("--vary", action="store_true", help="halve and double constants, too")
    parser.add_argument("--update", action="store_true", help=f"write {TABLE.name} and {PAGE.name}")
    parser.add_argument("--resume", action="store_true", help="keep what the table has")
    arguments = parser.parse_args()
    results: dict[str, Any] = json.loads(TABLE.read_text()) if TABLE.exists() else {}
    if arguments.model_data is None:
        print(page(results), end="")
        return
    if not arguments.resume:
        results = {}
    results = {"constants": {}, "today": {}, **results}
    with tempfile.TemporaryDirectory() as folder:
        measure(results, arguments, Path(folder))
    print(page(results), end="")


if __name__ == "__main__":
    main()
