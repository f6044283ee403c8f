"""A few random graphs, each on two chips; `python benchmarks/fuzz.py graphs --count 1000` is the long run."""

from __future__ import annotations

from collections import Counter
from functools import partial
from pathlib import Path

import numpy as np
import onnx
import pytest
from tpuc.registry import Registry
from tpuc_onnx.importers import activation

from tests.conftest import RunVendor
from tests.families import each
from tests.fuzz.graphs import long_run, runner
from tests.fuzz.graphs.child import verdicts
from tests.fuzz.graphs.generate import OPSETS, random_graph
from tests.fuzz.graphs.judge import RUNS, WITHOUT_LOWERING, check_chip, check_import, judged
from tests.fuzz.graphs.maker import Maker
from tests.fuzz.graphs.runner import Child, Result, Tally, judge_graphs
from tests.fuzz.graphs.single import one_node, subject_of
from tests.fuzz.graphs.table import OPERATORS

SEEDS = range(7000, 7024)
QUICK = SEEDS[:7]
MOST_REFUSED = 0.1
"""Of graphs by the front end: a net that everything falls through holds nothing."""


def _two_of(seed: int) -> list[tuple[str, str]]:
    """Two chips and modes, each as often as any other over the seeds."""
    return [RUNS[(2 * seed + index) % len(RUNS)] for index in range(2)]


def test_all_chips_and_modes_have_their_turn() -> None:
    turns = Counter(run for seed in QUICK for run in _two_of(seed))
    assert turns.keys() == set(RUNS)
    assert min(turns.values()) >= 2


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of numpy, about values that no graph should have
@each(
    ("seed", "chosen"),
    [
        *(pytest.param(seed, _two_of(seed), id=str(seed)) for seed in QUICK),
        *(pytest.param(seed, list(RUNS), marks=pytest.mark.slow, id=f"{seed}-all") for seed in SEEDS),
    ],
)
def test_random_graphs_give_what_they_should(seed: int, chosen: list[tuple[str, str]], tmp_path: Path) -> None:
    runs = [("", ""), *(run for run in chosen if run[0] in Registry().names("tpuc.chips"))]
    found = list(zip(runs, verdicts(seed, runs, tmp_path), strict=True))
    assert not [(run, one.kind, one.cause, one.said) for run, one in found if one.kind not in ("ok", "refused")]


@pytest.mark.interop
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("seed", SEEDS)
def test_random_graphs_give_the_same_on_the_vendors_models(seed: int, run_vendor: RunVendor, tmp_path: Path) -> None:
    found = list(zip(RUNS, verdicts(seed, RUNS, tmp_path, run_vendor), strict=True))
    assert not [(run, one.kind, one.cause, one.said) for run, one in found if one.kind not in ("ok", "refused")]


def test_few_graphs_are_refused(tmp_path: Path) -> None:
    """What one chip refuses of those depends on it; the long run counts that by reason."""
    kinds = [next(iter(verdicts(seed, [("", "")], tmp_path))).kind for seed in range(60)]
    assert set(kinds) <= {"ok", "refused"}
    assert kinds.count("refused") <= MOST_REFUSED * len(kinds)


def test_the_same_seed_is_the_same_graph() -> None:
    for seed in range(10):
        first, second = random_graph(seed), random_graph(seed)
        assert first.model.SerializeToString(deterministic=True) == second.model.SerializeToString(deterministic=True)
        for one, other in zip(first.samples, second.samples, strict=True):
            assert all(np.array_equal(array, other[name]) for name, array in one.items())


def test_graphs_are_of_all_kinds() -> None:
    graphs = [random_graph(seed) for seed in range(150)]
    kinds = Counter(node.op_type for graph in graphs for node in graph.model.graph.node)
    assert len(kinds) >= 120
    assert {graph.model.opset_import[0].version for graph in graphs} == set(OPSETS)
    ranks = {len(entry.type.tensor_type.shape.dim) for graph in graphs for entry in graph.model.graph.input}
    assert ranks >= {1, 2, 3, 4, 5}
    assert sum(len(graph.model.graph.output) > 1 for graph in graphs) > 75
    reads = [Counter(name for node in graph.model.graph.node for name in node.input) for graph in graphs]
    made = [{name for node in graph.model.graph.node for name in node.output} for graph in graphs]
    shared = [any(uses[name] > 1 for name in names) for uses, names in zip(reads, made, strict=True)]
    assert sum(shared) > 75
    for graph in graphs[:40]:
        onnx.checker.check_model(graph.model)


X = np.linspace(-2, 2, 26, dtype=np.float32).reshape(2, 13)


def test_an_importer_that_ignores_an_operand_is_caught(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    m = one_node("Clip", X, np.float32(-1), np.float32(0.5))
    subject = subject_of(m, tmp_path)
    assert judged(partial(check_import, subject), subject).kind == "ok"

    def nothing(node: object, build: object, index: int, label: str, default: float) -> float:
        return default

    monkeypatch.setattr(activation, "_limit", nothing)
    verdict = judged(partial(check_import, subject), subject)
    assert (verdict.kind, verdict.cause) == ("wrong", "import: top.Clip")


@pytest.mark.chip("cv183x")
@pytest.mark.parametrize("mode", ["bf16", "int8"])
def test_what_graphs_leave_out_has_no_lowering(mode: str, tmp_path: Path) -> None:
    assert WITHOUT_LOWERING["cv183x", mode] <= set(OPERATORS)
    for name in sorted(WITHOUT_LOWERING["cv183x", mode]):
        m = Maker(np.random.default_rng(3), 18)
        m.node("Cast", m.node("Abs", m.input((1, 4, 5, 6))), to=onnx.TensorProto.INT64)
        reasons = [m.attempt(lambda m=m, name=name: OPERATORS[name].make(m, name)) for _ in range(10)]  # type: ignore[misc]
        assert None in reasons, reasons
        subject = subject_of(m, tmp_path)
        check_import(subject)
        verdict = judged(lambda subject=subject: check_chip(subject, "cv183x", mode), subject)  # type: ignore[misc]
        assert (name, verdict.kind) == (name, "refused")
        assert any(words in verdict.said for words in ("has no lowering", "no kernel"))


def test_processes_that_end_or_hang_are_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    child = Child()
    try:
        child.ask(1, [("", "")], "")
        assert child.answer()[0] in ("ok", "refused")
        monkeypatch.setattr(runner, "SECONDS", 0.0)
        child.ask(1, RUNS, "")
        assert child.answer() == ("internal", "hang", "takes longer than 0 s")
        child._process.kill()
        monkeypatch.setattr(runner, "SECONDS", 60.0)
        answers = [child.answer() for _ in range(len(RUNS) + 1)]
        assert ("internal", "crash", "the process ended with -9") in answers
    finally:
        child.stop()


def test_results_are_summed_up_by_chip_and_mode() -> None:
    tally = Tally()
    for kind, cause in (("ok", ""), ("refused", "no lowering"), ("refused", "no lowering"), ("wrong", "tpu.Add")):
        tally.add(Result(1, ("bm1684x", "int8"), kind, cause, ""))
    lines = [" ".join(line.split()) for line in tally.text().splitlines()]
    assert lines[1] == "bm1684x int8 4 1 2 1 0"
    assert lines[4:] == ["2 refused: no lowering", "1 wrong: tpu.Add"]
    assert [result.kind for result in judge_graphs([1], [("", "")])] == ["ok"]


@pytest.mark.chip("bm1684x")
def test_the_long_run_tells_how_it_went(capsys: pytest.CaptureFixture[str]) -> None:
    assert long_run.main(["--count", "1", "--seed", "1", "--chip", "bm1684x", "--mode", "f32"]) == 0
    assert "0 failures in" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.chip("bm1684x")
def test_failures_are_reduced(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An operator that is refused stands for one that fails: to the reduction a failure is what a program says."""
    seed = next(seed for seed in range(100) if "RoiAlign" in random_graph(seed).operators)
    monkeypatch.setattr(long_run, "JUDGE", "tests.fuzz.graphs.test_graphs {}")
    said = long_run.reduced(Result(seed, ("bm1684x", "f32"), "wrong", "", ""), tmp_path)
    assert f"{seed}_bm1684x_f32_reduced.onnx: 1 of" in said
    small = onnx.load(tmp_path / f"{seed}_bm1684x_f32_reduced.onnx")
    assert [node.op_type for node in small.graph.node] == ["RoiAlign"]


def _fail_on_regions() -> int:
    import sys

    model = onnx.load(sys.argv[1])
    has = any(node.op_type == "RoiAlign" for node in model.graph.node)
    sys.stderr.write("tpuc: wrong: regions\n" if has else "")
    return int(has)


if __name__ == "__main__":
    raise SystemExit(_fail_on_regions())
