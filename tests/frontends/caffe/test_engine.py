"""OpenCV as another engine on Caffe files: every blob under its name, and what it needs."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from tpuc.api import Unsupported, install_command
from tpuc_caffe.engine import ENGINE

from tests.chips.command_line import tpuc
from tests.frontends.caffe.files import caffemodel, inputs, layer, values

WEIGHTS = {"conv": [values(4, 2, 3, 3), values(4, seed=2)], "fc": [values(5, 36, seed=3), values(5, seed=4)]}
TEXT = (
    'name: "net"\n'
    + inputs(x=(1, 2, 5, 5))
    + layer("Convolution", "convolution_param { num_output: 4 kernel_size: 3 }", "x", "c", "conv")
    + layer("ReLU", "", "c", "c", "relu")
    + layer("InnerProduct", "inner_product_param { num_output: 5 }", "c", "f", "fc")
    + layer("Softmax", "", "f", "p", "prob")
)


def written(folder: Path, text: str = TEXT) -> tuple[Path, Path]:
    (folder / "net.prototxt").write_text(text, "utf-8")
    (folder / "net.caffemodel").write_bytes(caffemodel(WEIGHTS))
    return folder / "net.prototxt", folder / "net.caffemodel"


def test_every_blob_has_its_name_and_layers_in_place_hide_nothing(tmp_path: Path) -> None:
    pytest.importorskip("cv2", reason="needs opencv-python-headless")
    path, weights = written(tmp_path)
    x = values(1, 2, 5, 5, seed=7)
    found = ENGINE.run(path, {"x": x}, weights)
    assert list(found) == ["conv", "c", "f", "p"]  # `c` is what the ReLU makes of it in place
    windows = np.lib.stride_tricks.sliding_window_view(x[0].astype(np.float64), (3, 3), axis=(1, 2))
    filters, bias = WEIGHTS["conv"]
    convolved = np.einsum("chwij,ocij->ohw", windows, filters) + bias[:, None, None]
    np.testing.assert_allclose(found["conv"][0], convolved, atol=1e-5)
    np.testing.assert_allclose(found["c"][0], np.maximum(convolved, 0), atol=1e-5)
    assert (found["conv"] < 0).any()
    assert found["p"].sum() == pytest.approx(1)


def test_transform_compares_with_it(tmp_path: Path) -> None:
    pytest.importorskip("cv2", reason="needs opencv-python-headless")
    path, weights = written(tmp_path)
    np.save(tmp_path / "x.npy", values(1, 2, 5, 5, seed=7))
    names = ("--model_name", "net", "--model_def", path, "--model_data", weights, "--mlir", "net.mlir")
    done = tpuc("transform", *names, "--test_input", "x.npy", "--test_result", "out.npz", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"{path.name} and TOP: 3 tensors, cosine >= 1.000000")
    with np.load(tmp_path / "out.npz") as stored:
        assert {"c", "f", "p"} <= set(stored)


def test_what_it_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, weights = written(tmp_path)
    monkeypatch.setitem(sys.modules, "cv2", SimpleNamespace(__version__="5.0.0", dnn=SimpleNamespace()))
    with pytest.raises(Unsupported, match=r"OpenCV 5\.0\.0 no longer reads Caffe files; use version 4: pip"):
        ENGINE.run(path, {}, weights)
    monkeypatch.setitem(sys.modules, "cv2", None)  # an import of it fails
    with pytest.raises(Unsupported) as caught:
        ENGINE.run(path, {}, weights)
    assert str(caught.value) == (
        f"{path}: comparing with OpenCV needs the package opencv-python-headless: {install_command('caffe')}"
    )
    with pytest.raises(ImportError):
        importlib.import_module("cv2")


def test_networks_that_it_cannot_run(tmp_path: Path) -> None:
    pytest.importorskip("cv2", reason="needs opencv-python-headless")
    path, weights = written(tmp_path, TEXT + layer("Whatever", "", "p", "q", "odd"))
    with pytest.raises(Unsupported, match=r"net\.prototxt: OpenCV cannot run it \(.*\)\. Leave out --test-input\.$"):
        ENGINE.run(path, {"x": values(1, 2, 5, 5)}, weights)
    with pytest.raises(Unsupported, match=r"OpenCV runs networks with weights only\. Give them with --model-data\.$"):
        ENGINE.run(path, {"x": values(1, 2, 5, 5)})
