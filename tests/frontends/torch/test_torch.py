"""PyTorch networks give the outputs that torch computes; without torch there is a sentence."""

from __future__ import annotations

import importlib
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tpuc.api import ImportOptions, InvalidModel, Unsupported, install_command
from tpuc.interpreter import Interpreter
from tpuc.registry import Registry
from tpuc_driver.session import Session
from tpuc_torch.frontend import FRONTEND, read_module


@pytest.fixture(name="torch")
def torch_() -> Any:
    return pytest.importorskip("torch", reason="needs torch")


def network(torch: Any) -> Any:
    torch.manual_seed(0)
    nn = torch.nn
    layers = [
        nn.Conv2d(3, 8, 3, 2, 1),
        nn.BatchNorm2d(8),
        nn.Hardswish(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8, 5),
    ]
    return nn.Sequential(*layers, nn.Softmax(1)).eval()


def check(torch: Any, module: Any, result: Any) -> None:
    x = np.random.default_rng(0).uniform(-1, 1, (1, 3, 16, 16)).astype(np.float32)
    with torch.no_grad():
        wanted = module(torch.from_numpy(x)).numpy()
    interpreter = Interpreter(result)
    (name,) = interpreter.inputs
    ((_, got),) = interpreter.run({name: x}).items()
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)  # float32 sums in another order


@pytest.mark.filterwarnings("ignore")
def test_an_exported_program(torch: Any, tmp_path: Path) -> None:
    pytest.importorskip("onnxscript", reason="torch's exporter needs it")
    module = network(torch)
    path = tmp_path / "net.pt2"
    torch.export.save(torch.export.export(module, (torch.zeros(1, 3, 16, 16),)), path)
    check(torch, module, Session().transform(path))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_module(torch: Any) -> None:
    pytest.importorskip("onnxscript", reason="torch's exporter needs it")
    module = network(torch)
    check(torch, module, read_module(module, (torch.zeros(1, 3, 16, 16),), Registry()))


@pytest.mark.filterwarnings("ignore")
def test_another_file(torch: Any, tmp_path: Path) -> None:
    path = tmp_path / "net.pt2"
    path.write_bytes(b"no program")
    with pytest.raises(
        InvalidModel, match=r"net\.pt2: not an exported program\. Write one with torch\.export\.save\.$"
    ):
        FRONTEND.read(path, ImportOptions(), Registry())
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("something", "else")
    with pytest.raises(InvalidModel, match=r"net\.pt2: not an exported program, or one of another torch \("):
        FRONTEND.read(path, ImportOptions(), Registry())
    with pytest.raises(InvalidModel, match=r"no\.pt2: there is no such file\. Check the path\.$"):
        FRONTEND.read(tmp_path / "no.pt2", ImportOptions(), Registry())


def test_without_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import_module = importlib.import_module

    def refuse(name: str, *rest: Any) -> Any:
        if name == "torch":
            raise ImportError(name)
        return import_module(name, *rest)

    monkeypatch.setattr(importlib, "import_module", refuse)
    with pytest.raises(Unsupported) as caught:
        FRONTEND.read(tmp_path / "net.pt2", ImportOptions(), Registry())
    assert str(caught.value) == (
        f"{tmp_path / 'net.pt2'}: networks of PyTorch are exported by torch, which is not installed: "
        f"{install_command('torch')}, or export the network to ONNX elsewhere"
    )
