"""The built-in commands hand every option to the session, check what they can first, and show its answers."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tpuc.errors import CalibrationError
from tpuc.registry import Offer
from tpuc_driver.api.answers import RunSample
from tpuc_driver.data import SampleSet

from tests.core.cli import CommandLine
from tests.core.fakes import Rename, chip, offer

MODULE = """module @net attributes {module.name = "net"} {
  func.func @main(%arg0: tensor<1x4xf32> loc("x")) -> tensor<1x4xf32> {
    return %arg0 : tensor<1x4xf32> loc(unknown)
  } loc(unknown)
} loc(unknown)
"""


class FakeReport:
    model, memory_plan = "o.bin", None

    def text(self) -> str:
        return "a report"

    def to_json(self) -> Mapping[str, Any]:
        return {"cycles": 7}


class FakeSession:
    """Notes how it is made and called."""

    calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]]

    def __init__(self, registry: Any, **settings: Any) -> None:
        del settings["progress"], settings["log"], settings["remark"], settings["pipelines"], registry
        self._note("open", **{key: value for key, value in settings.items() if (key, value) != ("trust", False)})

    def _note(self, what: str, *arguments: Any, **settings: Any) -> None:
        given = {key: value for key, value in settings.items() if value not in (None, (), {})}
        FakeSession.calls.append((what, arguments, given))

    def load(self, path: Path) -> str:
        self._note("load", path.name)
        return f"module of {path.name}"

    def save(self, module: str, path: Path) -> None:
        self._note("save", module, path.name)

    def transform(self, path: Path, **settings: Any) -> str:
        self._note("transform", path.name, **settings)
        return "module"

    def calibrate_and_check(self, module: str, **settings: Any) -> Any:
        self._note("calibrate", module, **settings)
        return SimpleNamespace(write=lambda path: path.write_text("table")), SimpleNamespace(text=lambda: "a check")

    def compile(self, path: Path, model: Path, **settings: Any) -> FakeReport:
        self._note("compile", path.name, model.name, **settings)
        if "int8" in path.name:
            raise CalibrationError(f"{path.name}: int8 needs calibration")
        return FakeReport()

    def deploy(self, module: str, model: Path, **settings: Any) -> FakeReport:
        self._note("deploy", module, model.name, **settings)
        return FakeReport()

    def run_each(self, path: Path, inputs: tuple[Path, ...], **settings: Any) -> list[RunSample]:
        self._note("run", path.name, *(path.name for path in inputs), **settings)
        outputs = {"y": np.array([[0, 50, 20]], np.int8)}
        return [RunSample("x.npz", inputs, None, (), outputs, {"y": outputs["y"] * 0.5})]

    def profile(self, path: Path, **settings: Any) -> FakeReport:
        self._note("profile", path.name, **settings)
        return FakeReport()

    def disassemble(self, path: Path) -> str:
        return f"commands of {path.name}\n"


Calls = list[tuple[str, tuple[Any, ...], dict[str, Any]]]


@pytest.fixture
def calls(tpuc: CommandLine, monkeypatch: pytest.MonkeyPatch) -> Calls:
    """What the session was asked, with one chip installed and some files in the folder."""
    FakeSession.calls = []
    monkeypatch.setattr("tpuc_driver.session.Session", FakeSession)
    tpuc.install(chip("newchip"))
    for name in ("net.onnx", "net.mlir", "table", "x.npz", "y.npz", "net.bin"):
        tpuc.file(name)
    (tpuc.folder / "samples").mkdir()
    return FakeSession.calls


def test_compile_passes_everything_on(tpuc: CommandLine, calls: Calls) -> None:
    outcome = tpuc(
        *("compile", "net.onnx", "--chip", "newchip", "--quantize", "INT8", "--dataset", "samples", "-o", "net.bin"),
        *("--input-num", "5", "--calibration-method", "max", "--input_shapes", "[[1,3]]", "--output_names", "a,b"),
        *("--test-input", "x.npz,y.npz", "--tolerance", "0.9,0.7", "--symmetric-divisor", "127", "--work-dir", "w"),
        *("--calibration_table", "table", "--excepts", "c"),
    )
    assert (outcome.code, outcome.out, outcome.err) == (0, "a report\n", "")
    assert calls == [
        ("open", (), {"chip": "newchip", "quantize": "int8", "work_dir": Path("w"), "symmetric_divisor": 127}),
        (
            "compile",
            ("net.onnx", "net.bin"),
            {
                "random_weights": False,
                "input_shapes": ((1, 3),),
                "output_names": ("a", "b"),
                "dataset": (SampleSet(Path("samples")),),
                "input_num": 5,
                "calibration_table": Path("table"),
                "calibration_method": "max",
                "test_input": (Path("x.npz"), Path("y.npz")),
                "excepts": ("c",),
                "tolerance": (0.9, 0.7),
            },
        ),
    ]


def test_compile_writes_its_report_for_programs(tpuc: CommandLine, calls: Calls) -> None:
    words = ("--model", "o.bin", "--report", "r.json")
    assert tpuc("compile", "net.onnx", "--chip", "newchip", *words).code == 0
    written = json.loads((tpuc.folder / "r.json").read_text())
    assert written.pop("command") == ["tpuc", "compile", "net.onnx", "--chip", "newchip", *words]
    assert written.pop("versions")["Python"] == platform.python_version()
    assert written == {"cycles": 7}
    assert tpuc("compile", "net.onnx", "--chip", "newchip", "-o", "o.bin", "--work-dir", "kept").code == 0
    assert json.loads((tpuc.folder / "kept" / "o.bin.json").read_text())["cycles"] == 7


COMPILE = ("compile", "net.onnx", "--chip", "newchip")


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        ((*COMPILE, "-o", "no/net.bin"), 1, "no/net.bin: cannot be written: there is no folder 'no'. Create it first."),
        ((*COMPILE, "-o", "samples"), 1, "samples: cannot be written: it is a folder. Name a file inside it."),
        (
            (*COMPILE, "-o", "o", "--report", "table/r"),
            1,
            "table/r: cannot be written: 'table' is not a folder. Choose another place.",
        ),
        (("compile", "no.onnx", *COMPILE[2:], "-o", "o"), 1, "no.onnx: no such file or directory. Check the path."),
        ((*COMPILE, "-o", "o", "--dataset", "no"), 1, "no: no such file or directory. Check the path."),
        (
            (*COMPILE, "-o", "o", "--dataset", "samples", "--data-list", "table"),
            2,
            "--dataset and --data-list both give samples; give one of them.",
        ),
        (
            ("compile", "net.onnx", "--chip", "newchap", "-o", "o"),
            2,
            "no chip named 'newchap'. Did you mean 'newchip'? Installed: newchip.",
        ),
        (
            (*COMPILE, "-o", "o", "--quantize", "int4"),
            2,
            "chip 'newchip' has no mode 'int4'. Its modes: f32, int8.",
        ),
        (
            ("calibrate", "net.mlir", "-o", "t"),
            2,
            "no samples to calibrate with; give --dataset DIR or --data-list FILE.",
        ),
        (
            ("deploy", "--mlir", "net.mlir", "--chip", "newchip", "--quantize", "f32", "--asymmetric", "-o", "o"),
            2,
            "--asymmetric has no effect with --quantize f32; use it with int8.",
        ),
        (
            ("transform", "--model-name", "n", "--model-def", "net.onnx", "--mlir", "n.mlir", "--excepts", "x"),
            2,
            "--test-result, --excepts and --tolerance require --test-input; add --test-input FILE.",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_cannot_work_is_said_before_any_work(
    tpuc: CommandLine, calls: Calls, arguments: tuple[str, ...], code: int, sentence: str
) -> None:
    outcome = tpuc(*arguments)
    assert (outcome.code, outcome.out, outcome.err) == (code, "", f"tpuc: {sentence}\n")
    assert calls == []


def test_an_error_of_the_session_is_one_sentence(tpuc: CommandLine, calls: Calls) -> None:
    tpuc.file("int8.onnx")
    outcome = tpuc("compile", "int8.onnx", "--chip", "newchip", "-o", "o")
    assert (outcome.code, outcome.err) == (1, "tpuc: int8.onnx: int8 needs calibration\n")


def test_transform_passes_preprocessing_on(tpuc: CommandLine, calls: Calls) -> None:
    outcome = tpuc(
        *("model_transform", "--model_name", "net", "--model_def", "net.onnx", "--mlir", "net.mlir"),
        *("--mean", "1,2,3", "--scale", "0.5", "--pixel_format", "bgr", "--keep_aspect_ratio"),
        *("--resize_dims", "8,9", "--model_data", "table", "--input_shapes", "[1,3]"),
    )
    assert (outcome.code, outcome.err) == (0, "")
    preprocess = {
        "resize_dims": (8, 9),
        "keep_aspect_ratio": True,
        "mean": (1.0, 2.0, 3.0),
        "scale": (0.5,),
        "pixel_format": "bgr",
    }
    settings = {
        "model_name": "net",
        "model_data": Path("table"),
        "random_weights": False,
        "input_shapes": ((1, 3),),
        "preprocess": preprocess,
    }
    assert calls[1:] == [("transform", ("net.onnx",), settings), ("save", ("module", "net.mlir"), {})]


def test_transform_knows_every_word_about_images(tpuc: CommandLine, calls: Calls) -> None:
    outcome = tpuc(
        *("transform", "--model-name", "net", "--model-def", "net.onnx", "--mlir", "net.mlir", "--batch", "4"),
        *("--keep-aspect-ratio", "--keep-ratio-mode", "short_side_scale", "--pad-value", "114"),
        *("--pad-type", "normal", "--channel-format", "nhwc"),
    )
    assert (outcome.code, outcome.err) == (0, "")
    preprocess = {
        "keep_aspect_ratio": True,
        "keep_ratio_mode": "short_side_scale",
        "pad_value": 114,
        "pad_type": "normal",
        "channel_format": "nhwc",
    }
    settings = {"model_name": "net", "random_weights": False, "batch": 4, "preprocess": preprocess}
    assert calls[1] == ("transform", ("net.onnx",), settings)


def test_compile_and_deploy_know_the_border_of_the_network(tpuc: CommandLine, calls: Calls) -> None:
    from tpuc_driver.session.boundary import Boundary

    words = (
        "--fuse_preprocess",
        "--customization_format",
        "rgb_packed",
        "--quant_output",
        "--quant_output_list",
        "2,3",
    )
    boundary = Boundary(True, "RGB_PACKED", quant_output=True, quant_output_list=(2, 3))
    assert (
        tpuc("compile", "net.onnx", "--chip", "newchip", "-o", "o", "--mean", "1,2,3", "--batch", "2", *words).code == 0
    )
    settings = calls[1][2]
    assert (settings["boundary"], settings["preprocess"]) == (boundary, {"mean": (1.0, 2.0, 3.0)})
    assert settings["batch"] == 2
    assert tpuc("deploy", "--mlir", "net.mlir", "--chip", "newchip", "--quantize", "int8", "-o", "o", *words).code == 0
    assert calls[-1][2]["boundary"] == boundary


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ("--customization-format", "RGB_PACKED"),
            "--customization-format has no effect without --fuse-preprocess; add",
        ),
        (("--quant-input-list", "1"), "--quant-input-list has no effect without --quant-input; add --quant-input."),
    ],
)
def test_words_that_belong_to_others(tpuc: CommandLine, calls: Calls, words: tuple[str, ...], sentence: str) -> None:
    outcome = tpuc("compile", "net.onnx", "--chip", "newchip", "-o", "o", *words)
    assert (outcome.code, outcome.err.startswith(f"tpuc: {sentence}")) == (2, True)
    assert calls == []


def test_run_passes_words_about_images_on(tpuc: CommandLine, calls: Calls) -> None:
    assert tpuc("run", "--input", "x.npz", "--model", "net.bin", "--pixel-format", "rgb", "--scale", "0.5").code == 0
    settings = {"preprocess": {"pixel_format": "rgb", "scale": (0.5,)}, "dump_all_tensors": False}
    assert calls[1] == ("run", ("net.bin", "x.npz"), settings)


@pytest.mark.parametrize("option", ["--post", "--post-handle-type"])
def test_post_processing_has_the_name_of_the_peer_too(tpuc: CommandLine, calls: Calls, option: str) -> None:
    words = ("transform", "--model-name", "n", "--model-def", "net.onnx", "--mlir", "n.mlir")
    assert tpuc(*words, option, "yolo").code == 0
    assert calls[1][2]["post"] == "yolo"


def test_calibrate_writes_the_table(tpuc: CommandLine, calls: Calls) -> None:
    outcome = tpuc("run_calibration", "net.mlir", "--data_list", "table", "--headroom", "1", "-o", "out")
    assert (outcome.code, outcome.out, outcome.err) == (0, "a check\n", "")
    options = {"tune_num": 16, "bias_num": 16, "workers": 0, "cluster": "", "resume": "", "statistics": "out.npz"}
    settings = {"data_list": Path("table"), "input_num": 0, "method": "kld", "histogram_bin_num": 2048}
    settings["options"] = {**options, "headroom": 1.0, "lint": True, "strict": False, "force": False}
    assert calls[1:] == [("load", ("net.mlir",), {}), ("calibrate", ("module of net.mlir",), settings)]
    assert (tpuc.folder / "out").read_text() == "table"


def test_deploy_passes_everything_on(tpuc: CommandLine, calls: Calls) -> None:
    tpuc.install(offer("chips", "newchip", _asymmetric_chip()))
    outcome = tpuc(
        *("model_deploy", "--mlir", "net.mlir", "--chip", "newchip", "--quantize", "INT8", "--asymmetric"),
        *("--calibration_table", "table", "--quantize_table", "table", "--test_input", "x.npz", "--model", "o.bin"),
        *("--test_reference", "y.npz", "--excepts", "a,b", "--tolerance", "0.9,0.7"),
    )
    assert (outcome.code, outcome.out, outcome.err) == (0, "a report\n", "")
    assert calls[0] == ("open", (), {"chip": "newchip", "quantize": "int8-asym"})
    assert calls[2][2].pop("keep_in").parent.resolve() == tpuc.folder.resolve()
    assert calls[2] == (
        "deploy",
        ("module of net.mlir", "o.bin"),
        {
            "calibration_table": Path("table"),
            "quantize_table": Path("table"),
            "test_input": (Path("x.npz"),),
            "test_reference": Path("y.npz"),
            "excepts": ("a", "b"),
            "tolerance": (0.9, 0.7),
        },
    )


def _asymmetric_chip() -> Any:
    from tests.core.fakes import FakeChip

    return FakeChip("newchip", modes=("int8", "int8-asym"))


def test_run_lists_results_and_writes_them(tpuc: CommandLine, calls: Calls) -> None:
    outcome = tpuc(
        "model_runner", "--input", "x.npz,y.npz", "--model", "net.bin", "--output", "o.npz", "--dump_all_tensors"
    )
    assert (outcome.code, outcome.out) == (0, "y  1x3  int8  [0, 25]  largest 25 at 0,1, 10 at 0,2, 0 at 0,0\n")
    assert calls[1] == ("run", ("net.bin", "x.npz", "y.npz"), {"dump_all_tensors": True})
    with np.load(tpuc.folder / "o.npz") as arrays:
        assert arrays["y"].shape == (1, 3)


def test_run_takes_the_network_and_its_inputs_as_words(tpuc: CommandLine, calls: Calls) -> None:
    assert tpuc("run", "net.bin", "x.npz", "y.npz").code == 0
    assert calls[1] == ("run", ("net.bin", "x.npz", "y.npz"), {"dump_all_tensors": False})
    outcome = tpuc("run", "net.bin", "x.npz", "--summary")
    lines = ["   shape  mean     std     min  max  NaN", "y  1x3    11.6667  10.274  0    25   0"]
    assert outcome.out.splitlines() == lines


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "tpuc: no network to run; give one, as in `tpuc run MODEL INPUT...`.\n"),
        (
            ("net.bin",),
            "tpuc: net.bin: no input to run it on; give one after it: an image, npz, npy or folder.\n",
        ),
        (
            ("net.bin", "x.npz", "--draw", "o.png"),
            "tpuc: net.bin: no known post-processing fits its outputs; leave out --postprocess and --draw.\n",
        ),
        (("net.bin", "x.npz", "-o", "x.npz"), "tpuc: -o x.npz: would overwrite x.npz, the input"),
    ],
)
def test_run_says_what_is_missing(tpuc: CommandLine, calls: Calls, words: tuple[str, ...], said: str) -> None:
    outcome = tpuc("run", *words)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith(said)


def test_disasm_shows_or_writes_commands(tpuc: CommandLine, calls: Calls) -> None:
    assert tpuc("disasm", "net.bin").out == "commands of net.bin\n"
    assert tpuc("disasm", "net.bin", "-o", "text").out == ""
    assert (tpuc.folder / "text").read_text() == "commands of net.bin\n"


RENAME = offer("passes", "rename", Rename)


def test_opt_runs_passes_in_order_and_prints_the_module(tpuc: CommandLine) -> None:
    tpuc.install(RENAME)
    tpuc.file("net.mlir", MODULE)
    outcome = tpuc("opt", "net.mlir", "--pass", "rename{to=a}", "--pass", "rename{to=b}", "--timing", "-v")
    assert outcome.code == 0
    assert "module @b " in outcome.out
    remarks = outcome.err.splitlines()
    assert remarks[0].startswith("rename: changed, ")
    assert [line.split()[0] for line in remarks[2:]] == ["rename", "rename"]


def test_opt_writes_a_file_and_dumps(tpuc: CommandLine) -> None:
    tpuc.install(RENAME)
    tpuc.file("net.mlir", MODULE)
    outcome = tpuc("opt", "net.mlir", "--pass", "rename", "-o", "out.mlir", "--dump-after", "rename", "--work-dir", "w")
    assert (outcome.code, outcome.out, outcome.err) == (0, "", "")
    assert "module @renamed " in (tpuc.folder / "out.mlir").read_text()
    assert [path.name for path in (tpuc.folder / "w").iterdir()] == ["01_rename.mlir"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--pass", "renam"], "no pass named 'renam'. Did you mean 'rename'? Installed: rename."),
        (["--pass", "rename{too=x}"], "pass 'rename' has no option 'too'. Did you mean 'to'? Options: to, "),
        (["--pipeline", "lowr"], "no pipeline named 'lowr'. Did you mean 'lower'? "),
        (["--dump-after", "all"], "--dump-after needs a folder to write to; give one with --work-dir DIR."),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_opt_explains_wrong_passes(tpuc: CommandLine, arguments: list[str], sentence: str) -> None:
    tpuc.install(RENAME)
    tpuc.file("net.mlir", MODULE)
    outcome = tpuc("opt", "net.mlir", *arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith(f"tpuc: {sentence}")


def test_opt_needs_a_file_or_lists(tpuc: CommandLine) -> None:
    tpuc.install(RENAME)
    assert tpuc("opt").err == "tpuc: opt: missing argument 'FILE.mlir'. See 'tpuc opt --help'.\n"
    listed = tpuc("opt", "--list").out.splitlines()
    assert listed[1] == "rename  acme 1.0"
    assert any(line.startswith("finalize") for line in listed)


def test_plugins_lists_without_loading(tpuc: CommandLine) -> None:
    tpuc.install(offer("chips", "broken", ImportError("never"), "parts", "0.1"), RENAME)
    outcome = tpuc("plugins")
    assert (outcome.code, outcome.err) == (0, "")
    assert [line.split() for line in outcome.out.splitlines()[1:]] == [
        ["chip", "broken", "parts", "0.1", "parts:broken", "available"],
        ["pass", "rename", "acme", "1.0", "acme:rename", "available"],
    ]
    listed = json.loads(tpuc("plugins", "--json").out)["plugins"]
    assert listed[0] == {
        "group": "tpuc.chips",
        "name": "broken",
        "package": "parts",
        "version": "0.1",
        "path": "parts:broken",
        "state": "available",
    }


def test_plugins_check_loads_each_and_says_what_is_broken(tpuc: CommandLine) -> None:
    tpuc.install(RENAME)
    assert tpuc("plugins", "--check").code == 0
    tpuc.install(offer("chips", "broken", ImportError("no parts"), "parts", "0.1"), RENAME)
    outcome = tpuc("plugins", "--check")
    assert outcome.code == 1
    assert outcome.err == (
        "chip 'broken' of parts 0.1 cannot be loaded: ImportError: no parts. "
        "Install what it needs, or uninstall parts.\n"
    )
    assert len(json.loads(tpuc("plugins", "--check", "--json").out)["problems"]) == 1


QTABLE = Offer("tpuc.commands", "qtable", "tpuc", "1.0", "tpuc_accuracy.mixed_precision.qtable_command:command")


def test_another_tool_s_name_of_a_plugin_s_command(tpuc: CommandLine) -> None:
    tpuc.install(QTABLE)
    assert tpuc("run_qtable", "--help").out.startswith("Usage: tpuc qtable ")


def test_no_network_within_the_limits(tpuc: CommandLine, calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    """The search finds networks, but none of them keeps what was asked for."""

    class Nothing:
        points = ()

        def loss_text(self) -> str:
            return "losses"

        def front(self) -> tuple[()]:
            return ()

        def choose(self, cosine: float | None, milliseconds: float | None) -> None:
            assert (cosine, milliseconds) == (0.999, 0.5)

    monkeypatch.setattr("tpuc_accuracy.mixed_precision.timed_search.search_quantize_table", lambda *_, **__: Nothing())
    tpuc.install(chip("newchip"), QTABLE)
    options = ("--chip", "newchip", "--calibration-table", "table", "--dataset", "samples", "-o", "qtable")
    outcome = tpuc("qtable", "net.mlir", *options, "--min-cosine", "0.999", "--max-latency", "0.5")
    assert outcome.code == 1
    assert outcome.err == (
        "tpuc: no network with at most 5 float layers has a cosine of at least 0.999 and a latency of at most 0.5 ms; "
        "raise --max-float-layers, or relax the limit\n"
    )
    assert not (tpuc.folder / "qtable").exists()
    assert not (tpuc.folder / "full_loss_table.txt").exists()
