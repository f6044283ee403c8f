"""Networks of language models on the vendor's runtime: every output equals our simulator's, bit for bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tpuc.api import numpy_dtype
from tpuc_driver.session import Session
from tpuc_driver.session.combining import extract
from tpuc_llm import decoder

from tests.conftest import RunVendor
from tests.frontends.llm.models import write_model
from tests.frontends.llm.quantized import write_quantized
from tests.frontends.llm.test_quantized_folder import SCHEMES

LENGTH = 16


@pytest.mark.interop
@pytest.mark.parametrize(
    ("kind", "mode", "together", "batch"),
    [
        *((kind, mode, decoder.MOST_TOGETHER, 1) for kind in ("llama", "qwen3") for mode in ("f16", "bf16")),
        ("qwen2", "w4f16", decoder.MOST_TOGETHER, 1),
        ("qwen2", "w4f16", decoder.MOST_TOGETHER, 2),
        ("gemma3", "bf16", decoder.MOST_TOGETHER, 2),
        ("llama", "w8bf16", 0, 1),
        ("gptq in another order", "f16", decoder.MOST_TOGETHER, 2),
        ("qwen3", "f16", 0, 1),
    ],
)
def test_every_network_computes_what_the_runtime_does(
    kind: str,
    mode: str,
    together: int,
    batch: int,
    run_vendor: RunVendor,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`together`: bytes of scores, beyond which heads are computed one after another."""
    monkeypatch.setattr(decoder, "MOST_TOGETHER", together)
    monkeypatch.setattr(decoder, "ROWS", 6)
    if kind in SCHEMES:
        write_quantized(tmp_path / "model", "llama", SCHEMES[kind])
    else:
        write_model(tmp_path / "model", kind)
    path = tmp_path / "m.bmodel"
    session = Session(chip="bm1684x", quantize=mode)
    session.compile(tmp_path / "model", path, dims={"seq": LENGTH}, batch=batch)
    random = np.random.default_rng(3)
    for one in extract(session.opened(path), tmp_path / "parts"):
        file = session.opened(one)
        chip, loaded = file.chip, file.container(0)
        inputs: dict[str, Any] = {}
        for info in loaded.inputs:
            dtype = numpy_dtype(info.element)
            numbers = random.normal(0, 1, info.shape)
            if dtype == np.int32:
                numbers = random.integers(0, LENGTH, info.shape)
            elif info.name in ("penalty", "temperature", "top_p"):
                numbers = random.uniform(0.2, 1.5, info.shape)
            elif "mask" in info.name:
                numbers = np.where(random.random(info.shape) < 0.3, -10000.0, 0.0)
            inputs[info.name] = np.ascontiguousarray(numbers, dtype)
        ours = session.simulate(chip, loaded, inputs)
        raw = {
            name: array.view(np.uint16) if array.dtype.name == "bfloat16" else array for name, array in inputs.items()
        }
        theirs = run_vendor(one, raw)
        for name, array in ours.items():
            assert array.tobytes() == np.ascontiguousarray(theirs[name]).tobytes(), (one.stem, name)
