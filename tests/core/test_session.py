"""What a session refuses, and what it says of two stages that it compares: by the sentence."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray
from tpuc.api.frontend import Frontend, HostEngine, ImportOptions
from tpuc.errors import CalibrationError, TpucError, Unsupported, UsageError
from tpuc.ir.builtin import Return
from tpuc.ir.operation import Module
from tpuc.registry import Registry
from tpuc_accuracy.analysis.runs import compare_layers
from tpuc_driver.data.samples import SampleInput
from tpuc_driver.session import Session
from tpuc_driver.session.compare import compare, tolerance_of
from tpuc_driver.session.opening import opened
from tpuc_driver.session.running import samples_in
from tpuc_driver.session.settings import NetworkSettings
from tpuc_driver.similarity import NothingToCompare

from tests.core.fakes import chip, offer
from tests.core.test_interpreter import network
from tests.families import each


class Reader(Frontend):
    """Reads .abc."""

    name = "reader"
    suffixes = (".abc",)

    def read(self, path: Path, options: object, registry: object) -> Module:
        return finished()


class Engine(HostEngine):
    """Runs .abc."""

    name = "engine"
    suffixes = (".abc",)

    def run(
        self, path: Path, inputs: Mapping[str, NDArray[np.generic]], model_data: Path | None = None
    ) -> dict[str, NDArray[np.generic]]:
        return {}


def finished() -> Module:
    """`mm = x @ w`, x 2 x 4."""
    module, build = network()
    build.operation(Return(), [module.main.operations[-1].result], ())
    module.main.update_type()
    return module


def session_of(mode: str = "f32") -> Session:
    offers = [chip("newchip"), offer("frontends", "reader", Reader()), offer("engines", "engine", Engine())]
    return Session(Registry(offers=offers), chip="newchip", quantize=mode, pipelines={"top-optimize": ()})


def test_options_that_a_front_end_or_an_engine_does_not_heed() -> None:
    asked: dict[str, NetworkSettings] = {
        "--dim": {"dims": {"n": 1}},
        "--input-names": {"input_names": ("x",)},
        "--fix-input": {"fixed_inputs": {"x": 1}},
    }
    for option, settings in asked.items():
        with pytest.raises(Unsupported) as caught:
            session_of().transform(Path("net.abc"), **settings)
        assert (
            str(caught.value)
            == f"net.abc: front end 'reader' does not support {option}; export the network to ONNX to use it."
        )
    assert Engine().run_as(Path("net.abc"), {}, ImportOptions()) == {}
    with pytest.raises(
        Unsupported, match=r"^net\.abc: engine runs networks as they are in the file\. Leave out --test"
    ):
        Engine().run_as(Path("net.abc"), {}, ImportOptions(fixed_inputs={"x": 1}))


class FolderReader(Reader):
    """Reads folders with a graph.abc, and knows what to do with .weights."""

    name = "folders"
    folder_file = "graph.abc"
    others: ClassVar = {".weights": "these are weights alone; give the .abc"}

    def read(self, path: Path, options: object, registry: object) -> Module:
        assert path.name == "graph.abc"
        return finished()


def test_folders_and_files_of_the_same_framework(tmp_path: Path) -> None:
    offers = [chip("newchip"), offer("frontends", "folders", FolderReader())]
    session = Session(Registry(offers=offers), chip="newchip", quantize="f32", pipelines={"top-optimize": ()})
    with pytest.raises(Unsupported) as caught:
        session.transform(tmp_path)
    assert str(caught.value).startswith(f"{tmp_path}: no installed front end reads folders like this one; installed")
    (tmp_path / "graph.abc").write_bytes(b"")
    assert session.transform(tmp_path).main.outputs[0].name == "mm"
    with pytest.raises(Unsupported) as caught:
        session.transform(Path("net.weights"))
    assert str(caught.value) == "net.weights: these are weights alone; give the .abc"
    with pytest.raises(Unsupported, match=r"^net: no installed front end reads files without a suffix in their name; "):
        session.transform(Path("net"))


def test_a_file_that_nobody_reads() -> None:
    with pytest.raises(Unsupported) as caught:
        session_of().transform(Path("net.xyz"))
    assert str(caught.value) == (
        "net.xyz: no installed front end reads files of type '.xyz'; installed front ends read .abc"
    )
    with pytest.raises(
        UsageError, match=r"net\.mlir: this is a module, not a network file; compile it with `tpuc deploy --mlir`"
    ):
        session_of().transform(Path("net.mlir"))
    with pytest.raises(Unsupported, match=r"installed front ends read nothing$"):
        Session(Registry(offers=[])).transform(Path("net.xyz"))


def test_a_file_that_no_engine_runs(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", x=np.ones((2, 4), np.float32))
    with pytest.raises(Unsupported) as caught:
        session_of().verify_transform(Path("net.xyz"), finished(), test_input=[tmp_path / "x.npz"])
    assert str(caught.value) == "net.xyz: no installed engine runs files of type '.xyz'; leave out --test-input"
    for path, what in ((tmp_path, "folders like this one"), (Path("net"), "files without a suffix in their name")):
        with pytest.raises(Unsupported) as caught:
            session_of().verify_transform(path, finished(), test_input=[tmp_path / "x.npz"])
        assert str(caught.value) == f"{path}: no installed engine runs {what}; leave out --test-input"
        with pytest.raises(Unsupported, match=rf"no installed chip reads {what}; installed chips read \.bin"):
            opened(session_of().configuration, path)


def test_integers_need_a_calibration() -> None:
    with pytest.raises(CalibrationError) as caught:
        session_of("int8").compile(Path("net.abc"), Path("net.bin"))
    assert str(caught.value) == (
        "net.abc: int8 needs calibration: give samples with --dataset or --data-list, or a table with "
        "--calibration-table"
    )
    with pytest.raises(CalibrationError) as caught:
        session_of("int8").build(finished())
    assert str(caught.value) == (
        "m: int8 needs a calibration table; make one with `tpuc calibrate` and give it with --calibration-table"
    )


def test_one_file_for_all_inputs_or_one_for_each() -> None:
    inputs = [SampleInput(name, (1, 2)) for name in "abc"]
    with pytest.raises(UsageError) as caught:
        samples_in(inputs, [Path("a.npy"), Path("b.npy")], Registry())
    assert str(caught.value) == "2 input files for 3 inputs; give one file with all inputs, or one file for each."


def test_layers_are_compared_on_samples(tmp_path: Path) -> None:
    session = session_of()
    with pytest.raises(UsageError) as caught:
        compare_layers(session, tmp_path / "a.mlir", tmp_path / "b.mlir", [], 1)
    assert str(caught.value) == "no input to run both networks on; give --input FILE."


def test_stages_that_differ_too_much() -> None:
    got = {"same": np.array([3.0, 4.0]), "x": np.array([3.0, 4.0]), "ours": np.ones(1)}
    wanted = {"same": np.array([3.0, 4.0]), "x": np.array([4.0, 3.0]), "theirs": np.ones(1)}
    # cosine 24/25; euclidean 1 - sqrt(2) / sqrt(24.5)
    assert compare("a and b", got, wanted, (0.95, 0.7)).text() == (
        "a and b: 2 tensors, cosine >= 0.960000, euclidean >= 0.714286 (lowest at 'x')"
    )
    for tolerance in ((0.97, 0.7), (0.95, 0.72)):
        with pytest.raises(TpucError) as caught:
            compare("a and b", got, wanted, tolerance)
        assert str(caught.value) == (
            "a and b: 2 tensors, cosine >= 0.960000, euclidean >= 0.714286 (lowest at 'x'): below the tolerance of "
            f"{tolerance[0]}, {tolerance[1]}; examine that tensor first, or lower --tolerance; if it is quantized, add "
            "calibration samples or compute it in a float mode"
        )
    assert compare("a and b", got, wanted, (0.97, 0.72), excepts=["x"]).tensors == 1


def test_stages_without_a_common_name() -> None:
    with pytest.raises(NothingToCompare) as caught:
        compare("a and b", {"x": np.ones(1)}, {"y": np.ones(1)}, (0.9, 0.5))
    assert str(caught.value) == "a and b: nothing to compare, because the two sides have no tensor name in common"


def test_tolerances_are_two_numbers_or_those_of_the_mode() -> None:
    """The table of docs/spec."""
    assert [tolerance_of(mode, ()) for mode in ("f32", "bf16", "int8")] == [(0.99, 0.99), (0.95, 0.85), (0.9, 0.5)]
    assert tolerance_of("f32", (0.8, 0.7)) == (0.8, 0.7)
    with pytest.raises(TpucError) as caught:
        tolerance_of("f32", (0.8,))
    assert str(caught.value) == "--tolerance takes two numbers, cosine and euclidean; 1 were given"
    for given, shown in (((math.nan, math.nan), "nan,nan"), ((0.9, -math.inf), "0.9,-inf")):
        with pytest.raises(UsageError) as caught:
            tolerance_of("f32", given)
        assert str(caught.value) == f"--tolerance takes two finite numbers such as 0.9,0.7, not {shown}."


NAN, INF = math.nan, math.inf


@each(
    ("got", "wanted", "fault"),
    [
        (
            [7.0, 7.0],
            [NAN, 7.0],
            "is NaN in 1 of 2 values, which no tolerance accepts; check the op that computes it",
        ),
        (
            [NAN, NAN],
            [7.0, 7.0],
            "is NaN in 2 of 2 values, which no tolerance accepts; check the op that computes it",
        ),
        (
            [NAN, 1.0],
            [NAN, 1.0],
            "is NaN in 1 of 2 values, which no tolerance accepts; check the op that computes it",
        ),
        (
            [INF, 1.0],
            [9e4, 1.0],
            "is infinite on one side only in 1 of 2 values; keep the op that overflows in a ",
        ),
        (
            [INF, 1.0],
            [-INF, 1.0],
            "is infinite on one side only in 1 of 2 values; keep the op that overflows in a ",
        ),
        ([1.0, 1.0, 1.0], [1.0, 1.0], "has 2 and 3 elements; compare results of the same network on the same input"),
    ],
)
@each("tolerance", [(0.9, 0.5), (-1.0, -1e300)])
def test_nan_and_overflow_fail_at_every_tolerance_and_are_named(
    got: list[float], wanted: list[float], fault: str, tolerance: tuple[float, float]
) -> None:
    same = np.array([3.0, 4.0])
    for dtype in (np.float32, np.float64):
        ours = {"a": same, "x": np.array(got, dtype), "z": same}
        theirs = {"a": same, "x": np.array(wanted, dtype), "z": same}
        with pytest.raises(TpucError) as caught:
            compare("TOP and TPU", ours, theirs, tolerance)
        assert str(caught.value).startswith(f"TOP and TPU: 'x' {fault}")
        assert str(caught.value).endswith(", or leave it out with --excepts")
        assert compare("TOP and TPU", ours, theirs, tolerance, excepts=["x"]).tensors == 2


def test_the_same_infinity_on_both_sides_agrees() -> None:
    masked = np.array([-INF, 3.0, 4.0])
    assert compare("a and b", {"x": masked}, {"x": masked.copy()}, (1.0, 1.0)).cosine == 1.0
    near = compare("a and b", {"x": masked}, {"x": np.array([-INF, 4.0, 3.0])}, (0.95, 0.7))
    assert near.cosine == pytest.approx(24 / 25)


def test_the_lowest_number_of_a_type_stands_for_infinity() -> None:
    """-3.4028e38 in float32 is -3.3895e38 in bf16 and infinite in f16; the other values are what is compared."""
    exact, narrow = np.array([-3.4028234e38, 3.0, 4.0]), np.array([-3.3895314e38, 4.0, 3.0])
    for got in (narrow, np.array([-INF, 4.0, 3.0])):
        assert compare("a and b", {"x": got}, {"x": exact}, (0.9, 0.5)).cosine == pytest.approx(24 / 25)
    with pytest.raises(TpucError, match="'x' is infinite on one side only in 1 of 3 values"):
        compare("a and b", {"x": -narrow}, {"x": np.array([1e29, 3.0, 4.0])}, (-1.0, -9.0))


def test_truth_values_and_narrow_floats_are_compared_too() -> None:
    truth = np.array([True, False, True])
    with pytest.raises(TpucError, match=r"a and b: 2 tensors, .*lowest at 't'"):
        compare("a and b", {"t": ~truth, "s": truth}, {"t": truth, "s": truth}, (0.9, 0.5))
    narrow = np.array([1.0, 2.0], ml_dtypes.bfloat16)
    assert compare("a and b", {"n": narrow}, {"n": narrow}, (1.0, 1.0)).tensors == 1


@each("name", ["../OUT/pwned", "/tmp/pwned"])
def test_intermediate_files_stay_in_the_work_folder(name: str, tmp_path: Path) -> None:
    work = tmp_path / "deep" / "work"
    session = Session(Registry(offers=[]), work_dir=work)
    module = finished()
    module.name = name
    session.configuration.keep(module, "_origin")
    stem = name.lstrip(".").replace("/", "_")
    assert sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()) == [
        f"deep/work/{stem}_origin.mlir",
        f"deep/work/{stem}_origin_weight.npz",
    ]


def test_a_session_is_not_changed_but_another_one_made() -> None:
    session, remarks = session_of(), list[str]()
    other = session.having(mode="int8", remark=remarks.append)
    assert (session.mode, other.mode, other.registry, other.chip) == ("f32", "int8", session.registry, session.chip)
    other.remark("heard")
    session.remark("unheard")
    assert remarks == ["heard"]
    with pytest.raises(AttributeError):
        session.mode = "int8"  # pyright: ignore[reportAttributeAccessIssue]
