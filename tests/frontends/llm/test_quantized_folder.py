"""Folders with integers of GPTQ, AWQ and compressed-tensors, beside what each format's rule says that they mean."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tpuc
from tpuc.api import ImportOptions, InvalidModel, Unsupported
from tpuc.registry import Registry
from tpuc_driver.session import Session
from tpuc_llm.model import LanguageModel
from tpuc_llm.quantized_folder import QuantizedFolder
from tpuc_ops.weight_only import unpacked

from tests.frontends.llm.models import logits
from tests.frontends.llm.quantized import AWQ, GPTQ, drawn, tensors_config, write_mixed, write_quantized
from tests.frontends.llm.test_model import opened

IDS = [3, 1, 4, 1, 5, 9, 2, 6]
PER_ROW = tensors_config(8, None)
SCHEMES: dict[str, dict[str, Any]] = {
    "gptq": GPTQ,
    "gptq symmetric": {**GPTQ, "sym": True, "group_size": 32},
    "gptq of 8 bits": {**GPTQ, "bits": 8},
    "gptq v2": {**GPTQ, "checkpoint_format": "gptq_v2"},
    "gptq per row": {**GPTQ, "group_size": -1},
    "gptq in another order": {**GPTQ, "desc_act": True},
    "awq": AWQ,
    "awq in groups of 32": {**AWQ, "group_size": 32},
    "tensors": tensors_config(),
    "tensors with zero points": tensors_config(symmetric=False),
    "tensors of 8 bits": tensors_config(8, 32),
    "tensors per row": PER_ROW,
    "tensors unpacked": {**tensors_config(8, None, symmetric=False), "format": "int-quantized"},
}
SIZES = [(8, 32), (40, 96), (16, 80)]
"""Outputs and inputs; the last ones are no whole groups of 32."""


def write_one(folder: Path, said: dict[str, Any], outputs: int, inputs: int) -> Any:
    tensors, real = drawn(outputs, inputs, said, np.random.default_rng(outputs))
    write_mixed(folder / "model.safetensors", {f"x.{ending}": part for ending, part in tensors.items()})
    (folder / "config.json").write_text(json.dumps({"model_type": "llama", "quantization_config": said}))
    return tensors, real


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_matrices_are_what_the_formats_rule_says(scheme: str, size: tuple[int, int], tmp_path: Path) -> None:
    tensors, real = write_one(tmp_path, SCHEMES[scheme], *size)
    folder = QuantizedFolder.checked(tmp_path)
    np.testing.assert_array_equal(folder.tensor("x.weight", size), real)
    kept = folder.integers("x.weight")
    assert kept is not None
    scales = tensors["scales"].T if "scales" in tensors else tensors["weight_scale"]
    np.testing.assert_array_equal(kept.scale[:, : scales.shape[1]], scales.astype("f4"))
    assert unpacked(kept.weight, kept.bits).shape[1] % 32 == 0
    with pytest.raises(InvalidModel, match=r"tensor 'x.weight' is \[\d+, \d+\], and config.json asks for \[3, 4\]"):
        folder.tensor("x.weight", (3, 4))


@pytest.mark.parametrize(
    ("scheme", "kind"),
    [("gptq", "llama"), ("gptq in another order", "qwen2"), ("awq", "phi3"), ("tensors", "gemma3")],
)
def test_a_folder_computes_what_its_integers_mean(scheme: str, kind: str, tmp_path: Path) -> None:
    config, weights = write_quantized(tmp_path, kind, SCHEMES[scheme])
    if kind == "phi3":
        weights |= apart(config, weights)
    found = tpuc.load(tmp_path, dims={"seq": len(IDS)}).run({"input_ids": np.array([IDS], "f4")})["logits"]
    wanted = logits(config, weights, IDS)
    assert np.abs(found[0] - wanted).max() < 1e-4 * np.abs(wanted).max()
    model = LanguageModel.open(tmp_path, ImportOptions(dims={"seq": len(IDS)}), Registry())
    assert np.abs(model.logits(len(IDS))(IDS) - wanted).max() < 1e-4 * np.abs(wanted).max()


def apart(config: dict[str, Any], weights: dict[str, Any]) -> dict[str, Any]:
    """The parts of Phi-3's matrices under the names of others."""
    found: dict[str, Any] = {}
    wide, narrow = (config[key] * config["head_dim"] for key in ("num_attention_heads", "num_key_value_heads"))
    for layer in range(config["num_hidden_layers"]):
        name = f"model.layers.{layer}"
        parts = np.split(weights[f"{name}.self_attn.qkv_proj.weight"], [wide, wide + narrow])
        found |= {f"{name}.self_attn.{one}_proj.weight": part for one, part in zip("qkv", parts, strict=True)}
        gates = np.split(weights[f"{name}.mlp.gate_up_proj.weight"], 2)
        found |= {f"{name}.mlp.{one}_proj.weight": part for one, part in zip(("gate", "up"), gates, strict=True)}
    return found


@pytest.mark.chip("bm1684x")
@pytest.mark.parametrize(
    "scheme", ["gptq in another order", *(pytest.param(one, marks=pytest.mark.slow) for one in ("awq", "tensors"))]
)
def test_a_compiled_folder_keeps_its_integers(scheme: str, tmp_path: Path) -> None:
    """In f16, a prompt and steps after it, two sequences at a time."""
    config, weights = write_quantized(tmp_path / "model", "llama", SCHEMES[scheme])
    wanted = logits(config, weights, IDS)
    path = tmp_path / "m.bmodel"
    Session(chip="bm1684x", quantize="f16").compile(tmp_path / "model", path, dims={"seq": 16}, batch=2)
    decoder = opened(path)
    prompts = [decoder.prefill(IDS[:5], number) for number in range(2)]
    steps = [decoder.step({0: token, 1: token}) for token in IDS[5:]]
    for number in range(2):
        found = np.array([prompts[number], *(step[number] for step in steps)])
        assert np.abs(found - wanted[4:]).max() < 0.02 * np.abs(wanted).max()
    model = LanguageModel.open(tmp_path / "model", ImportOptions(dims={"seq": 16}), Registry())
    assert all(one.integers is not None for block in model.blocks() for one in (block.q, block.o, block.down))


def test_older_folders_say_it_in_a_file_of_their_own(tmp_path: Path) -> None:
    said = {key: value for key, value in GPTQ.items() if key != "quant_method"}
    write_quantized(tmp_path, "llama", {**said, "quant_method": "gptq"}, apart=True)
    model = LanguageModel.open(tmp_path, ImportOptions(dims={"seq": 8}), Registry())
    assert next(model.blocks()).q.integers is not None


def group_of(**changes: Any) -> dict[str, Any]:
    """A configuration of compressed-tensors with other settings of its group."""
    said = tensors_config()
    weights = {**said["config_groups"]["group_0"]["weights"], **changes}
    return {**said, "config_groups": {"group_0": {"weights": weights}}}


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"quant_method": "hqq"}, "quantized by 'hqq', and gptq, awq, compressed-tensors are read. Take the model be"),
        ([4], r"quantized by '\[4\]', and gptq, awq, compressed-tensors are read"),
        ({**GPTQ, "bits": 3}, "bits is 3, and only 4 or 8 is built here"),
        ({**GPTQ, "bits": None}, "bits is None, it has to be a whole number"),
        ({**GPTQ, "group_size": 24}, "group_size is 24, and multiples of 16 are read, and -1. Take another quant"),
        (
            {**GPTQ, "checkpoint_format": "marlin"},
            "checkpoint_format is 'marlin', and only gptq or gptq_v2",
        ),
        ({**GPTQ, "dynamic": {"+:.*down.*": {"bits": 8}}}, "dynamic gives matrices settings of their own. Take a"),
        ({**AWQ, "version": "gemv"}, "version is 'gemv', and only gemm or GEMM is built here"),
        ({**AWQ, "zero_point": False}, "zero_point is False, and only True is built here"),
        (tensors_config(format="float-quantized"), "format is 'float-quantized', and only pack-quantized or int-quant"),
        (tensors_config(kv_cache_scheme={"num_bits": 8}), "kv_cache_scheme is {'num_bits': 8}, and only None or {}"),
        (tensors_config(config_groups={}), "config_groups has to be an object of objects. Check the file."),
        (tensors_config(config_groups={"a": {}}), "a group of config_groups says nothing of weights. Check the file."),
        (
            tensors_config(config_groups={"a": {"weights": {}, "input_activations": {"num_bits": 8}}}),
            "input_activations is {'num_bits': 8}, and only None is built here",
        ),
        (group_of(type="float"), "type is 'float', and only int is built here"),
        (group_of(strategy="block"), "strategy is 'block', and only group or channel or tensor"),
    ],
)
def test_what_is_not_read_is_named(said: Any, words: str, tmp_path: Path) -> None:
    write_quantized(tmp_path, "llama", GPTQ)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "quantization_config": said}))
    with pytest.raises(Unsupported, match=words):
        tpuc.load(tmp_path, dims={"seq": 8})


def test_families_with_turned_matrices_take_floats(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "gpt2", "quantization_config": GPTQ}))
    with pytest.raises(Unsupported, match="the weights are quantized, and models of type 'gpt2' are read from floats"):
        tpuc.load(tmp_path)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_tensors_that_do_not_fit_are_named(scheme: str, tmp_path: Path) -> None:
    """Each tensor cut, of another rank, or missing is one sentence."""
    tensors, _ = write_one(tmp_path, SCHEMES[scheme], 40, 96)
    for ending, part in tensors.items():
        for changed in (part[:-1], part[None], part[:0], part.astype("f4") if part.dtype.kind == "i" else part[1:]):
            others = {**tensors, ending: changed}
            write_mixed(tmp_path / "model.safetensors", {f"x.{one}": array for one, array in others.items()})
            with pytest.raises((InvalidModel, Unsupported), match=r"the model again|without desc_act|of one model"):
                QuantizedFolder.checked(tmp_path).tensor("x.weight", (40, 96))


def test_groups_of_other_sizes_are_refused(tmp_path: Path) -> None:
    tensors, _ = write_one(tmp_path, {**GPTQ, "desc_act": True}, 8, 32)
    tensors["g_idx"][:] = 0
    write_mixed(tmp_path / "model.safetensors", {f"x.{ending}": part for ending, part in tensors.items()})
    with pytest.raises(Unsupported, match=r"the groups of 'x' have not 16 inputs each\. Quantize the mo"):
        QuantizedFolder.checked(tmp_path).integers("x.weight")
