"""`tpuc calibrate` and `tpuc compile` say how many decisions of the float network int8 keeps."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from subprocess import CompletedProcess

import numpy as np
import pytest
from tpuc.api import CALIBRATION_TABLE, Module, PassContext, Value
from tpuc.interpreter import Interpreter
from tpuc.registry import Registry
from tpuc_driver.api.host import CHECK_SAMPLES, SEEN_SAMPLES
from tpuc_driver.data import SampleReader, SampleSet, SampleSource, fingerprints, inputs_of, open_samples
from tpuc_driver.session import Session
from tpuc_driver.session.reports import OutputCheck, SelfCheck
from tpuc_ops import top
from tpuc_quantize.calibration import search as refine
from tpuc_quantize.calibration.calibrate import Calibrate
from tpuc_quantize.calibration.engine import Engine
from tpuc_quantize.calibration.evaluator import Evaluator
from tpuc_quantize.metrics.output_heads import task_metrics_of
from tpuc_quantize.observers.collector import Counting
from tpuc_quantize.observers.held_out import HeldOut, choose_held_out, samples_at
from tpuc_quantize.observers.progress_file import Progress
from tpuc_quantize.simulation.network import State
from tpuc_quantize.tables.table import CalibrationTable

from tests.chips.command_line import tpuc
from tests.models.onnx_of import onnx_of
from tests.passes.graphs import Network

CHIPS = ("bm1684x", "cv183x")
CLASSES, HALF = 6, 8
LINE = (
    r"self-check of {} on 20 held-out samples: (\d+) of 20 predictions agree with float \(\d+\.\d%, 95% interval "
    r"\d+\.\d% to \d+\.\d% by the margins of 100 samples\), lowest SQNR -?\d+\.\d dB at output 'v\d+'"
)


def classifier(*, spread: float = 1.0) -> Module:
    """Classes from values of which half are `spread` times smaller, and half larger: where that is much, one step of
    int8 is more than the small ones. No factors move past the sum between.
    """
    net = Network(1, 2 * HALF)
    random = np.random.default_rng(2)
    factors = np.repeat([1 / spread, spread], HALF).astype(np.float32)
    classes = random.standard_normal((2 * HALF, CLASSES)).astype(np.float32)
    wide = net.build.weight("wide", np.diag(factors).astype(np.float32))
    back = net.build.weight("back", classes / factors[:, None])
    hidden = net.op(top.MatMul(do_relu=True), net.input, wide, net.none)
    return net.finish(net.op(top.MatMul(), net.op(top.Add(), hidden, hidden), back, net.none))


@pytest.fixture
def samples(tmp_path: Path) -> Path:
    path = tmp_path / "samples.npz"
    np.savez(path, v0=np.random.default_rng(1).standard_normal((100, 1, 2 * HALF)).astype(np.float32))
    return path


def calibrate(module: Module, samples: Path, *arguments: str) -> CompletedProcess[str]:
    path = samples.with_name("net.mlir")
    Session().save(module, path)
    return tpuc("calibrate", path, "--dataset", samples, "-o", samples.with_name("table"), *arguments)


def compile_(module: Module, samples: Path, chip: str, *arguments: str, mode: str = "int8") -> CompletedProcess[str]:
    path = samples.with_name("net.onnx")
    path.write_bytes(onnx_of(module).SerializeToString())
    return tpuc(
        *("compile", path, "--chip", chip, "--quantize", mode, "-o", samples.with_name("net.file")),
        *("--report", samples.with_name("report.json"), *arguments),
    )


class TestCalibrate:
    def test_a_line_says_how_good_it_is(self, samples: Path) -> None:
        done = calibrate(classifier(), samples)
        assert (done.returncode, done.stderr) == (0, "")
        kept = re.match(LINE.format("int8"), done.stdout)
        assert kept is not None, done.stdout
        assert int(kept[1]) >= 19

    def test_a_ruined_network_is_complained_about(self, samples: Path) -> None:
        done = calibrate(classifier(spread=300.0), samples)
        assert done.returncode == 0
        assert re.search(
            r"^int8 agrees with float on \d+ of 20 predictions of output 'v\d+' \(-?\d+\.\d dB, 20 held-out samples\); "
            r"try more representative samples \(several --dataset, DIR=3 to count them three times\), "
            r"another --method, `tpuc opt --pass equalize-weights` before "
            r"calibration, or float layers \(`tpuc qtable`\)$",
            done.stderr,
            re.MULTILINE,
        ), done.stderr
        assert samples.with_name("table").exists()

    def test_a_limit_makes_an_error_of_it(self, samples: Path) -> None:
        done = calibrate(classifier(spread=300.0), samples, "--min-agreement", "0.98")
        assert done.returncode == 1
        assert re.search(
            r"^tpuc: int8 agrees with float on \d+ of 20 .*\. --min-agreement 0\.98 makes this an error$",
            done.stderr,
        )
        assert not samples.with_name("table").exists()

    def test_few_samples_are_checked_as_they_were_tuned_on(self, samples: Path) -> None:
        done = calibrate(classifier(), samples, "--input-num", "12")
        assert "self-check of int8 on 12 calibration samples: " in done.stdout


class TestCompile:
    @pytest.mark.parametrize("chip", CHIPS)
    def test_the_compiled_network_is_checked(self, chip: str, samples: Path) -> None:
        done = compile_(classifier(), samples, chip, "--dataset", str(samples), "--min-agreement", "0.9")
        assert done.returncode == 0, done.stderr
        kept = re.search(LINE.format(f"{chip} int8"), done.stdout)
        assert kept is not None, done.stdout
        report = json.loads(samples.with_name("report.json").read_text())["self_check"]
        (output,) = report["outputs"]
        assert (report["subject"], report["tuned"], output["same"]) == (f"{chip} int8", False, int(kept[1]))

    @pytest.mark.parametrize("chip", CHIPS)
    def test_a_ruined_network_is_complained_about(self, chip: str, samples: Path) -> None:
        module = classifier(spread=300.0)
        done = compile_(module, samples, chip, "--dataset", str(samples))
        assert done.returncode == 0, done.stderr
        assert re.search(
            rf"^{chip} int8 agrees with float on \d+ of 20 predictions of output 'v\d+' ", done.stderr, re.MULTILINE
        )
        samples.with_name("net.file").unlink()
        done = compile_(module, samples, chip, "--dataset", str(samples), "--min-agreement", "0.98")
        assert done.returncode == 1
        assert "makes this an error" in done.stderr
        assert not samples.with_name("net.file").exists()

    def test_a_table_made_earlier_is_checked_where_samples_are_given(self, samples: Path) -> None:
        folder = samples.with_name("work")
        compile_(classifier(), samples, "bm1684x", "--dataset", str(samples), "--work-dir", str(folder))
        (table,) = map(str, folder.glob("*_cali_table"))
        done = compile_(classifier(), samples, "bm1684x", "--calibration-table", table, "--dataset", str(samples))
        assert "self-check of bm1684x int8 on 16 samples: " in done.stdout
        done = compile_(classifier(), samples, "bm1684x", "--calibration-table", table)
        assert "self-check" not in done.stdout

    def test_a_limit_needs_samples(self, samples: Path) -> None:
        done = compile_(classifier(), samples, "bm1684x", "--min-agreement", "0.98", mode="f16")
        assert (done.returncode, done.stderr) == (
            2,
            "tpuc: --min-agreement needs samples to compare predictions on; give --dataset or --data-list.\n",
        )

    def test_float_modes_are_checked_where_that_is_asked_for(self, samples: Path) -> None:
        given = ("--dataset", str(samples))
        assert "self-check" not in compile_(classifier(), samples, "bm1684x", *given, mode="f16").stdout
        done = compile_(classifier(), samples, "bm1684x", *given, "--min-agreement", "1", mode="f16")
        assert "self-check of bm1684x f16 on 16 samples: 16 of 16 predictions" in done.stdout


class TestHeldOut:
    def source(self, samples: Path, *sets: SampleSet) -> SampleSource:
        return open_samples(inputs_of(classifier()), sets or samples)

    def test_their_contents_decide(self, samples: Path) -> None:
        keys = fingerprints(self.source(samples))
        chosen = [keys[place] for place in choose_held_out(keys)]
        assert len(chosen) == 20
        assert [keys[::-1][place] for place in choose_held_out(keys[::-1])] == chosen
        assert {keys[place] for place in choose_held_out(keys, wanted=30)} > {*chosen}
        assert len(choose_held_out(keys, wanted=300)) == 50
        assert len({*chosen} - {keys[1:][place] for place in choose_held_out(keys[1:])}) <= 1

    def test_a_sample_that_counts_often_is_held_out_altogether(self, samples: Path) -> None:
        source = self.source(samples, SampleSet(samples, 3))
        places = choose_held_out(fingerprints(source))
        held_out = set(samples_at(Progress(source, Counting(8)), places).samples)
        assert (len(places), len(held_out)) == (60, 20)
        left = {one for place, one in enumerate(source.samples) if place not in places}
        assert not left & held_out

    def test_unreadable_ones_are_of_no_use(self, samples: Path) -> None:
        keys = fingerprints(self.source(samples))
        first, *_ = choose_held_out(keys)
        places = choose_held_out(keys, {first})
        assert first not in places
        assert len(places) == 19

    def test_tuning_does_not_see_them(self, samples: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        seen: list[Progress] = []
        search = Engine.search

        def spy(engine: Engine, progress: Progress, *arguments: object) -> object:
            seen.append(progress)
            return search(engine, progress, *arguments)  # pyright: ignore[reportArgumentType]

        monkeypatch.setattr(Engine, "search", spy)
        context = PassContext(Registry())
        Calibrate(dataset=(str(samples),), hold_out=True).run(classifier(), context)
        (progress,) = seen
        kept = {one for place, one in enumerate(progress.samples.samples) if place not in progress.skipped}
        held_out = context.result(CHECK_SAMPLES).samples
        assert len(held_out) == 20
        assert not kept & set(held_out)
        assert len(kept) == 80

    @pytest.mark.parametrize("looked_at", [False, True])
    def test_the_outputs_for_them_are_known(self, samples: Path, looked_at: bool) -> None:
        context, module = PassContext(Registry()), classifier()
        Calibrate(dataset=(str(samples),), hold_out=True, lint=looked_at, tune_num=0).run(module, context)
        held_out = context.result(CHECK_SAMPLES)
        assert isinstance(held_out, HeldOut)
        host, reader = Interpreter(module), SampleReader(held_out)
        assert (len(held_out), len(held_out.known), len(held_out.others)) == (20, 20, 80)
        known_places = [place for place, one in enumerate(held_out.samples) if one in held_out.outputs]
        for place, known in zip(known_places, held_out.known, strict=True):
            wanted = host.run(reader.read(place))
            assert list(known) == list(wanted)
            assert all(np.array_equal(known[name], wanted[name]) for name in wanted)

    def test_the_outputs_of_what_is_checked_are_known_where_none_are_held_out(self, samples: Path) -> None:
        context, module = PassContext(Registry()), classifier()
        Calibrate(dataset=(str(samples),), input_num=12, hold_out=True, tune_num=0).run(module, context)
        assert context.find(CHECK_SAMPLES) is None
        seen = context.result(SEEN_SAMPLES)
        assert isinstance(seen, HeldOut)
        host, reader = Interpreter(module), SampleReader(seen)
        assert len(seen.known) == len(seen) == 12
        for place, known in enumerate(seen.known):
            wanted = host.run(reader.read(place))
            assert all(np.array_equal(known[name], wanted[name]) for name in wanted)

    def test_the_judge_does_not_run_the_float_network_again(
        self, samples: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        tables: list[CalibrationTable] = []
        known: list[bool] = []
        start = Evaluator.__post_init__

        def spy(judge: Evaluator, floats: Sequence[State] | None) -> None:
            known.append(floats is not None)
            start(judge, floats)

        monkeypatch.setattr(Evaluator, "__post_init__", spy)
        for most in (refine.MOST_KEPT, 0):
            monkeypatch.setattr(refine, "MOST_KEPT", most)
            context = PassContext(Registry())
            Calibrate(dataset=(str(samples),), hold_out=True).run(classifier(spread=3.0), context)
            tables.append(context.result(CALIBRATION_TABLE))
        assert known[-1] is False
        assert known[0] is True
        first, second = (table.entries for table in tables)
        assert first == second

    def test_large_outputs_are_not_kept(self, samples: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("tpuc_quantize.calibration.search.MOST_KEPT", CLASSES)
        context, module = PassContext(Registry()), classifier()
        assert module.main.outputs[0].tensor.size == CLASSES
        Calibrate(dataset=(str(samples),), hold_out=True, tune_num=0).run(module, context)
        held_out = context.result(CHECK_SAMPLES)
        assert isinstance(held_out, HeldOut)
        assert not held_out.known


def detector() -> Module:
    """Logits of places, and boxes with a channel that is mostly below zero."""
    net = Network(1, 2, 6, 6)
    scoring, boxing = np.array([[1, 0]], np.float32), np.array([[0, 1], [0, 1]], np.float32)
    parts: list[Value] = []
    for name, filters, bias in (("scores", scoring, [-3.0]), ("boxes", boxing, [-3.0, 0.5])):
        weight = net.build.weight(f"{name}_w", filters[:, :, None, None])
        operands = (net.input, weight, net.build.weight(f"{name}_b", np.array(bias, np.float32)))
        found = net.op(top.Permute(order=(0, 2, 3, 1)), net.op(top.Conv(kernel_shape=(1, 1)), *operands))
        parts.append(net.op(top.Reshape(shape=(1, 36, len(bias))), found))
    return net.finish(*parts)


def scenes(samples: Path, *, shown: bool) -> Path:
    """Noise, in every second image of it something that is found."""
    x = np.random.default_rng(3).standard_normal((40, 1, 2, 6, 6)).astype(np.float32) * np.float32(0.7)
    x[::2, 0, 0, 2, 3] = 7.0 if shown else 0.0
    x[:, 0, 1, 0, 0] = 5.0
    np.savez(samples, v0=x)
    return samples


class TestDetectors:
    def test_boxes_beside_scores_are_numbers(self, samples: Path) -> None:
        module = detector()
        outputs = [Interpreter(module).run(row) for row in open_samples(inputs_of(module), scenes(samples, shown=True))]
        assert [one.kind for one in task_metrics_of(module, outputs)] == ["presence", "numbers"]

    def test_only_scores_decide(self, samples: Path) -> None:
        given = ("--dataset", str(scenes(samples, shown=True)))
        assert compile_(detector(), samples, "bm1684x", *given).returncode == 0
        scores, boxes = json.loads(samples.with_name("report.json").read_text())["self_check"]["outputs"]
        assert scores["same"] == scores["total"] > 0
        assert boxes["total"] == 0
        assert boxes["sqnr_db"] > 20

    def test_a_network_that_finds_nothing_is_not_called_right(self, samples: Path) -> None:
        nothing = " is inconclusive: nothing is detected in them; add samples with objects to detect"
        done = calibrate(detector(), scenes(samples, shown=False))
        assert f"{nothing}\n" in done.stdout
        assert f"{nothing}\n" in done.stderr
        assert "agree with float" not in done.stdout
        assert nothing not in calibrate(detector(), scenes(samples, shown=True)).stdout
        done = calibrate(detector(), scenes(samples, shown=False), "--min-agreement", "0.5")
        assert done.returncode == 1
        assert done.stderr.endswith(f"{nothing}. --min-agreement 0.5 makes this an error\n")


def test_no_output_hides_behind_others() -> None:
    outputs = (OutputCheck("boxes", 990, 1000, 30.0), OutputCheck("scores", 1, 4, 12.0), OutputCheck("none", 0, 0, 9.0))
    check = SelfCheck("newchip int8", 5, outputs, tuned=True)
    assert (check.worst.name, check.agreement) == ("scores", 0.25)
    assert check.text() == (
        "self-check of newchip int8 on 5 calibration samples: 1 of 4 predictions of output 'scores' agree with float "
        "(25.0%, 95% interval 4.6% to 69.9%), lowest SQNR 9.0 dB at output 'none'"
    )
    assert check.complaint().startswith(
        "newchip int8 agrees with float on 1 of 4 predictions of output 'scores' (12.0 dB, 5 calibration samples); try "
    )


def test_outputs_that_predict_nothing_are_no_agreement() -> None:
    """A network of pixels alone has no predictions to count, and says so by its figure."""
    check = SelfCheck("newchip int8", 5, (OutputCheck("a", 0, 0, 9.0), OutputCheck("b", 0, 0, 30.0)), tuned=False)
    assert check.text() == (
        "self-check of newchip int8 on 5 held-out samples: SQNR 9.0 dB at output 'a', the lowest one"
    )


def test_predictions_of_one_sample_count_as_one() -> None:
    """Five samples with a thousand boxes between them say as much as five samples."""
    output = OutputCheck("boxes", 1000, 1000, 30.0)
    assert output.interval(5).low == pytest.approx(0.5655, abs=1e-4)  # Wilson's for 5 of 5
    assert SelfCheck("newchip int8", 5, (output,), shows=False).interval == (0.0, 1.0)
