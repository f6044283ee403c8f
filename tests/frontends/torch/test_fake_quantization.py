"""Fake quantization of PyTorch: what torch evaluates, and what cannot be read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tpuc.api import ImportOptions, InvalidModel
from tpuc.interpreter import Interpreter
from tpuc.registry import Registry
from tpuc_driver.session import Session
from tpuc_torch.frontend import FRONTEND

torch: Any = pytest.importorskip("torch", reason="needs torch")
pytest.importorskip("onnxscript", reason="torch's exporter needs it")
pytestmark = pytest.mark.filterwarnings("ignore")


def saved(module: Any, shape: tuple[int, ...], folder: Path) -> Path:
    torch.export.save(torch.export.export(module.eval().requires_grad_(False), (torch.zeros(shape),)), folder / "n.pt2")
    return folder / "n.pt2"


def evaluated(path: Path, x: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], list[str]]:
    """The result, and the ops that are no weights."""
    module = Session(Registry()).transform(path)
    names = [operation.op.name for operation in module.main.operations[:-1]]
    interpreter = Interpreter(module)
    (name,) = interpreter.inputs
    (result,) = interpreter.run({name: x}).values()
    return result, [name for name in names if name not in ("top.Weight", "top.None", "top.Input")]


class Rounds(torch.nn.Module):
    """One value and a weight, each rounded in its own way."""

    def __init__(self, value: Callable[[Any], Any], weight: Callable[[Any], Any]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = torch.nn.Linear(6, 4)
        self.value, self.weight = value, weight
        self.register_buffer("steps", torch.tensor([0.05, 0.06, 0.07, 0.08]))
        self.register_buffer("points", torch.zeros(4, dtype=torch.int32))

    def forward(self, x: Any) -> Any:
        weight = torch.fake_quantize_per_channel_affine(
            self.layer.weight, self.steps, self.points, 0, *self.weight(self)
        )
        return torch.nn.functional.linear(self.value(x), weight, self.layer.bias)


@pytest.mark.parametrize(("low", "high"), [(0, 255), (-128, 127), (0, 127), (-127, 127), (-8, 7), (0, 15)])
def test_ranges_of_integers(low: int, high: int, tmp_path: Path) -> None:
    def value(x: Any) -> Any:
        return torch.fake_quantize_per_tensor_affine(x, 0.1, 5, low, high)

    module = Rounds(value, lambda _: (max(low, -8), min(high, 127)))
    x = np.random.default_rng(0).uniform(-20, 20, (1, 6)).astype(np.float32)
    got, _ = evaluated(saved(module, (1, 6), tmp_path), x)
    np.testing.assert_allclose(got, module(torch.from_numpy(x)).numpy(), rtol=1e-5, atol=1e-5)


def test_observers_of_a_prepared_network(tmp_path: Path) -> None:
    """Batch normalization is divided out of the weight and multiplied in again: integers are all that is left."""
    quantization = pytest.importorskip("torch.ao.quantization")
    fx = pytest.importorskip("torch.ao.quantization.quantize_fx")
    nn = torch.nn
    torch.manual_seed(0)
    layers = [nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 16, 5)]
    shape = (1, 3, 8, 8)
    kinds = quantization.get_default_qat_qconfig_mapping("qnnpack")
    network = fx.prepare_qat_fx(nn.Sequential(*layers).train(), kinds, (torch.zeros(shape),))
    for _ in range(3):
        network(torch.randn(4, *shape[1:]))
    network.eval().apply(quantization.disable_observer)
    x = torch.randn(shape)
    got, names = evaluated(saved(network, shape, tmp_path), x.numpy())
    assert names.index("quant.dcast") == len(names) - 1
    assert set(names) <= {"quant.qcast", "top.Conv", "top.Reshape", "top.Permute", "top.MatMul", "quant.dcast"}
    wanted = network(x).numpy()
    step = np.diff(np.unique(wanted)).min()
    assert np.abs(got - wanted).max() <= 1.001 * step  # sums in another order decide halves


def test_a_computed_scale_is_refused(tmp_path: Path) -> None:
    class Computes(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            point = torch.zeros(1, dtype=torch.int32)
            return torch.fake_quantize_per_tensor_affine(x, x.abs().amax().reshape(1) / 127, point, -128, 127)

    with pytest.raises(InvalidModel, match=r"its scale or zero point is computed\. Export the network again in"):
        FRONTEND.read(saved(Computes(), (1, 4), tmp_path), ImportOptions(), Registry())
