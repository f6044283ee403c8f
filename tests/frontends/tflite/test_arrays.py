"""Arrays for networks whose files keep images as `[n, h, w, c]`: in the file's order or in ours, by their shape alone
where only one fits, by the user's word where both do.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from tpuc.registry import Registry
from tpuc_driver.cli import main

from tests.families import each
from tests.frontends.onnx.networks import network, node
from tests.frontends.tflite.files import Node, Tensor, constant, tflite_file
from tests.frontends.tflite.networks import NCHW, values

Floats = NDArray[np.float32]


def scaled(path: Path, shape: tuple[int, int, int, int]) -> Path:
    """Every channel times a power of two, then all values in the file's order: `y = (x * m).reshape(1, -1)`."""
    size = int(np.prod(shape))
    tensors = [
        Tensor("x", shape),
        constant("m", factors(shape[3])),
        Tensor("p", shape),
        constant("s", np.array([1, size], np.int32)),
        Tensor("y", (1, size)),
    ]
    nodes = [
        Node("MUL", ["x", "m"], ["p"], ("MulOptions", {})),
        Node("RESHAPE", ["p", "s"], ["y"], ("ReshapeOptions", {})),
    ]
    path.write_bytes(tflite_file(tensors, nodes, ["x"], ["y"]))
    return path


def factors(channels: int) -> Floats:
    return np.float32(2) ** np.arange(channels, dtype=np.float32)


def expected(images: Floats) -> Floats:
    """What the network makes of images as the file has them."""
    return (images * factors(images.shape[3])).reshape(len(images), 1, -1)


def save(path: Path, array: Floats) -> Path:
    np.save(path, np.ascontiguousarray(array))
    return path


def run(model: Path, array: Path, *options: str) -> Floats:
    output = array.with_suffix(".out.npz")
    assert main(["run", "--model", str(model), "--input", str(array), *options, "-o", str(output)]) == 0
    with np.load(output) as results:
        return results[results.files[0]]


def refusal(capture: pytest.CaptureFixture[str], arguments: Sequence[Path | str]) -> str:
    capture.readouterr()
    assert main([str(one) for one in arguments]) in (1, 2)
    out, err = capture.readouterr()
    assert out == ""
    assert "Traceback" not in err
    return err.replace("\n", " ")


def transformed(model: Path) -> Path:
    result = model.with_suffix(".mlir")
    assert main(["transform", "--model-name=n", f"--model-def={model}", f"--mlir={result}"]) == 0
    return result


@each("form", ["network", "module"])
def test_the_order_is_known_by_the_shape(form: str, tmp_path: Path) -> None:
    model = scaled(tmp_path / "n.tflite", (1, 4, 6, 3))
    if form == "module":
        model = transformed(model)
    images = values(5, 4, 6, 3)
    wanted = expected(images)
    for array in (images[:1], images[0]):
        np.testing.assert_array_equal(run(model, save(tmp_path / "a.npy", array)), wanted[0])
        np.testing.assert_array_equal(run(model, save(tmp_path / "b.npy", np.moveaxis(array, -1, -3))), wanted[0])
    np.testing.assert_array_equal(run(model, save(tmp_path / "c.npy", images)), wanted)
    np.testing.assert_array_equal(run(model, save(tmp_path / "d.npy", images.transpose(NCHW))), wanted)


def test_with_one_channel_both_orders_are_the_same(tmp_path: Path) -> None:
    model = scaled(tmp_path / "n.tflite", (1, 4, 6, 1))
    image = values(1, 4, 6, 1)
    for array in (image, image.transpose(NCHW), image[0, :, :, 0]):
        np.testing.assert_array_equal(run(model, save(tmp_path / "a.npy", array)), expected(image)[0])


def test_where_both_orders_fit_the_user_says_which(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = scaled(tmp_path / "n.tflite", (1, 3, 3, 3))
    image = values(1, 3, 3, 3)
    array = save(tmp_path / "a.npy", image)
    said = refusal(capsys, ["run", "--model", model, "--input", array])
    assert f"{array}: it fits input 'x' as nchw (1, 3, 3, 3), and as nhwc" in said
    assert "choose with --input-layout nchw or --input-layout nhwc" in said
    np.testing.assert_array_equal(run(model, array, "--input-layout=nhwc"), expected(image)[0])
    channels_last = image.transpose(0, 2, 3, 1)
    np.testing.assert_array_equal(run(model, array, "--input-layout=nchw"), expected(channels_last)[0])


def test_transform_keeps_what_the_user_says(tmp_path: Path) -> None:
    model, top = scaled(tmp_path / "n.tflite", (1, 3, 3, 3)), tmp_path / "n.mlir"
    arguments = ["--model-name=n", f"--model-def={model}", f"--mlir={top}", "--input-layout=nhwc"]
    assert main(["transform", *arguments]) == 0
    image = values(1, 3, 3, 3)
    np.testing.assert_array_equal(run(top, save(tmp_path / "a.npy", image)), expected(image)[0])


def test_a_file_that_has_channels_first_itself(tmp_path: Path) -> None:
    """Its input `[1, 3, 4, 6]` is `[1, 6, 3, 4]` here; arrays of the file's shape mean what they mean there."""
    model = scaled(tmp_path / "n.tflite", (1, 3, 4, 6))
    image = values(1, 3, 4, 6)
    np.testing.assert_array_equal(run(model, save(tmp_path / "a.npy", image)), expected(image)[0])


@each("shape", [(1, 6, 4, 3), (1, 3, 6, 4), (1, 72), (72,), (2, 3, 4, 3)])
def test_as_many_elements_are_not_enough(
    shape: tuple[int, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = scaled(tmp_path / "n.tflite", (1, 4, 6, 3))
    array = save(tmp_path / "a.npy", values(*shape))
    said = refusal(capsys, ["run", "--model", model, "--input", array])
    assert f"shape {shape} does not fit input 'x' (1, 3, 4, 6) (nchw) or (1, 4, 6, 3) (nhwc)" in said
    data = tmp_path / "d.npz"
    np.savez(data, x=values(2, *shape), y=np.zeros(2, np.int64))
    said = refusal(capsys, ["eval", model, "--dataset", data, "--strict"])
    assert f"a sample of shape {shape} does not fit input 'x'" in said


def test_other_networks_take_another_order_when_it_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = tmp_path / "n.onnx"
    onnx.save(network([node("Relu", "x", "y")], {"x": (1, 3, 4, 6)}, ["y"]), model)
    image = values(1, 4, 6, 3)
    array = save(tmp_path / "a.npy", image)
    said = refusal(capsys, ["run", "--model", model, "--input", array])
    assert "It fits as nhwc: add --input-layout nhwc." in said
    found = run(model, array, "--input-layout=nhwc")
    np.testing.assert_array_equal(found, np.maximum(image, 0).transpose(NCHW))
    turned = save(tmp_path / "b.npy", image.transpose(NCHW))
    assert "does not fit input 'x' (1, 4, 6, 3) (nhwc)" in refusal(
        capsys, ["run", "--model", model, "--input", turned, "--input-layout=nhwc"]
    )


def test_an_onnx_file_with_channels_last_takes_channels_first_when_it_is_said(tmp_path: Path) -> None:
    model = tmp_path / "n.onnx"
    onnx.save(network([node("Relu", "x", "y")], {"x": (1, 8, 6, 3)}, ["y"]), model)
    image = values(1, 8, 6, 3)
    wanted = np.maximum(image, 0)
    np.testing.assert_array_equal(run(model, save(tmp_path / "a.npy", image)), wanted)
    np.testing.assert_array_equal(run(model, tmp_path / "a.npy", "--input-layout=nhwc"), wanted)
    turned = save(tmp_path / "b.npy", image.transpose(NCHW))
    np.testing.assert_array_equal(run(model, turned, "--input-layout=nchw"), wanted)


def test_calibration_takes_both_orders(tmp_path: Path) -> None:
    top = transformed(scaled(tmp_path / "n.tflite", (1, 4, 6, 3)))
    images = values(8, 4, 6, 3)
    tables: list[str] = []
    for name, samples in (("last", images), ("first", images.transpose(NCHW))):
        data, table = save(tmp_path / f"{name}.npy", samples), tmp_path / f"{name}.table"
        assert main(["calibrate", str(top), f"--dataset={data}", "--method=max", "-o", str(table)]) == 0
        tables.append("\n".join(line for line in table.read_text().splitlines() if not line.startswith("#")))
    assert tables[0] == tables[1]
    entry = next(line.split() for line in tables[0].splitlines() if line.startswith("p"))
    largest = np.abs(images * factors(3)).max()
    assert float(entry[1]) == pytest.approx(largest, rel=1e-6)


def test_evaluation_takes_both_orders(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = scaled(tmp_path / "n.tflite", (1, 4, 6, 3))
    images = values(6, 4, 6, 3)
    labels = expected(images)[:, 0].argmax(axis=1)
    for samples in (images, images.transpose(NCHW)):
        np.savez(tmp_path / "d.npz", x=samples, y=labels)
        capsys.readouterr()
        assert main(["eval", str(model), "--dataset", str(tmp_path / "d.npz"), "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["models"][0]["figures"]["top-1"] == 1.0


def test_compile_and_its_file_take_both_orders(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    registry = Registry()
    installed = [registry.get("tpuc.chips", name).description for name in registry.names("tpuc.chips")]
    chips = [chip for chip in installed if "bf16" in chip.modes]
    if not chips:
        pytest.skip("no chip is installed")
    model = scaled(tmp_path / "n.tflite", (1, 4, 6, 3))
    image = np.round(values(1, 4, 6, 3) * 4)  # bfloat16 holds it, and the products with powers of two
    last, first = save(tmp_path / "last.npy", image), save(tmp_path / "first.npy", image.transpose(NCHW))
    for chip in chips:
        target = tmp_path / f"n{chip.suffix}"
        for array in (last, first):
            arguments = ["--chip", chip.name, "--quantize=bf16", "--test-input", str(array), "-o", str(target)]
            assert main(["compile", str(model), *arguments]) == 0
        np.testing.assert_array_equal(run(target, first).reshape(1, -1), expected(image)[0])
        assert "It fits as nhwc" in refusal(capsys, ["run", "--model", target, "--input", last])
        found = run(target, last, "--input-layout=nhwc")
        np.testing.assert_array_equal(found.reshape(1, -1), expected(image)[0])
