"""A calibration gives the same table however it is spread, interrupted or grown; faults are named."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tpuc.errors import CalibrationError
from tpuc.interpreter import Interpreter
from tpuc.ir import Module
from tpuc.ir.attributes import StringAttr
from tpuc.npz import read_npz, write_npz
from tpuc_driver.session import Session
from tpuc_ops import top
from tpuc_quantize.calibration import race, search
from tpuc_quantize.calibration.network_comparison import Comparison
from tpuc_quantize.calibration.search import Search
from tpuc_quantize.observers.progress_file import by_content
from tpuc_quantize.options.budgets import BUDGETS
from tpuc_quantize.proposers import rounded_weights
from tpuc_quantize.scaling.equalize_weights import EqualizeWeights
from tpuc_quantize.simulation.network import FakeNetwork, State
from tpuc_quantize.tables.history import Round
from tpuc_quantize.tables.table import parse_table

from tests.families import each
from tests.passes.graphs import Network

RANDOM = np.random.default_rng(7)
FILTERS = RANDOM.standard_normal((6, 3, 3, 1, 1)).astype(np.float32)
LARGE = RANDOM.standard_normal((40, 1, 3, 64, 64)).astype(np.float32)
IMAGES = (RANDOM.standard_normal((40, 1, 3, 8, 8)) * np.linspace(0.5, 2, 40).reshape(-1, 1, 1, 1, 1)).astype(np.float32)


@pytest.fixture
def module() -> Module:
    net = Network(1, 3, 8, 8)
    value = net.op(top.Conv(kernel_shape=(3, 3), do_relu=True), net.input, net.weight(8, 3, 3, 3), net.weight(8))
    value = net.op(top.Conv(kernel_shape=(3, 3)), value, net.weight(8, 8, 3, 3), net.none)
    result = net.finish(net.op(top.AvgPool(kernel_shape=(4, 4)), value))
    result.attributes["module.name"] = StringAttr("network")
    return result


def table(module: Module, folder: Path, images: NDArray[Any], **options: Any) -> bytes:
    """The text of the table."""
    samples, target = folder / f"samples_{len(list(folder.iterdir()))}.npz", folder / "table"
    np.savez(samples, v0=images)
    Session().calibrate(module, dataset=samples, options=options).write(target)
    return target.read_bytes()


def test_threads_one_process_and_three_give_the_same_bytes(module: Module, tmp_path: Path) -> None:
    expected = table(module, tmp_path, IMAGES, workers=1)
    assert table(module, tmp_path, IMAGES) == expected
    assert table(module, tmp_path, IMAGES, workers=3) == expected


@pytest.mark.parametrize("hold_out", [False, True])
def test_any_order_of_samples_and_copies_give_the_same_bytes(module: Module, tmp_path: Path, hold_out: bool) -> None:
    expected = table(module, tmp_path, IMAGES, hold_out=hold_out)
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(len(IMAGES))
        assert table(module, tmp_path, IMAGES[order], hold_out=hold_out) == expected
    assert table(module, tmp_path, np.concatenate([IMAGES[::-1], IMAGES[:7]]), hold_out=hold_out) == expected


def test_one_more_sample_hardly_changes_which_ones_tune() -> None:
    keys = [f"{number:08x}" for number in range(40)]
    chosen = {keys[place] for place in by_content(keys)[:10]}
    for place in range(40):
        rest = [*keys[:place], *keys[place + 1 :]]
        assert len(chosen - {rest[one] for one in by_content(rest)[:10]}) <= 1
    assert by_content([keys[0]] * 3, {1}) in ([0, 2], [2, 0])


def test_observation_computes_nothing_that_the_statistics_have_computed(
    module: Module, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    computed = list[str]()
    run_step = FakeNetwork.run_step

    def counted(net: FakeNetwork, index: int, state: State, *, integer: bool) -> None:
        computed.append(net.plan.steps[index].operation.name)
        run_step(net, index, state, integer=integer)

    def run(self: Search) -> object:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(FakeNetwork, "run_step", counted)
            return observe(self)

    observe = Search.observed.func
    monkeypatch.setattr(Search.observed, "func", run)
    expected = table(module, tmp_path, IMAGES, workers=1)
    assert not computed
    monkeypatch.setattr(
        search, "MOST_WHOLE", 5 * sum(step.operation.result.tensor.size for step in FakeNetwork(module).plan.steps)
    )
    assert table(module, tmp_path, IMAGES, workers=1) == expected
    samples = 16  # the same for tuning and biases
    assert len(computed) == (samples - 5) * len(FakeNetwork(module).plan.steps)


def test_ops_behind_the_last_product_change_no_threshold_in_front_of_it(tmp_path: Path) -> None:
    """How much of the values a percentile leaves out depends on how deep they are, counted in products."""

    def thresholds(tail: int) -> dict[str, float]:
        net = Network(1, 3, 64, 64)
        value = net.input
        for number, filters in enumerate(FILTERS):
            value = net.op(
                top.Conv(kernel_shape=(1, 1)), value, net.build.weight(f"filters_{number}", filters), net.none
            )
        for _ in range(tail):
            value = net.op(top.Relu(), value)
        text = table(net.finish(value), tmp_path, LARGE, tune_num=0, bias_num=0, method="percentile")
        return {name: entry.threshold for name, entry in parse_table(text.decode()).entries.items()}

    plain, longer = thresholds(0), thresholds(6)
    assert len(longer) > len(plain) > len(FILTERS)
    assert {name: longer[name] for name in plain} == plain


@pytest.mark.parametrize("is_better", [False, True])
def test_equalized_filters_are_rounded_by_what_they_are_multiplied_with_however_long_it_takes(
    is_better: bool, module: Module, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounded: list[int] = []
    assert EqualizeWeights().equalize(module.clone())
    compared = Comparison(is_better, "", Round("network", "", "", ()))
    monkeypatch.setattr(race, "compare_networks", lambda *_: compared)
    monkeypatch.setattr(search, "BUDGETS", replace(BUDGETS, quick=0.0))
    monkeypatch.setattr(rounded_weights, "find_rounding", lambda *_: rounded.append(1) or {})
    table(module, tmp_path, IMAGES, workers=1)
    assert len(rounded) == is_better


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # dask's own
def test_a_cluster_gives_the_same_bytes(module: Module, tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None, "silence_logs": 50}
    with distributed.LocalCluster(**options) as cluster:
        spread = table(module, tmp_path, IMAGES, cluster=cluster.scheduler_address)
    assert spread == table(module, tmp_path, IMAGES)


def test_samples_added_later_count_as_if_they_had_been_there(module: Module, tmp_path: Path) -> None:
    file = str(tmp_path / "statistics.npz")
    first = table(module, tmp_path, IMAGES[:13], statistics=file)
    grown = table(module, tmp_path, IMAGES[13:], statistics=file, resume=file)
    assert grown == table(module, tmp_path, IMAGES)
    assert first != grown


def test_ranges_alone_are_seen_again_where_counts_are_wanted(module: Module, tmp_path: Path) -> None:
    file = str(tmp_path / "statistics.npz")
    table(module, tmp_path, IMAGES[:13], statistics=file, method="max")
    assert table(module, tmp_path, IMAGES[13:], resume=file) == table(module, tmp_path, IMAGES)
    grown = table(module, tmp_path, IMAGES[13:], resume=file, method="max")
    assert grown == table(module, tmp_path, IMAGES, method="max")


def test_what_is_there_is_not_run_again(module: Module, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = str(tmp_path / "statistics.npz")
    options = {"tune_num": 0, "bias_num": 0, "workers": 1}
    table(module, tmp_path, IMAGES[:13], statistics=file, **options)
    runs: list[int] = []
    run = Interpreter.run
    monkeypatch.setattr(Interpreter, "run", lambda *given, **named: (runs.append(1), run(*given, **named))[1])
    table(module, tmp_path, IMAGES[13:], resume=file, **options)
    assert len(runs) == len(IMAGES) - 13


def test_statistics_of_another_network_are_refused(module: Module, tmp_path: Path) -> None:
    file = str(tmp_path / "statistics.npz")
    table(module, tmp_path, IMAGES[:8], statistics=file)
    module.weights["w1"] = module.weights["w1"] * 2
    with pytest.raises(CalibrationError, match=r"statistics\.npz: statistics of another network"):
        table(module, tmp_path, IMAGES, resume=file)


def test_a_broken_statistics_file_is_one_sentence(module: Module, tmp_path: Path) -> None:
    file = tmp_path / "statistics.npz"
    file.write_bytes(b"PK nonsense")
    with pytest.raises(CalibrationError, match="not a statistics file"):
        table(module, tmp_path, IMAGES, resume=str(file))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("names", [1.0]),
        ("names", ["x", "x"]),
        ("wins", {"nobody": [1]}),
        ("wins", []),
        ("whole", ["nobody"]),
        ("seen", -1),
        ("seen", 1.5),
        ("samples", [[[1, "", 0]]]),
        ("samples", [[["a\0b", "", 0]]]),
        ("skipped", [["x", "y"]]),
        ("counting", 3),
    ],
)
def test_statistics_of_other_kinds_of_values_are_one_sentence(
    key: str, value: Any, module: Module, tmp_path: Path
) -> None:
    file = tmp_path / "statistics.npz"
    table(module, tmp_path, IMAGES[:8], statistics=str(file))
    arrays = read_npz(file)
    head = json.loads(bytes(arrays["head"]))
    write_npz(file, {**arrays, "head": np.frombuffer(json.dumps({**head, key: value}).encode(), np.uint8)})
    with pytest.raises(CalibrationError, match=r"not a statistics file \(.+\)\. Give another file with"):
        table(module, tmp_path, IMAGES, resume=str(file))


def test_statistics_with_counts_below_zero_are_one_sentence(module: Module, tmp_path: Path) -> None:
    file = tmp_path / "statistics.npz"
    table(module, tmp_path, IMAGES[:8], statistics=str(file))
    arrays = read_npz(file)
    write_npz(file, {**arrays, "counts": -arrays["counts"]})
    with pytest.raises(CalibrationError, match=r"not a statistics file \(its counts are damaged\)"):
        table(module, tmp_path, IMAGES, resume=str(file))


def test_an_unreadable_sample_is_left_out_with_a_count_or_stops_a_strict_run(module: Module, tmp_path: Path) -> None:
    folder = tmp_path / "samples"
    folder.mkdir()
    for index in range(4):
        np.save(folder / f"{index}.npy", IMAGES[index])
    broken = IMAGES[4].copy()
    broken[0, 0, 0, 0] = np.nan
    np.save(folder / "4.npy", broken)
    remarks: list[str] = []
    session = Session(remark=remarks.append)
    found = session.calibrate(module, dataset=folder)
    assert "sample number: 4" in found.remarks
    assert "4.npy: NaN" in remarks[0]
    assert remarks[1] == "1 of 5 samples left out"
    with pytest.raises(CalibrationError, match=r"4\.npy: NaN"):
        session.calibrate(module, dataset=folder, options={"strict": True})


def test_nan_in_the_network_names_the_layer(tmp_path: Path) -> None:
    net = Network(1, 3, 8, 8)
    module = net.finish(net.op(top.Log(), net.input))
    with pytest.raises(CalibrationError, match="v1: NaN during calibration"):
        table(module, tmp_path, IMAGES[:2])


@each("method", ["kld", "percentile", "max"])
def test_indices_are_not_cut(method: str, tmp_path: Path) -> None:
    """Places 0 to 16 of which the first few are the most frequent by far; a divergence keeps 5 of them."""
    net = Network(1, 1000)
    places = net.op(top.Floor(), net.op(top.Abs(), net.input))
    module = net.finish(net.op(top.MulConst(const_val=0.5), places))
    rows = np.random.default_rng(0).exponential(1.2, (8, 1, 1000)).astype(np.float32)
    rows[:, 0, 0] = 16.5
    options = {"method": method, "tune_num": 0, "bias_num": 0}
    found = parse_table(table(module, tmp_path, rows, **options).decode())
    assert found.entries[places.name].threshold == 16.0
    file = str(tmp_path / "statistics.npz")
    table(module, tmp_path, rows[:4], **options, statistics=file)
    assert parse_table(table(module, tmp_path, rows[4:], **options, resume=file).decode()) == found
