"""A stranger's pass, front end, calibrator, proposer, planner, command and hooks, each used as a user would."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tpuc.api import BufferInfo, PoolInfo, TpucError
from tpuc.errors import InvalidModel, Unsupported
from tpuc.interpreter import Interpreter
from tpuc.registry import Registry
from tpuc.schedule import PIPELINES, PassContext, PassManager
from tpuc_driver.cli import main
from tpuc_driver.session import Session
from tpuc_driver.session.values import Built
from tpuc_testing.golden import run_golden
from tpuc_testing.packages import make_importable, offers_of
from tpuc_testing.planner_conformance import PlannerConformance

from tests.families import each
from tests.third_party.distributions import ACME_TOOLS, ROOT, TOY_CHIP

make_importable(TOY_CHIP, ACME_TOOLS)

OFFERS = offers_of(ROOT, TOY_CHIP, ACME_TOOLS)
NETWORK = "input x 1x8x8x8\nmaxpool 2\nrelu\nmaxpool 2\nflatten\n"


@pytest.fixture
def registry() -> Registry:
    return Registry(offers=OFFERS)


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command line sees the packages as installed."""
    monkeypatch.setattr("tpuc.registry.registry.installed_offers", lambda: tuple(OFFERS))


@pytest.fixture
def network(tmp_path: Path) -> Path:
    path = tmp_path / "net.chain"
    path.write_text(NETWORK, "utf-8")
    return path


@pytest.fixture
def samples(tmp_path: Path) -> Path:
    path = tmp_path / "samples.npz"
    np.savez(path, x=np.random.default_rng(1).normal(0, 1, (4, 1, 8, 8, 8)).astype(np.float32))
    return path


@each("offer", offers_of(ACME_TOOLS), ids=lambda offer: f"{offer.group}:{offer.name}")
def test_everything_it_registers_can_be_used(offer: Any, registry: Registry) -> None:
    assert registry.get(offer.group, offer.name) is not None


# The pass


def test_the_pass_rewrites_as_its_golden_text_says(installed: None) -> None:
    run_golden(ACME_TOOLS / "tests" / "pow-to-mul.mlir")


@pytest.mark.parametrize(("text", "changed"), [("pow-to-mul", False), ("pow-to-mul{largest=3}", True)])
def test_the_pass_keeps_the_meaning(text: str, changed: bool, registry: Registry, tmp_path: Path) -> None:
    source = (ACME_TOOLS / "tests" / "pow-to-mul.mlir").read_text("utf-8").replace("2.0", "3.0")
    (tmp_path / "net.mlir").write_text(source, "utf-8")
    module = Session(registry).load(tmp_path / "net.mlir")
    assert PassManager(PassContext(registry)).run(module, [text]) is changed
    x = np.array([[0.0, 0.5, 1.0, 2.0]], np.float32)
    np.testing.assert_allclose(Interpreter(module).run({"x": x})["root"], x**1.5, rtol=1e-6)


# The front end


def test_a_chain_becomes_a_module(network: Path, registry: Registry) -> None:
    module = Session(registry).transform(network)
    x = np.arange(512, dtype=np.float32).reshape(1, 8, 8, 8) - 400
    expected = np.maximum(x.reshape(8, 2, 4, 2, 4).max((2, 4)), 0).reshape(1, 32)
    np.testing.assert_array_equal(Interpreter(module).run({"x": x})["flatten_5"], expected)


def test_shape_and_batch_of_the_user_come_first(network: Path, registry: Registry) -> None:
    module = Session(registry).transform(network, input_shapes=[[2, 3, 4, 4]])
    assert module.main.outputs[0].tensor.dims == (2, 3)
    module = Session(registry).transform(network, batch=5)
    assert module.main.outputs[0].tensor.dims == (5, 32)


def test_preprocessing_is_kept_on_the_input(network: Path, registry: Registry) -> None:
    module = Session(registry).transform(network, preprocess={"scale": (0.5,)})
    assert module.main.operations[0].op.scale == (0.5, 0.5, 0.5)


@each(
    ("content", "error", "sentence"),
    [
        (b"\xff", InvalidModel, "is not text (byte 0); give a .chain file"),
        (b"relu\n", InvalidModel, "line 1 must be `input NAME SHAPE`, as in `input x 1x3x8x8`"),
        (b"input x 1x4\n\nrelo\n", Unsupported, "line 3: no op 'relo'; a chain knows flatten, maxpool, relu"),
        (b"input x 1x1x4x4\nmaxpool two\n", InvalidModel, "line 2: 'maxpool' does not take 'two'"),
    ],
)
def test_a_bad_chain_is_one_sentence(
    content: bytes, error: type[TpucError], sentence: str, registry: Registry, tmp_path: Path
) -> None:
    path = tmp_path / "bad.chain"
    path.write_bytes(content)
    with pytest.raises(error) as caught:
        Session(registry).transform(path)
    assert str(caught.value) == f"{path}: {sentence}"


@pytest.mark.parametrize("options", [{"output_names": ["relu_3"]}, {"input_shapes": [[1, 2, 4, 4], [1]]}], ids=str)
def test_a_chain_has_one_end_on_each_side(options: dict[str, Any], network: Path, registry: Registry) -> None:
    with pytest.raises(Unsupported, match="a chain has one input and one output; give one shape and no output names"):
        Session(registry).transform(network, **options)


# The calibrator


@dataclass(frozen=True)
class Seen:
    """Statistics made by hand."""

    counts: NDArray[np.int64]
    absmax: float = 4.0
    zeros: int = 0
    minimum: float = -4.0
    maximum: float = 4.0


@each(
    ("counts", "threshold"),
    [
        ([90, 50, 6, 4], 2.0),  # ten values lie in the two last bins
        ([90, 50, 7, 4], 3.0),  # eleven would be too many
        ([90, 50, 7, 11], 4.0),
        ([1, 1, 1, 1], 4.0),  # nothing would be left
    ],
)
def test_the_calibrator_drops_ten_values(counts: list[int], threshold: float, registry: Registry) -> None:
    method = registry.get("tpuc.calibrators", "trimmed")()
    assert method.threshold(Seen(np.array(counts, np.int64))) == threshold


@pytest.mark.parametrize("count", [1, 2])
def test_the_proposer_takes_part_in_calibrations(count: int, network: Path, samples: Path, registry: Registry) -> None:
    session = Session(registry)
    methods = {1: "percentile", 2: "kld"}  # the default is compared with another one, and both have a mean
    table = session.calibrate(session.transform(network), dataset=samples, method=methods[count])
    (tables,) = [one for one in table.origin.rounds if one.name == "tables"]
    proposed = [one.name for one in tables.entrants if one.proposer == "mean-of-methods"]
    assert proposed == ["mean of the methods"] * (count - 1)


def test_the_calibrator_serves_a_table(network: Path, samples: Path, registry: Registry) -> None:
    session = Session(registry)
    table = session.calibrate(session.transform(network), dataset=samples, method="trimmed", options={"tune_num": 0})
    seen = table.entries["relu_3"]
    assert 0 < seen.threshold < seen.maximum


# The planner


class TestSeparate(PlannerConformance):
    planner = Registry(offers=OFFERS).get("tpuc.planners", "separate")


def test_the_planner_shares_nothing_and_keeps_to_the_pools(registry: Registry) -> None:
    planner = registry.get("tpuc.planners", "separate")
    buffers = [BufferInfo("a", 10, 4), BufferInfo("b", 20, 4), BufferInfo("c", 8, 4, pool_candidates=("fast", "slow"))]
    plan = planner.plan(buffers, [PoolInfo("fast", 33), PoolInfo("slow", 8)])
    assert {name: (place.pool, place.offset) for name, place in plan.items()} == {
        "a": ("fast", 0),
        "b": ("fast", 12),
        "c": ("slow", 0),
    }
    with pytest.raises(TpucError, match="buffer 'a': 10 bytes are left in no pool; enlarge one"):
        planner.plan(buffers[:1], [PoolInfo("fast", 9)])


def build(registry: Registry, network: Path, samples: Path, finalize: Sequence[str]) -> tuple[Session, Built]:
    """The network for the toy chip in int8."""
    pipelines = {**PIPELINES, "finalize": tuple(finalize)}
    session = Session(registry, chip="toy", quantize="int8", pipelines=pipelines)
    module = session.transform(network)
    return session, session.build(module, session.calibrate(module, dataset=samples, method="max"))


def test_a_pipeline_chooses_the_planner(network: Path, samples: Path, registry: Registry) -> None:
    usual = PIPELINES["finalize"]
    separate = [text if text != "assign-addresses" else "assign-addresses{planner=separate}" for text in usual]
    x = np.load(samples)["x"][0]
    sizes: list[int] = []
    results: list[Any] = []
    for finalize in (usual, separate):
        session, built = build(registry, network, samples, finalize)
        stored = Interpreter(built.module).run({"x": x}, "all")
        loaded = session.chip.load(built.data)
        outputs = loaded.run({info.name: stored[info.name] for info in loaded.inputs})
        sizes.append(loaded.memory["activations"])
        results.append(next(iter(outputs.values())).tolist())
    assert results[0] == results[1]
    assert sizes[0] < sizes[1]


# The command


def test_the_command_lists_constants(installed: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    digits, module = ROOT / "examples" / "digits" / "digits.onnx", tmp_path / "digits.mlir"
    assert main(["transform", "--model-name=digits", f"--model-def={digits}", f"--mlir={module}"]) == 0
    capsys.readouterr()
    assert main(["weights", str(module), "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    with np.load(tmp_path / "digits_weight.npz") as weights:
        assert {name: weights[name].size * 4 for name in rows} == rows
    assert list(rows.values()) == sorted(rows.values(), reverse=True)
    assert main(["weights", str(module)]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(rows)


def test_help_names_the_package_of_a_foreign_command(installed: None, capsys: pytest.CaptureFixture[str]) -> None:
    main(["--help"])
    assert "(from acme-tools 0.1.0)" in capsys.readouterr().out


# The hooks


@pytest.mark.parametrize("enabled", [[], ["checksum"]])
def test_a_hook_acts_only_when_it_is_named(enabled: list[str], network: Path, samples: Path, tmp_path: Path) -> None:
    registry = Registry(enabled=enabled, offers=OFFERS)
    model, digest = tmp_path / "net.toy", tmp_path / "net.toy.sha256"
    Session(registry, chip="toy", quantize="int8").compile(network, model, dataset=samples)
    assert digest.exists() is bool(enabled)
    if enabled:
        assert digest.read_text().split() == [hashlib.sha256(model.read_bytes()).hexdigest(), "net.toy"]


def test_a_wrapping_hook_sees_the_result_of_the_stage() -> None:
    registry = Registry(enabled=["finite"], offers=OFFERS)
    chip = registry.get("tpuc.chips", "toy")

    def simulated(value: float) -> dict[str, NDArray[np.float32]]:
        result = {"y": np.array([value], np.float32)}
        return registry.hooks.hook.simulate(chip=chip, inputs={}, proceed=lambda: result)

    assert simulated(1.0)["y"] == 1.0
    with pytest.raises(TpucError, match="output 'y' on toy is not finite; look for an overflow"):
        simulated(float("nan"))
