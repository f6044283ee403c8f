"""Every mistake of a plugin's author that docs/howto/mistakes.md lists is one sentence, which is the page's."""

from __future__ import annotations

import importlib.util
import inspect
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx.helper import make_graph, make_model, make_node, make_opsetid, make_tensor_value_info
from tpuc_driver.cli import main
from tpuc_new.writing import files_of, kinds, write
from tpuc_testing.packages import offers_of

from tests.third_party.distributions import ROOT

PAGE = ROOT / "docs" / "howto" / "mistakes.md"
NAME = "gadget"
TO_FILE = f"-o net.{NAME}"
COMMANDS = {
    "compile": "compile net.onnx --chip bm1684x --quantize f32 -o net.bmodel",
    "compile --quantize int8": "compile net.onnx --chip bm1684x --quantize int8 --dataset samples.npz -o net.bmodel",
    "compile --chip gadget": f"compile net.onnx --chip {NAME} --quantize int8 --dataset samples.npz -o net.{NAME}",
    "plugins --check": "plugins --check",
    "opt --pass gadget": "opt package/tests/gadget.mlir --pass gadget",
}
"""What the page's words for commands stand for."""


@dataclass(frozen=True)
class Mistake:
    """A package of a kind with texts replaced in it: file, old, new. `node`: what a network of its chip has."""

    kind: str
    edits: Sequence[tuple[str, str, str]]
    node: str = "Relu"


SIZES = "return min(channels, LANES), -(-channels // LANES) * row"
READS = 'return [window_box(tile, source, tile.range("c"), self._sliding(node))]'
LOWERED = "return [build(StoredGadget(low=low, high=high), node.operands, type)]"
TABLE = 'KERNELS = KernelTable("bm1684x", "gadget")'

MISTAKES = {
    "syntax error in a module": Mistake(
        "kernel", [("gadget/bm1684x.py", "class StoredGadgetKernel(", "class Stored[(")]
    ),
    "the entry point names no module": Mistake("kernel", [("pyproject.toml", "bm1684x:KERNELS", "bm1685x:KERNELS")]),
    "the entry point names no object": Mistake("kernel", [("pyproject.toml", "bm1684x:KERNELS", "bm1684x:KERNEL")]),
    "the entry point names the class, not its instance": Mistake(
        "chip", [("gadget/chip.py", "CHIP = Gadget()", "CHIP = Gadget")]
    ),
    "the group is misspelt": Mistake("kernel", [("pyproject.toml", "tpuc.kernels", "tpuc.kernel")]),
    "another `api_version`": Mistake("chip", [("gadget/chip.py", "    lmem = ", "    api_version = 2\n    lmem = ")]),
    "a chip has another name than its entry point": Mistake(
        "chip", [("gadget/chip.py", 'name="gadget"', 'name="gizmo"')]
    ),
    "an op has another name than its entry point": Mistake(
        "kernel", [("gadget/stored_gadget.py", "gadget.StoredG", "gadget.SavedG")]
    ),
    "a chip lacks a method": Mistake("chip", [("gadget/chip.py", "def load(", "def lode(")]),
    "a lowering lacks a method": Mistake("kernel", [("gadget/lowering.py", "def lower(", "def lowers(")]),
    "an op has no `evaluate`": Mistake("kernel", [("gadget/gadget.py", "def evaluate(", "def compute(")]),
    "an op has no `flops`": Mistake("op", [("gadget/gadget.py", "def flops(", "def flop(")]),
    "an exception in an importer": Mistake("op", [("gadget/importer.py", "node.inputs[0]", "node.inputs[1]")]),
    "an importer returns nothing": Mistake("op", [("gadget/importer.py", "return build.build(", "build.build(")]),
    "an importer returns too few results": Mistake(
        "op", [("gadget/importer.py", "    return", "    return []\n    return")]
    ),
    "an exception in `infer`": Mistake("op", [("gadget/gadget.py", "x.shape_only()", "x.shapes()")]),
    "`infer` gives another shape": Mistake("op", [("gadget/gadget.py", "x.shape_only()", "x.with_shape((2, 3))")]),
    "an exception in `evaluate`": Mistake("op", [("gadget/gadget.py", "operands[0].astype", "operands[1].astype")]),
    "a lowering returns no values": Mistake("kernel", [("gadget/lowering.py", LOWERED, "return [type]")]),
    "an exception in a kernel": Mistake(
        "kernel", [("gadget/bm1684x.py", "wide = DType", 'wide = {}["wide"] or DType')]
    ),
    "a constant of another shape": Mistake("chip", [("gadget/kernels.py", SIZES, f"{SIZES} + 8")], "Conv"),
    "`reads` of a kernel is empty": Mistake("chip", [("gadget/kernels.py", READS, "return []")], "MaxPool"),
    "`reads` of a kernel is outside": Mistake(
        "chip", [("gadget/kernels.py", READS, "return [Box((0, 0, 0, 1), source)]")], "MaxPool"
    ),
    "`reads` of an instruction is empty": Mistake(
        "chip", [("gadget/isa.py", "return (self.input.region,)", "return ()")]
    ),
    "too little scratch": Mistake(
        "kernel", [("gadget/bm1684x.py", 'Scratch("above", size)', 'Scratch("above", size // 2)')]
    ),
    "a kernel that is not deterministic": Mistake(
        "kernel",
        [
            ("gadget/bm1684x.py", TABLE, f"{TABLE}\nCALLS = []"),
            ("gadget/bm1684x.py", "        wide = ", "        CALLS.append(1)\n        wide = "),
            ("gadget/bm1684x.py", "result, above, below)", "result, *[above, below][:: (-1) ** (len(CALLS) > 40)])"),
        ],
    ),
    "a cell is filled twice": Mistake(
        "kernel",
        [
            ("gadget/bm1684x.py", TABLE, f'{TABLE}\nMORE = KernelTable("bm1684x", "gadget")'),
            ("gadget/bm1684x.py", "@KERNELS.runs(", "@MORE.runs(StoredGadget)\n@KERNELS.runs("),
            (
                "pyproject.toml",
                '[project.entry-points."tpuc.kernels"]\n',
                '[project.entry-points."tpuc.kernels"]\n"bm1684x.gadget.more" = "gadget.bm1684x:MORE"\n',
            ),
        ],
    ),
    "a command has the name of a core one": Mistake("command", [("pyproject.toml", "gadget = ", "compile = ")]),
    "a pass breaks the module": Mistake(
        "pass",
        [
            (
                "gadget/gadget.py",
                "        return apply",
                "        module.main.body.operations.reverse()\n        return apply",
            )
        ],
    ),
}


@dataclass(frozen=True)
class Row:
    """A row of the page's table."""

    mistake: str
    command: str
    sentence: str


def rows() -> list[Row]:
    """The page's table."""
    cells = [line.strip("| \n").split(" | ") for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| ")]
    return [Row(mistake, command.strip("`"), sentence) for mistake, command, sentence in cells[1:]]


ROWS = rows()


def test_the_page_lists_every_mistake() -> None:
    assert [row.mistake for row in ROWS] == list(MISTAKES)
    assert len(ROWS) >= 20


@pytest.fixture
def spoiled(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with the package and a network, in which the process works; the package counts as installed."""
    mistake = (MISTAKES | REFUSES)[request.param]
    files = files_of(kinds()[mistake.kind], NAME)
    for path, old, new in mistake.edits:
        assert old in files[path], (path, old)
        files[path] = files[path].replace(old, new)
    write(files, tmp_path / "package")
    _write_network(tmp_path, mistake)
    offers = tuple(offers_of(ROOT, tmp_path / "package"))
    monkeypatch.setattr("tpuc.registry.registry.installed_offers", lambda: offers)
    monkeypatch.syspath_prepend(tmp_path / "package")
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    for name in [name for name in sys.modules if name.partition(".")[0] == NAME]:
        del sys.modules[name]


REFUSES = {
    "op": Mistake("op", [("gadget/gadget.py", "(x,) = operands\n", "raise ValueError('a rank of 3 is needed')\n")]),
    "importer": Mistake(
        "op", [("gadget/importer.py", "    if node", "    raise build.refuse(node, 'not today')\n    if node")]
    ),
}
"""What is no mistake: the plugin says it itself."""


def _write_network(folder: Path, mistake: Mistake) -> None:
    """One node from `x` to `y`, and two samples."""
    shape = (1, 3, 8, 8)
    x, y = (make_tensor_value_info(name, onnx.TensorProto.FLOAT, dims) for name, dims in (("x", shape), ("y", None)))
    weights = [onnx.numpy_helper.from_array(np.ones((4, 3, 3, 3), np.float32), "w")]
    foreign = mistake.kind in ("kernel", "op")
    op, domain = ("Gadget", NAME) if foreign else (mistake.node, "")
    inputs = ["x", "w"] if op == "Conv" else ["x"]
    attributes = {"kernel_shape": [3, 3]} if op == "MaxPool" else {}
    node = make_node(op, inputs, ["y"], name="first", domain=domain, **attributes)
    graph = make_graph([node], "net", [x], [y], weights if op == "Conv" else [])
    model = make_model(graph, opset_imports=[make_opsetid("", 17), make_opsetid(NAME, 1)], ir_version=8)
    (folder / "net.onnx").write_bytes(model.SerializeToString())
    np.savez(folder / "samples.npz", x=np.random.default_rng(1).normal(0, 2, (2, *shape)).astype(np.float32))


def said_by_tests(folder: Path) -> list[str]:
    """What those of the package's conformance tests that fail say in their first lines."""
    (path,) = folder.glob("package/tests/test_*.py")
    spec = importlib.util.spec_from_file_location(f"{NAME}.tests", path)
    assert spec is not None
    assert spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    said: list[str] = []
    for name, definition in inspect.getmembers(module, inspect.isclass):
        if name.startswith("Test"):
            for method in sorted(name for name in dir(definition) if name.startswith("test_")):
                try:
                    getattr(definition(), method)()
                except Exception as error:  # noqa: BLE001 # whatever pytest would show
                    said.append(str(error).splitlines()[0])
    return said


CHIP = {"kernel": "bm1684x", "op": "bm1684x"}


def case(row: Row) -> Any:
    """A row with its package; those that compile for a chip of ours need it."""
    mistake = MISTAKES[row.mistake]
    marks = pytest.mark.chip(CHIP[mistake.kind]) if mistake.kind in CHIP else ()
    return pytest.param(row.mistake, row, id=row.mistake, marks=marks)


@pytest.mark.parametrize(("spoiled", "row"), [case(row) for row in ROWS], indirect=["spoiled"])
def test_a_mistake_is_the_sentence_of_the_page(spoiled: Path, row: Row, capsys: pytest.CaptureFixture[str]) -> None:
    wanted = re.compile(re.escape(row.sentence).replace(re.escape("..."), ".*"))  # words of the interpreter
    if row.command == "pytest":
        assert any(map(wanted.fullmatch, said_by_tests(spoiled)))
        return
    assert main(COMMANDS[row.command].split()) in (1, 2)
    printed = capsys.readouterr()
    lines = [line for line in printed.err.splitlines() if not line.startswith("Only 2 sample")]
    assert len(lines) == 1
    assert wanted.fullmatch(lines[0].removeprefix("tpuc: ")), lines[0]
    assert "gadget 0.1.0" in row.sentence
    if row.command == "plugins --check":
        assert any(line.endswith(" broken") for line in printed.out.splitlines() if NAME in line)
    assert not re.search(r"export|Traceback|internal error", row.sentence, re.IGNORECASE)


@pytest.mark.chip("bm1684x")
@pytest.mark.parametrize(
    ("spoiled", "sentence"),
    [
        (
            "op",
            "gadget 0.1.0: `Gadget.infer` refuses for gadget::Gadget 'first': a rank of 3 is needed. Change the net",
        ),
        ("importer", "net.onnx: node 'first' (Gadget): not today"),
    ],
    indirect=["spoiled"],
)
def test_what_a_plugin_refuses_is_no_mistake_of_it(
    spoiled: Path, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(COMMANDS["compile"].split()) == 1
    assert capsys.readouterr().err.startswith(f"tpuc: {sentence}")
