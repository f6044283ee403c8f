"""Changes single operators and numbers of ten files in turn: which changes do the quick tests of the area find?

python benchmarks/mutants.py [--count N] [--seed N] [--root TREE] [FILE ...]

Each mutant is one change in a copy of the tree: a comparison, an arithmetic or logical operator, a condition, or a
number. It is killed when a test of its area fails. The same seed draws the same mutants as long as the file stays the
same, so two commits are compared by `--root`. The result is a table in Markdown, with the survivors below it.
"""

from __future__ import annotations

import argparse
import ast
import copy
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("core", "plugins", "packages", "tests", "examples", "docs", "benchmarks")
CHIPS, PLANNING = "tests/chips", "tests/passes/planning"
AREAS: dict[str, tuple[str, ...]] = {
    "plugins/ops/tpuc_ops/quant/arithmetic.py": (
        "tests/ops/quant",
        f"{CHIPS}/test_scalar_inputs.py",
        f"{CHIPS}/test_small_graphs.py",
    ),
    "plugins/ops/tpuc_ops/window.py": ("tests/ops/top", f"{CHIPS}/cv183x/test_rounding.py"),
    "plugins/chips/tpuc_bm1684x/isa/sums.py": (f"{CHIPS}/bm1684x/test_sums.py", f"{CHIPS}/bm1684x/test_programs.py"),
    "core/tpuc/machine/windows.py": (
        f"{CHIPS}/bm1684x/test_sums.py",
        f"{CHIPS}/bm1684x/test_programs.py",
        f"{CHIPS}/cv18xx/test_files.py",
        f"{CHIPS}/cv183x/test_channel_scales.py",
    ),
    "core/tpuc/machine/hazards.py": (
        "tests/core/test_hazards.py",
        f"{CHIPS}/cv183x/test_hazards.py",
        f"{CHIPS}/bm1684x/test_hazards.py",
    ),
    "plugins/chips/tpuc_bm1684x/lowerings/elementwise.py": (
        f"{CHIPS}/test_scalar_inputs.py",
        f"{CHIPS}/bm1684x/kernels/test_lowerings.py",
    ),
    "plugins/chips/tpuc_bm1684x/lowerings/products.py": (
        "tests/frontends/quantized/test_far_zero_points.py",
        f"{CHIPS}/bm1684x/test_networks.py",
        f"{CHIPS}/bm1684x/kernels/test_lowerings.py",
    ),
    "plugins/passes/tpuc_plan/planners/packing.py": (
        f"{PLANNING}/planners",
        f"{CHIPS}/bm1684x/test_split.py",
        f"{CHIPS}/test_reaching_results.py",
    ),
    "plugins/passes/tpuc_plan/regions/placement.py": (
        f"{PLANNING}/test_local_memory.py",
        f"{PLANNING}/test_schedule.py",
        f"{CHIPS}/test_wide_inputs.py",
        f"{CHIPS}/test_choices.py",
    ),
    "plugins/passes/tpuc_plan/tasks/tiling.py": (
        f"{PLANNING}/test_tiling.py",
        f"{CHIPS}/bm1684x/test_split.py",
        f"{CHIPS}/cv183x/test_cycles.py",
        f"{CHIPS}/cv183x/test_rounding.py",
    ),
}
"""Files of arithmetic, lowering and planning, and the tests that judge them: their own, and others that run most of
their lines.
"""
COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
}
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}


def mutated(node: ast.AST) -> ast.AST | None:
    """The node with one change, or nothing where there is none to make."""
    other = copy.deepcopy(node)
    match other:
        case ast.Compare(ops=[one, *_]) if type(one) in COMPARISONS:
            other.ops[0] = COMPARISONS[type(one)]()
        case ast.BinOp(op=one) if type(one) in OPERATORS:
            other.op = OPERATORS[type(one)]()
        case ast.BoolOp(op=one):
            other.op = ast.And() if isinstance(one, ast.Or) else ast.Or()
        case ast.UnaryOp(op=ast.Not()):
            return other.operand
        case ast.IfExp():
            other.body, other.orelse = other.orelse, other.body
        case ast.Constant(value=value) if type(value) is int:
            other.value = value + 1
        case _:
            return None
    return other


def places(tree: ast.AST) -> Iterator[ast.expr]:
    """The expressions in functions that can be changed."""
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            for statement in function.body:
                for node in ast.walk(statement):
                    if isinstance(node, ast.expr) and mutated(node) is not None:
                        yield node


@dataclass(frozen=True)
class Mutant:
    """A file with one change, and what that is."""

    text: str
    what: str


def mutants(source: str, count: int, seed: int) -> list[Mutant]:
    """So many changes of a source, drawn without repetition."""
    found = list(dict.fromkeys((node.lineno, node.col_offset, ast.unparse(node)) for node in places(ast.parse(source))))
    drawn: list[int] = np.random.default_rng(seed).permutation(len(found))[:count].tolist()
    return [_mutant(source, found[index]) for index in sorted(drawn)]


class _Change(ast.NodeTransformer):
    def __init__(self, place: tuple[int, int, str]) -> None:
        self._place, self.what = place, ""

    def visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, ast.expr) and (node.lineno, node.col_offset, ast.unparse(node)) == self._place:
            other = mutated(node)
            assert other is not None
            self.what = f"line {node.lineno}: `{ast.unparse(node)}` becomes `{ast.unparse(other)}`"
            return ast.copy_location(other, node)
        return self.generic_visit(node)


def _mutant(source: str, place: tuple[int, int, str]) -> Mutant:
    change = _Change(place)
    tree = ast.fix_missing_locations(change.visit(ast.parse(source)))
    return Mutant(ast.unparse(tree), change.what)


class Judge:
    """A copy of a tree, in which tests run on one changed file after the other."""

    def __init__(self, root: Path, folder: Path) -> None:
        self._tree = folder / "tree"
        ignored = shutil.ignore_patterns("__pycache__", ".git", ".venv", "build")
        for name in FOLDERS:
            shutil.copytree(root / name, self._tree / name, ignore=ignored)
        for file in root.iterdir():
            if file.is_file() and file.name != ".git":
                shutil.copy(file, self._tree / file.name)
        kinds = [self._tree / "plugins" / kind for kind in ("frontends", "ops", "passes", "chips", "tools")]
        paths = os.pathsep.join(map(str, [self._tree / "core", *kinds]))
        self._environment = {**os.environ, "PYTHONPATH": paths, "PYTHONPYCACHEPREFIX": str(folder / "bytecode")}
        self._environment.pop("PYTHONDONTWRITEBYTECODE", None)

    def source(self, file: str) -> str:
        """What is in a file."""
        return (self._tree / file).read_text("utf-8")

    def kills(self, file: str, text: str, tests: Sequence[str]) -> bool:
        """Does a test fail when the file holds this text? A test that hangs has found something, too."""
        path = self._tree / file
        kept = path.read_bytes()
        path.write_text(text, encoding="utf-8")
        try:
            return not self.passes(tests)
        finally:
            path.write_bytes(kept)

    def passes(self, tests: Sequence[str]) -> bool:
        """Do the tests pass as the tree is?"""
        there = [test for test in tests if (self._tree / test).exists()]
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-x",
            "-p",
            "no:cacheprovider",
            "--slow",
            "-m",
            "not slow or turn",
            *there,
        ]
        try:
            done = subprocess.run(
                command, cwd=self._tree, env=self._environment, capture_output=True, check=False, timeout=1800
            )
        except subprocess.TimeoutExpired:
            return False
        return done.returncode == 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", help="of these only, each by a part of its name")
    parser.add_argument("--count", type=int, default=20, metavar="N", help="mutants of each file (20)")
    parser.add_argument("--seed", type=int, default=0, metavar="N")
    parser.add_argument("--root", type=Path, default=ROOT, metavar="TREE", help="another commit's tree")
    arguments = parser.parse_args()
    survivors: list[str] = []
    print("| file | mutants | killed |\n|---|--:|--:|")
    with tempfile.TemporaryDirectory(prefix="tpuc-mutants-") as folder:
        judge = Judge(arguments.root.resolve(), Path(folder))
        for file, tests in AREAS.items():
            if arguments.files and not any(part in file for part in arguments.files):
                continue
            if not judge.passes(tests):
                print(f"| {file} | its tests fail without any change | |", flush=True)
                continue
            drawn = mutants(judge.source(file), arguments.count, arguments.seed)
            left = [mutant for mutant in drawn if not judge.kills(file, mutant.text, tests)]
            survivors += [f"- {file}, {mutant.what}" for mutant in left]
            print(f"| {file} | {len(drawn)} | {len(drawn) - len(left)} |", flush=True)
    print("", *survivors, sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
