"""What lies beside the module and the compiled file afterwards is what the chapter says of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tpuc.interpreter import Interpreter
from tpuc_driver.cli.outputs import beside
from tpuc_driver.session import Session, importing

from tests.chapter.given import make
from tests.chips.command_line import tpuc


def transform(folder: Path, model: str, test_input: str, *more: str, name: str = "net", mlir: str = "net.mlir") -> str:
    """Run `tpuc transform`; returns what stderr says."""
    words = ("--model_name", name, "--model_def", model, "--test_input", test_input, "--mlir", mlir, *more)
    done = tpuc("transform", *words, cwd=folder)
    assert (done.returncode == 0) == (not done.stderr), done.stderr
    return done.stderr


def arrays(path: Path) -> dict[str, np.ndarray]:
    with np.load(path) as stored:
        return dict(stored)


def test_the_input_is_what_the_preprocessing_makes_of_an_image(tmp_path: Path) -> None:
    make(tmp_path, "resnet.onnx")
    pixels = np.random.default_rng(0).integers(0, 255, (224, 224, 3), np.uint8)
    Image.fromarray(pixels).save(tmp_path / "cat.png")
    said = ("--mean", "103.939,116.779,123.68", "--scale", "0.5,1.0,2.0", "--pixel_format", "bgr")
    assert transform(tmp_path, "resnet.onnx", "cat.png", *said) == ""
    kept = arrays(tmp_path / "net_in_f32.npz")
    bgr = pixels[..., ::-1].astype(np.float32)
    wanted = (bgr - np.float32([103.939, 116.779, 123.68])) * np.float32([0.5, 1.0, 2.0])
    assert list(kept) == ["input"]
    assert kept["input"].dtype == np.float32
    np.testing.assert_allclose(kept["input"][0], wanted.transpose(2, 0, 1), atol=1e-4)


def test_integers_of_a_quantized_network_are_kept_as_what_they_mean(tmp_path: Path) -> None:
    pytest.importorskip("ai_edge_litert.interpreter", reason="needs ai-edge-litert")
    make(tmp_path, "resnet50_int8.tflite")
    stored = np.random.default_rng(0).integers(-128, 127, (1, 3, 224, 224), np.int8)
    np.save(tmp_path / "x.npy", stored)
    assert transform(tmp_path, "resnet50_int8.tflite", "x.npy") == ""
    kept = arrays(tmp_path / "net_in_f32.npz")["input"]
    assert kept.dtype == np.float32
    np.testing.assert_array_equal(kept, stored.astype(np.float32) + 10)  # scale 1, zero point -10


def test_the_origin_has_its_weights_and_the_same_results(tmp_path: Path) -> None:
    make(tmp_path, "Conv2d.onnx")
    make(tmp_path, "Conv2d_in.npz")
    assert transform(tmp_path, "Conv2d.onnx", "Conv2d_in.npz", name="Conv2d", mlir="Conv2d.mlir") == ""
    assert 'module.weight_file = "Conv2d_top_f32_all_weight.npz"' in (tmp_path / "Conv2d_origin.mlir").read_text()
    assert sorted(arrays(tmp_path / "Conv2d_top_f32_all_weight.npz")) == ["bias_conv1", "filter_conv1"]
    inputs, session = arrays(tmp_path / "Conv2d_in.npz"), Session()
    results = [Interpreter(session.load(tmp_path / name)).run(inputs) for name in ("Conv2d_origin.mlir", "Conv2d.mlir")]
    np.testing.assert_array_equal(results[0]["output"], results[1]["output"])


def test_an_input_that_was_kept_can_be_given_again(tmp_path: Path) -> None:
    make(tmp_path, "Conv2d.onnx")
    make(tmp_path, "net_in_f32.npz = Conv2d_in.npz")
    before = (tmp_path / "net_in_f32.npz").read_bytes()
    assert transform(tmp_path, "Conv2d.onnx", "net_in_f32.npz") == ""
    assert (tmp_path / "net_in_f32.npz").read_bytes() == before


@pytest.mark.parametrize(
    ("model", "mlir", "sentence"),
    [
        ("net_opt.onnx", "net.mlir", "--model-name net_opt.onnx: would overwrite net_opt.onnx, the input."),
        ("n.onnx", "net_origin.mlir", "--model-name net_origin.mlir: would overwrite net_origin.mlir, the output."),
    ],
)
def test_nothing_is_overwritten(model: str, mlir: str, sentence: str, tmp_path: Path) -> None:
    make(tmp_path, f"{model} = Conv2d.onnx")
    make(tmp_path, "x.npz = Conv2d_in.npz")
    before = sorted(path.name for path in tmp_path.iterdir())
    assert transform(tmp_path, model, "x.npz", mlir=mlir) == f"tpuc: {sentence} Choose another name.\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_without_a_test_input_only_the_module_is_written(tmp_path: Path) -> None:
    make(tmp_path, "Conv2d.onnx")
    words = ("--model_name", "net", "--model_def", "Conv2d.onnx", "--mlir", "net.mlir")
    assert tpuc("transform", *words, cwd=tmp_path).returncode == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["Conv2d.onnx", "net.mlir", "net_weight.npz"]


@pytest.mark.chip("bm1684x")
@pytest.mark.parametrize("work_dir", [(), ("--work-dir", "work")], ids=["beside", "work folder"])
def test_the_lowered_module_gives_what_the_chip_gives(work_dir: tuple[str, ...], tmp_path: Path) -> None:
    make(tmp_path, "sample.mlir")
    (tmp_path / "out").mkdir()
    words = ("--mlir", "sample.mlir", "--chip", "bm1684x", "--quantize", "f16", "--model", "out/sample.bmodel")
    assert tpuc("deploy", *words, *work_dir, cwd=tmp_path).returncode == 0
    kept = [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*_tpu.mlir")]
    assert kept == ["work/sample_bm1684x_f16_tpu.mlir" if work_dir else "out/sample_bm1684x_f16_tpu.mlir"]
    np.savez(tmp_path / "x.npz", input=np.random.default_rng(0).random((1, 3, 64, 64), np.float32))
    chip, module = (Session().run(tmp_path / name, [tmp_path / "x.npz"]) for name in ("out/sample.bmodel", kept[0]))
    # The chip has its own exponential, and its own order of sums, behind the float16 of the convolutions.
    np.testing.assert_allclose(chip["output"], module["output"], rtol=1e-5)


@pytest.mark.chip("bm1684x")
def test_what_fails_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importing, "NEAR_ZERO", None)  # what is near counts as good whatever the tolerance
    make(tmp_path, "sample.mlir")
    make(tmp_path, "Conv2d.onnx")
    make(tmp_path, "Conv2d_in.npz")
    np.savez(tmp_path / "x.npz", input=np.random.default_rng(0).random((1, 3, 64, 64), np.float32))
    before = sorted(path.name for path in tmp_path.iterdir())
    unlikely = ("--tolerance", "1.1,1.1")
    assert "below the tolerance" in transform(tmp_path, "Conv2d.onnx", "Conv2d_in.npz", *unlikely)
    words = ("--mlir", "sample.mlir", "--chip", "bm1684x", "--quantize", "f16", "--model", "sample.bmodel")
    done = tpuc("deploy", *words, "--test-input", "x.npz", *unlikely, cwd=tmp_path)
    assert (done.returncode, "below the tolerance" in done.stderr) == (1, True)
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_nothing_lies_beside_a_device(tmp_path: Path) -> None:
    device = Path("/dev/null")
    if not device.is_char_device():
        return  # systems without it have no other either
    with beside(device) as folder:
        assert folder is None
    with beside(tmp_path / "out", [tmp_path / "read"]) as folder:
        assert folder is not None
        (tmp_path / "read").write_text("as it was")
        for name in ("read", "new"):
            (folder / name).write_text("kept")
        assert not (tmp_path / "new").exists()
    assert [(path.name, path.read_text()) for path in sorted(tmp_path.iterdir())] == [
        ("new", "kept"),
        ("read", "as it was"),
    ]
