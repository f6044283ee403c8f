"""GGUF files against the formulas of the papers with the floats that the format's blocks mean."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tpuc
from tpuc.api import ImportOptions, InvalidModel, Unsupported
from tpuc.registry import Registry
from tpuc_driver.session import Session
from tpuc_llm.gguf_blocks import BLOCKS, real_of
from tpuc_llm.model import LanguageModel

from tests.frontends.llm.ggufs import F16, Q4_0, Q8_0, write_gguf
from tests.frontends.llm.models import logits
from tests.frontends.llm.test_model import opened

IDS = [3, 1, 4, 1, 5, 9, 2, 6]


@pytest.mark.parametrize(("kind", "form"), [("llama", Q4_0), ("qwen2", Q8_0), ("qwen3", F16)])
def test_a_file_computes_what_its_blocks_mean(kind: str, form: int, tmp_path: Path) -> None:
    config, weights = write_gguf(tmp_path / "m.gguf", kind, form)
    wanted = logits(config, weights, IDS)
    found = tpuc.load(tmp_path / "m.gguf", dims={"seq": len(IDS)}).run({"input_ids": np.array([IDS], "f4")})["logits"]
    assert np.abs(found[0] - wanted).max() < 1e-4 * np.abs(wanted).max()


def test_rotary_factors_divide_the_frequencies(tmp_path: Path) -> None:
    factors = np.array([1.0, 2.0, 4.0, 8.0])
    write_gguf(tmp_path / "m.gguf", "llama", factors=factors)
    shape = LanguageModel.open(tmp_path / "m.gguf", ImportOptions(dims={"seq": 8}), Registry()).shape
    np.testing.assert_allclose(shape.frequencies, 10000.0 ** -np.array([0, 0.25, 0.5, 0.75]) / factors, rtol=1e-6)


@pytest.mark.chip("bm1684x")
def test_integers_are_kept(tmp_path: Path) -> None:
    config, weights = write_gguf(tmp_path / "m.gguf", "llama", Q4_0)
    wanted = logits(config, weights, IDS)
    Session(chip="bm1684x", quantize="f16").compile(tmp_path / "m.gguf", tmp_path / "m.bmodel", dims={"seq": 16})
    decoder = opened(tmp_path / "m.bmodel")
    found = [decoder.prefill(IDS[:5]), *(decoder.step({0: token})[0] for token in IDS[5:])]
    assert np.abs(np.array(found) - wanted[4:]).max() < 0.02 * np.abs(wanted).max()
    model = LanguageModel.open(tmp_path / "m.gguf", ImportOptions(dims={"seq": 16}), Registry())
    block = next(model.blocks())
    assert block.q.integers is not None
    assert (block.q.integers.bits, block.q.integers.group) == (4, 32)


@pytest.mark.parametrize("kind", BLOCKS)
def test_blocks_are_the_formats(kind: int) -> None:
    """Random bytes, with scales that are no NaN, against the package of the format's authors."""
    package: Any = pytest.importorskip("gguf")
    block = BLOCKS[kind]
    raw = np.random.default_rng(kind).integers(0, 48, (64, block.size)).astype(np.uint8)
    wanted = package.quants.dequantize(raw, package.GGMLQuantizationType(kind))
    np.testing.assert_array_equal(real_of(kind, raw.reshape(-1)), wanted.reshape(-1))


def test_damaged_and_unknown_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    write_gguf(path, "llama")
    sound, options = path.read_bytes(), ImportOptions(dims={"seq": 8})
    for size in (*range(0, 1200, 60), len(sound) - 400):
        path.write_bytes(sound[:size])
        with pytest.raises(
            InvalidModel, match=r"damaged or truncated. Download it again.|no GGUF file of version 2 or 3"
        ):
            LanguageModel.open(path, options, Registry())
    place = sound.index(b"blk.0.attn_q.weight") + len("blk.0.attn_q.weight") + 4 + 16
    path.write_bytes(sound[:place] + struct.pack("<I", 10) + sound[place + 4 :])
    with pytest.raises(Unsupported, match=r"'blk.0.attn_q.weight' has type 10, and only F32, F16, Q4_0, .* are read"):
        LanguageModel.open(path, options, Registry())
    path.write_bytes(sound.replace(b"ffn_up", b"ffn_ap"))
    with pytest.raises(InvalidModel, match=r"there is no tensor 'blk.0.ffn_up.weight' in it. Download the model again"):
        list(LanguageModel.open(path, options, Registry()).blocks())
    write_gguf(path, "llama", model_type="mamba")
    with pytest.raises(Unsupported, match=r"files of architecture 'mamba' are not read, llama, qwen2, qwen3 are. Give"):
        LanguageModel.open(path, options, Registry())
