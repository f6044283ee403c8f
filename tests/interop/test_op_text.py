"""Text of every op kind that the vendor's dialects have goes through its parser: alone, and as chips lower it."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from tpuc.api import Module, Op
from tpuc.errors import Unsupported
from tpuc.ir.text import parse_module, print_module
from tpuc.registry import Registry
from tpuc_driver.session.session import Session
from tpuc_ops import top
from tpuc_testing.equality import first_difference

import tests.ops.top
import tests.ops.tpu
from tests.interop.op_texts import F32, RANGE, alone, network, samples

pytestmark = pytest.mark.interop

SAMPLE = re.compile(r"sample\d+x")
UNKNOWN = "unregistered operation"
NOT_THEIRS = {
    # Their Scale always has a bias, their Einsum is a list of equations, their Active has no mode for the arc tangent.
    "top.Scale": "operand #2 must be tensor of any type values, but got 'none'",
    "top.Einsum": "string attribute whose value is a,b->ab",
    "top.Arctan": "ActiveMode",
}
LOWERED = [
    ("bm1684x", "int8"),
    ("cv181x", "bf16"),
    pytest.param("bm1684x", "f32", marks=pytest.mark.slow),
    pytest.param("bm1684x", "f16", marks=pytest.mark.slow),
    pytest.param("bm1684x", "bf16", marks=pytest.mark.slow),
    pytest.param("bm1684x", "int8-asym", marks=pytest.mark.slow),
    pytest.param("cv181x", "int8", marks=pytest.mark.slow),
    pytest.param("cv183x", "bf16", marks=pytest.mark.slow),
    pytest.param("cv183x", "int8", marks=pytest.mark.slow),
]


@pytest.fixture(scope="session")
def tpuc_opt(oracle_dir: Path) -> Path:
    """The vendor's optimizer."""
    tool = Path(os.environ.get("PEER") or Path.home() / ".cache" / "tpuc-peer") / "bin" / "tpuc-opt"
    if not tool.exists():
        pytest.skip(f"no {tool}: run {oracle_dir.name}/setup.sh")
    return tool


def complaints(tool: Path, folder: Path, texts: Sequence[str]) -> list[tuple[str, str]]:
    """What the vendor's tool says against texts, each with the name of its sample; all are read by one process."""
    path = folder / "all.mlir"
    path.write_text("// -----\n".join(texts))
    command = [str(tool), str(path), "--split-input-file"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode in (0, 1), done.stderr[-2000:]
    assert done.returncode == (" error: " in done.stderr), done.stderr[-2000:]
    lines = [""] + [line for text in texts for line in (*text.splitlines(), "// -----")]
    found: list[tuple[str, str]] = []
    for line in done.stderr.splitlines():
        if " error: " not in line:
            continue
        placed = re.search(r"within split at .*?:(\d+) offset", line)
        names = SAMPLE.search("\n".join([line, *lines[int(placed.group(1)) :][:200]]) if placed else line)
        assert names is not None, line
        found.append((names.group(), line.partition(" error: ")[2]))
    return found


def refused(kinds: Mapping[str, str], said: Sequence[tuple[str, str]]) -> list[str]:
    """Of the samples of ops that the vendor has."""
    return [
        f"{kinds[name]}: {sentence[:200]}"
        for name, sentence in said
        if UNKNOWN not in sentence and NOT_THEIRS.get(kinds[name], UNKNOWN) not in sentence
    ]


@pytest.mark.parametrize(
    ("dialect", "least", "state"), [("top", 100, "TOP_F32"), ("tpu", 33, "TPU_LOWERED")], ids=["top", "tpu"]
)
def test_each_op_alone(tpuc_opt: Path, tmp_path: Path, dialect: str, least: int, state: str) -> None:
    """With every sample of its conformance test, its operands and attributes."""
    texts: list[str] = []
    kinds: dict[str, str] = {}
    for number, sample in enumerate(samples(tests.ops.top if dialect == "top" else tests.ops.tpu)):
        kinds[f"sample{number}x"] = sample.op.name
        texts.append(print_module(alone(sample, f"sample{number}x", state)))
        assert print_module(parse_module(texts[-1], Registry().resolve_op)) == texts[-1], sample.op.name
    said = complaints(tpuc_opt, tmp_path, texts)
    assert refused(kinds, said) == []
    theirs = set(kinds.values()) - {kinds[name] for name, sentence in said if UNKNOWN in sentence}
    assert len(theirs) >= least, f"the vendor has {len(theirs)} of these kinds"


@pytest.mark.parametrize(("chip", "mode"), LOWERED)
def test_each_op_as_it_is_lowered(tpuc_opt: Path, tmp_path: Path, chip: str, mode: str) -> None:
    """The samples of TOP ops behind lowering and with addresses; text has what the module has."""
    registry = Registry()
    texts: list[str] = []
    kinds: dict[str, str] = {}
    for kind, module in _lowered(registry, chip, mode):
        kinds[module.name] = kind
        texts.append(print_module(module))
        assert first_difference(module, parse_module(texts[-1], registry.resolve_op)) is None, kind
    assert len(texts) > 250
    assert refused(kinds, complaints(tpuc_opt, tmp_path, texts)) == []


def _lowered(registry: Registry, chip: str, mode: str) -> Iterator[tuple[str, Module]]:
    """Modules of single ops that the chip can do, behind each stage, with the TOP op that they came from."""
    session = Session(registry, chip=chip, quantize=mode)
    for number, sample in enumerate(samples(tests.ops.top)):
        if not sample.is_float or not sample.arrays or sample.arrays[0] is None or _drops_extents(sample.op):
            continue
        written = network(sample, f"sample{number}x", RANGE if mode.startswith("int8") else F32)
        module = parse_module(print_module(written), registry.resolve_op)
        module.weights = written.weights
        manager = session.manager(session.context())
        for stage in ("lower", "finalize"):
            try:
                manager.run_pipeline(stage, module)
            except Unsupported:
                break
            yield sample.op.name, module


def _drops_extents(op: Op) -> bool:
    """Pools that no front end makes, and no chip takes."""
    return isinstance(op, top.AvgPool) and not op.keepdims
