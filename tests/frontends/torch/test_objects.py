"""Networks of PyTorch in memory compute what torch computes, and DataLoaders calibrate them."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import tpuc


@pytest.fixture(name="torch")
def torch_() -> Any:
    pytest.importorskip("onnxscript", reason="torch's exporter needs it")
    return pytest.importorskip("torch", reason="needs torch")


def network(torch: Any) -> Any:
    torch.manual_seed(0)
    nn = torch.nn
    layers = [nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU(), nn.Dropout(0.5), nn.Flatten(), nn.Linear(128, 5)]
    return nn.Sequential(*layers)


@pytest.mark.filterwarnings("ignore")
def test_a_module_and_its_program_are_loaded_and_stay_as_they_are(torch: Any) -> None:
    module, x = network(torch), torch.rand(4, 3, 8, 8)
    module[3].eval()
    before = [part.training for part in module.modules()]
    example = torch.zeros(1, 3, 8, 8)
    loaded = [
        tpuc.load(module, example_inputs=example),
        tpuc.load(module, example_inputs=(np.zeros((1, 3, 8, 8), np.float32),)),
    ]
    assert [part.training for part in module.modules()] == before
    module.eval()
    loaded.append(tpuc.load(torch.export.export(module, (example,)), model_name="mine"))
    wanted = module(x).detach().numpy()
    for one in loaded:
        np.testing.assert_allclose(next(iter(one.run(x).values())).reshape(4, 5), wanted, rtol=1e-5, atol=1e-6)
    assert [one.name for one in loaded] == ["sequential", "sequential", "mine"]
    for sentence, given, example_inputs in (
        ("a Sequential does not state the shapes of its inputs; give tensors", module, None),
        ("Sequential: torch.export cannot export it: ", module, (torch.zeros(1, 4, 8, 8),)),
        ("an exported program states the shapes", torch.export.export(module, (example,)), (example,)),
    ):
        with pytest.raises(tpuc.TpucError, match=f"^{re.escape(sentence)}"):
            tpuc.load(given, example_inputs=example_inputs)


@pytest.mark.filterwarnings("ignore")
def test_a_loader_calibrates(torch: Any) -> None:
    images, labels = torch.rand(32, 3, 8, 8), torch.arange(32) % 5
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(images, labels), batch_size=8)
    loaded = tpuc.load(network(torch), example_inputs=torch.zeros(1, 3, 8, 8))
    quantized = loaded.quantize(loader, tune_num=1, bias_num=1)
    exact = next(iter(loaded.run(loader).values()))
    close = next(iter(quantized.run(loader, chip="bm1684x").values()))
    assert exact.shape == close.shape == (32, 1, 5)
    np.testing.assert_allclose(close, exact, atol=0.05)  # bytes
    assert len(quantized.evaluate(loader)) == 2
