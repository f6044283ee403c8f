"""Families of other packages."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tpuc.api import ImportOptions, Unsupported
from tpuc.api.evaluation import Interpreter
from tpuc.registry import Offer, Registry

from tests.frontends.llm.mistral import Mistral
from tests.frontends.llm.models import config_of, logits, write_model


def test_a_family_of_another_package_is_found_by_its_model_type(tmp_path: Path) -> None:
    offer = Offer("tpuc.llm_families", "mistral", "acme", "1.0", f"{Mistral.__module__}:Mistral")
    registry = Registry(offers=[*Registry().offers, offer])
    frontend, options = registry.get("tpuc.frontends", "llm"), ImportOptions(dims={"seq": 6})
    weights = write_model(tmp_path, "llama", model_type="mistral", sliding_window=None)
    module = frontend.read(tmp_path / "config.json", options, registry)
    ids = [3, 1, 4, 1, 5, 9]
    found = Interpreter(module).run({"input_ids": np.array([ids], np.float32)})["logits"][0]
    wanted = logits(config_of("llama"), weights, ids)
    assert np.abs(found - wanted).max() < 1e-4 * np.abs(wanted).max()
    write_model(tmp_path, "llama", model_type="mistral", sliding_window=4096)
    with pytest.raises(Unsupported, match="sliding_window is 4096, and only None is built here"):
        frontend.read(tmp_path / "config.json", options, registry)
