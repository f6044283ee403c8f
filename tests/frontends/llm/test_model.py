"""Folders of language models as one network and as the networks of a compiled file."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tpuc
from tpuc.api import ImportOptions, InvalidModel, TpucError, Unsupported, UsageError, WeightChoice
from tpuc.registry import Registry
from tpuc_driver.session import Session
from tpuc_llm import decoder
from tpuc_llm.choosing import Sampling
from tpuc_llm.generation import CompiledDecoder, generate
from tpuc_llm.model import LanguageModel

from tests.frontends.llm.gpt2 import gpt2_logits, write_gpt2
from tests.frontends.llm.models import KINDS, LLAMA3, config_of, logits, weights_of, write_model, write_tensors

TOKENS = 12


def opened(path: Path) -> CompiledDecoder:
    """The networks of a compiled file on the simulator."""
    session = Session()
    file = session.opened(path)
    places = {entry.name: place for place, entry in enumerate(file.entries)}
    return CompiledDecoder(
        list(places),
        lambda name: file.load(places[name]),
        lambda loaded, inputs: session.simulate(file.chip, loaded, inputs),
    )


def compiled(folder: Path, mode: str, length: int, chip: str = "bm1684x") -> Path:
    path = folder / f"{mode}.bmodel"
    Session(chip=chip, quantize=mode).compile(folder, path, dims={"seq": length})
    return path


@pytest.mark.parametrize("kind", KINDS)
def test_a_folder_is_one_network_that_computes_the_papers_formulas(kind: str, tmp_path: Path) -> None:
    weights = write_model(tmp_path / kind, kind)
    ids = np.random.default_rng(1).integers(3, 60, TOKENS)
    network = tpuc.load(tmp_path / kind, dims={"seq": TOKENS})
    found = network.run({"input_ids": ids[None].astype(np.float32)})["logits"][0]
    wanted = logits(config_of(kind), weights, list(ids))
    assert np.abs(found - wanted).max() < 1e-4 * np.abs(wanted).max()  # float32 beside float64


@pytest.mark.parametrize("prefix", ["transformer.", ""])
def test_gpt2_is_one_network_that_computes_the_papers_formulas(prefix: str, tmp_path: Path) -> None:
    weights = write_gpt2(tmp_path, prefix)
    ids = [int(one) for one in np.random.default_rng(1).integers(3, 60, TOKENS)]
    network = tpuc.load(tmp_path, dims={"seq": TOKENS})
    found = network.run({"input_ids": np.array([ids], np.float32)})["logits"][0]
    wanted = gpt2_logits(weights, ids)
    assert np.abs(found - wanted).max() < 1e-4 * np.abs(wanted).max()


@pytest.mark.chip("bm1684x")
@pytest.mark.parametrize(
    "kind",
    ["gemma3", *(pytest.param(one, marks=pytest.mark.slow) for one in ("gemma", "gemma2", "gpt2", "granite", "phi3"))],
)
def test_every_family_continues_a_history(kind: str, tmp_path: Path) -> None:
    """In f16, 11 bits of significand, with windows and positions; 38 dB is what the worst row of Gemma has."""
    weights = write_gpt2(tmp_path / "model") if kind == "gpt2" else write_model(tmp_path / "model", kind)
    path = tmp_path / "m.bmodel"
    Session(chip="bm1684x", quantize="f16", opt=1).compile(tmp_path / "model", path, dims={"seq": TOKENS})
    chip, ids = opened(path), [int(one) for one in np.random.default_rng(5).integers(3, 60, TOKENS)]
    wanted = gpt2_logits(weights, ids) if kind == "gpt2" else logits(config_of(kind), weights, ids)
    found = [chip.prefill(ids[:3])] + [chip.step({0: token})[0] for token in ids[3:]]
    for row, want in zip(found, wanted[2:], strict=True):
        assert np.square(row - want).sum() < 10**-3.8 * np.square(want).sum()


@pytest.mark.chip("bm1684x")
@pytest.mark.parametrize(
    ("kind", "mode", "noise"),
    [
        ("gemma3", "f16", 10**-3.8),
        ("qwen2", "w4f16", 10**-3.5),
        *(
            pytest.param(one, "f16", 10**-3.8, marks=pytest.mark.slow)
            for one in ("llama3", "qwen2", "qwen3", "gemma", "gemma2", "gpt2", "phi3")
        ),
    ],
)
def test_sequences_of_a_batch_go_on_by_themselves(kind: str, mode: str, noise: float, tmp_path: Path) -> None:
    """Two histories of other lengths, one of them empty at first and one that ends before the other."""
    folder, path = tmp_path / "model", tmp_path / "m.bmodel"
    weights = write_gpt2(folder) if kind == "gpt2" else write_model(folder, kind)
    Session(chip="bm1684x", quantize=mode, opt=1).compile(folder, path, dims={"seq": TOKENS}, batch=3)
    chip, random = opened(path), np.random.default_rng(5)
    one, other = ([int(token) for token in random.integers(3, 60, count)] for count in (TOKENS, 9))
    choice = WeightChoice(4, "f16") if mode == "w4f16" else None
    model = LanguageModel.open(folder, ImportOptions(dims={"seq": TOKENS}, weights=choice), Registry())

    def wanted(ids: list[int]) -> Any:
        if choice is not None:
            return model.logits(len(ids))(ids)
        return gpt2_logits(weights, ids) if kind == "gpt2" else logits(config_of(kind), weights, ids)

    found = {0: [chip.prefill(one[:3], 0)], 2: [chip.prefill(other[:1], 2)]}
    for place in range(3, TOKENS):
        given = {0: one[place], **({2: other[place - 2]} if place < 11 else {})}
        for sequence, row in chip.step(given).items():
            found[sequence].append(row)
    for sequence, ids, first in ((0, one, 2), (2, other, 0)):
        for row, want in zip(found[sequence], wanted(ids)[first:], strict=True):
            assert np.square(row - want).sum() < noise * np.square(want).sum()


@pytest.mark.chip("bm1684x")
@pytest.mark.parametrize(("mode", "decibels"), [("f16", 45.0), ("bf16", 28.0)])
def test_prompt_and_steps_give_the_logits_of_the_whole_sequence(mode: str, decibels: float, tmp_path: Path) -> None:
    """Bounds in dB: 11 and 8 bits of significand round some twenty times on the way."""
    weights = write_model(tmp_path / "model", "qwen3")
    chip = opened(compiled(tmp_path / "model", mode, 16))
    ids = [int(one) for one in np.random.default_rng(2).integers(3, 60, TOKENS)]
    wanted = logits(config_of("qwen3"), weights, ids)
    found = [chip.prefill(ids[:5])] + [chip.step({0: token})[0] for token in ids[5:]]
    for row, want in zip(found, wanted[4:], strict=True):
        noise = np.square(row - want).sum() / np.square(want).sum()
        assert -10 * np.log10(noise) > decibels


@pytest.mark.chip("bm1684x")
@pytest.mark.parametrize("kind", ["gemma2", "qwen3"])
def test_long_prompts_are_computed_head_by_head(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Five tokens at a time, with the tokens up to them."""
    monkeypatch.setattr(decoder, "MOST_TOGETHER", 0)
    monkeypatch.setattr(decoder, "ROWS", 5)
    weights = write_model(tmp_path / "model", kind, num_hidden_layers=1)
    ids = [int(one) for one in np.random.default_rng(3).integers(3, 60, TOKENS)]
    wanted = logits({**config_of(kind), "num_hidden_layers": 1}, weights, ids)
    network = tpuc.load(tmp_path / "model", dims={"seq": TOKENS})
    found = network.run({"input_ids": np.array([ids], np.float32)})["logits"][0]
    assert np.abs(found - wanted).max() < 1e-4 * np.abs(wanted).max()
    chip = opened(compiled(tmp_path / "model", "f16", 16))
    assert np.abs(chip.logits(ids) - wanted).max() < 0.01 * np.abs(wanted).max()


@pytest.mark.chip("bm1684x")
def test_the_networks_are_those_that_runtimes_expect(tmp_path: Path) -> None:
    write_model(tmp_path / "model", "llama")
    (tmp_path / "model" / "generation_config.json").write_text("{}")
    from tpuc_bm1684x.container.model import BModel

    path = compiled(tmp_path / "model", "bf16", 16)
    file = Session().opened(path)
    names = [entry.name for entry in file.entries]
    blocks = [f"{kind}_{layer}" for layer in range(2) for kind in ("block", "block_cache")]
    assert names == ["embedding", "embedding_cache", *blocks, "lm_head", "greedy_head", "sample_head"]
    shown = {name: file.load(place) for place, name in enumerate(names)}
    half, past = "bf16", (1, 16, 2, 8)
    wanted: dict[str, Any] = {
        "embedding": ([((1, 16), "si32")], [((1, 16, 32), half)]),
        "embedding_cache": ([((1, 1), "si32")], [((1, 1, 32), half)]),
        "block_0": (
            [((1, 16, 32), half), ((1, 16), "si32"), ((1, 1, 16, 16), half)],
            [((1, 16, 32), half), (past, half), (past, half)],
        ),
        "block_cache_1": (
            [((1, 1, 32), half), ((1, 1), "si32"), ((1, 1, 1, 17), half), (past, half), (past, half)],
            [((1, 1, 32), half), ((1, 1, 2, 8), half), ((1, 1, 2, 8), half)],
        ),
        "lm_head": ([((1, 32), half)], [((1, 60), "f32")]),
        "greedy_head": ([((1, 60), "f32")], [((1, 1), "si32")]),
        "sample_head": (
            [((1, 60), "f32"), ((1, 16), "si32"), *(((1, 1), kind) for kind in ("f32", "f32", "si32", "f32"))],
            [((1, 50), "f32"), ((1, 50), "si32")],
        ),
    }
    for name, (inputs, outputs) in wanted.items():
        assert [(info.shape, str(info.element)) for info in shown[name].inputs] == inputs
        assert [(info.shape, str(info.element)) for info in shown[name].outputs] == outputs
    modes = {net.name: net.address_mode for net in BModel.from_bytes(file.data).nets}
    assert {name for name, mode in modes.items() if mode == 1} == {
        *("block_cache_0", "block_cache_1"),
        *("greedy_head", "sample_head"),
    }
    assert sorted(one.name for one in (path.parent / "config").iterdir()) == ["config.json", "generation_config.json"]


def test_shards_and_bfloat16_give_the_same_numbers(tmp_path: Path) -> None:
    weights = {
        name: (one.view(np.uint32) & 0xFFFF0000).view(np.float32)
        for name, one in weights_of(config_of("llama")).items()
    }
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config_of("llama")))
    names = sorted(weights)
    files = {"a.safetensors": names[::2], "b.safetensors": names[1::2]}
    for file, own in files.items():
        write_tensors(folder / file, {name: weights[name] for name in own}, "BF16")
    index = {"weight_map": {name: file for file, own in files.items() for name in own}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    ids = list(range(3, 3 + TOKENS))
    found = tpuc.load(folder, dims={"seq": TOKENS}).run({"input_ids": np.array([ids], np.float32)})["logits"][0]
    wanted = logits(config_of("llama"), weights, ids)
    assert np.abs(found - wanted).max() < 1e-4 * np.abs(wanted).max()


def _truncate(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-4])


def _drop_norm(folder: Path) -> None:
    weights = weights_of(config_of("llama"))
    del weights["model.norm.weight"]
    write_tensors(folder / "model.safetensors", weights)


def _lose_shard(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"x": "part-1.safetensors"}}))


def _no_weights(folder: Path) -> None:
    (folder / "model.safetensors").unlink()


def _header(**changes: Any) -> Callable[[Path], None]:
    """Another description of one tensor."""

    def damage(folder: Path) -> None:
        data = (folder / "model.safetensors").read_bytes()
        size = int.from_bytes(data[:8], "little")
        header = json.loads(data[8 : 8 + size])
        header["model.layers.0.mlp.up_proj.weight"] |= changes
        text = json.dumps(header).encode()
        (folder / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + data[8 + size :])

    return damage


def _config(**changes: Any) -> Callable[[Path], None]:
    return lambda folder: (folder / "config.json").write_text(json.dumps({**config_of("llama"), **changes})) and None


@pytest.mark.parametrize(
    ("damage", "error", "words"),
    [
        (_truncate, InvalidModel, "damaged or truncated. Download it again"),
        (_drop_norm, InvalidModel, "no tensor 'model.norm.weight'"),
        (_no_weights, InvalidModel, "there is neither model.safetensors nor model.safetensors.index.json in it"),
        (_lose_shard, InvalidModel, "lists 'part-1.safetensors', which is not in the folder"),
        (
            _config(model_type="rwkv"),
            Unsupported,
            "'rwkv' are not known; there are gemma, gemma2, gemma3_text, gpt2, granite, llama, minicpm, phi3",
        ),
        (_config(model_type=None), InvalidModel, "does not state a model_type"),
        (_config(model_type="bert"), Unsupported, r"'bert' are not known; .* Export an encoder to ONNX; a family of"),
        (_config(rope_scaling={"rope_type": "yarn"}), Unsupported, "rotary positions of type 'yarn' are not built"),
        (_config(hidden_act="gelu"), Unsupported, "hidden_act is 'gelu', and only silu is built here"),
        (
            _config(num_attention_heads=0),
            Unsupported,
            "num_attention_heads is 0, it has to be a whole number from 1 to",
        ),
        (
            _config(head_dim=1 << 30),
            Unsupported,
            "head_dim is 1073741824, it has to be a whole number from 1 to 65,536",
        ),
        (_config(rms_norm_eps=10**400), Unsupported, r"rms_norm_eps is 10{79}\.\.\., it has to be a number above 0"),
        (_config(rms_norm_eps=1e30), Unsupported, r"rms_norm_eps is 1e\+30, .* a number above 0 and at most 1\. Check"),
        (_config(rope_theta=10**400), Unsupported, "it has to be a number above 0"),
        (_config(rope_theta=5e-324, head_dim=64), Unsupported, "which makes rotary positions infinite"),
        (_config(rope_scaling={**LLAMA3, "low_freq_factor": 4}), Unsupported, "low_freq_factor is 4.0, it has to be"),
        (_config(tie_word_embeddings="x"), Unsupported, "tie_word_embeddings is 'x', and only False or True"),
        *(
            (_header(**{field: value}), InvalidModel, "damaged or truncated. Download it again")
            for field, value in (
                *(
                    ("data_offsets", value)
                    for value in ([0, 6144], [-1, 6143], [0.5, 6144.5], [math.inf, 0], "ab", [0])
                ),
                *(("shape", value) for value in (["48", "32"], "88", [48.5, 32], [math.inf], [-48, -32], [1 << 62, 4])),
            )
        ),
        (_header(dtype=["F32"]), InvalidModel, r"is stored as \['F32'\]; F64, F32, F16, BF16"),
        (_config(hidden_size=40), InvalidModel, r"is \[60, 32\], and config.json asks for \[60, 40\]"),
    ],
)
def test_what_is_wrong_is_said(
    damage: Callable[[Path], None], error: type[TpucError], words: str, tmp_path: Path
) -> None:
    write_model(tmp_path, "llama")
    damage(tmp_path)
    with pytest.raises(error, match=words):
        tpuc.load(tmp_path, dims={"seq": 8})


def test_a_chip_whose_files_hold_one_network_is_refused_at_once(tmp_path: Path) -> None:
    write_model(tmp_path / "model", "llama")
    with pytest.raises(
        Unsupported, match="compiles to several networks, and files for chip 'c' hold one; choose another"
    ):
        Session(chip="c", quantize="f32").compile(tmp_path / "model", tmp_path / "m.tar", dims={"seq": 8})


def test_a_context_that_no_chip_holds_asks_for_a_length(tmp_path: Path) -> None:
    write_model(tmp_path, "llama", max_position_embeddings=131072)
    with pytest.raises(
        UsageError, match=r"a prompt of 131,072 tokens needs a mask of 131,072 x 131,072; give dims seq="
    ):
        tpuc.load(tmp_path)


def test_lengths_beyond_the_context_are_refused(tmp_path: Path) -> None:
    write_model(tmp_path, "llama")
    with pytest.raises(UsageError, match="seq=65: the model takes 2 to 64 tokens"):
        tpuc.load(tmp_path, dims={"seq": 65})


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"dims": {"width": 4}}, UsageError, "--dim width is no dimension of a language model; give --dim seq=N"),
        (
            {"dims": {"seq": 8}, "batch": 2},
            Unsupported,
            "--batch 2: as one network, a language model takes one sequence",
        ),
    ],
)
def test_options_that_do_not_fit_are_named(
    options: dict[str, Any], error: type[TpucError], words: str, tmp_path: Path
) -> None:
    write_model(tmp_path, "llama")
    registry = Registry()
    with pytest.raises(error, match=words):
        registry.get("tpuc.frontends", "llm").read(tmp_path / "config.json", ImportOptions(**options), registry)


@pytest.mark.chip("bm1684x")
def test_files_of_another_model_beside_the_file_stay(tmp_path: Path) -> None:
    write_model(tmp_path / "model", "llama")
    other = tmp_path / "out" / "config" / "config.json"
    other.parent.mkdir(parents=True)
    other.write_text("mine")
    with pytest.raises(UsageError, match=r"config.json: this file is not from this model; compile into another folder"):
        Session(chip="bm1684x", quantize="f16").compile(
            tmp_path / "model", tmp_path / "out" / "m.bmodel", dims={"seq": 8}
        )
    assert other.read_text() == "mine"
    assert not (tmp_path / "out" / "m.bmodel").exists()


def test_prompts_and_files_that_do_not_fit_are_refused() -> None:
    with pytest.raises(UsageError, match="no network 'embedding', so it is no language model"):
        CompiledDecoder(["main"], None, None)  # type: ignore[arg-type]
    decoder = FakeDecoder([], 4)
    with pytest.raises(UsageError, match=r"the prompt has 5 tokens, the file takes 1 to 4"):
        CompiledDecoder.prefill(decoder, [1] * 5)
    decoder.positions = {0: 4}
    with pytest.raises(UsageError, match="the file holds 4 tokens of prompt and answer"):
        CompiledDecoder.step(decoder, {0: 1})


@pytest.mark.chip("bm1684x")
def test_settings_of_single_networks_are_refused(tmp_path: Path) -> None:
    write_model(tmp_path, "llama")
    session = Session(chip="bm1684x", quantize="int8")
    with pytest.raises(Unsupported, match="models of several networks compile in bf16, f16, f32, not in int8"):
        session.compile(tmp_path, tmp_path / "x.bmodel", dims={"seq": 8})
    with pytest.raises(Unsupported, match="compiles to several networks, but 'output_names' applies to one"):
        session.compile(tmp_path, tmp_path / "x.bmodel", dims={"seq": 8}, output_names=["x"])


class FakeDecoder(CompiledDecoder):
    """Answers with the next id of a list."""

    def __init__(self, answers: list[int], length: int) -> None:
        self.names, self.answers, self.size, self._sequences = (), answers, length, 1

    @property
    def length(self) -> int:
        return self.size

    @property
    def vocabulary(self) -> int:
        return 8

    def prefill(self, ids: Any, sequence: int = 0) -> Any:
        self.positions = {sequence: len(ids)}
        return self._next()

    def step(self, tokens: Any) -> Any:
        self.positions[0] += 1
        return {0: self._next()}

    def _next(self) -> Any:
        return np.eye(8)[self.answers.pop(0)]


def answer(decoder: CompiledDecoder, prompt: list[int], count: int, ends: frozenset[int] = frozenset()) -> list[int]:
    """The likeliest tokens behind one prompt."""
    return [token for _, token in generate(decoder, [prompt], count, ends, Sampling())]


def test_answers_end_at_an_end_token_and_where_the_file_is_full() -> None:
    assert answer(FakeDecoder([5, 6, 2, 7], 20), [1], 10, frozenset({2})) == [5, 6]
    assert answer(FakeDecoder([5, 6, 7, 4], 3), [1], 10) == [5, 6, 7]
    assert answer(FakeDecoder([5, 6, 7, 4], 20), [1], 2) == [5, 6]
    with pytest.raises(UsageError, match="takes 1 prompts at a time, and there are 2; compile it with --batch 2"):
        list(generate(FakeDecoder([], 20), [[1], [2]], 2, frozenset(), Sampling()))


def test_sampling_draws_from_the_likeliest() -> None:
    rows, random = np.log(np.array([0.5, 0.3, 0.15, 0.05])), np.random.default_rng(0)
    drawn = [Sampling(1.0).choose(rows, random) for _ in range(4000)]
    assert np.abs(np.bincount(drawn, minlength=4) / 4000 - [0.5, 0.3, 0.15, 0.05]).max() < 0.03  # five deviations
    assert {Sampling(1.0, top_k=2).choose(rows, random) for _ in range(200)} == {0, 1}
    assert {Sampling(1.0, top_p=0.79).choose(rows, random) for _ in range(200)} == {0, 1}
    assert Sampling(0.0).choose(rows, random) == 0


@pytest.mark.chip("bm1684x")
@pytest.mark.parametrize("name", ["stories260k", "qwen2_tiny_random"])
def test_greedy_tokens_are_those_of_the_float_reference(name: str, model_data: Path, tmp_path: Path) -> None:
    path = tmp_path / "model.bmodel"
    Session(chip="bm1684x", quantize="f16").compile(model_data / "llm" / name, path, dims={"seq": 128})
    decoder = opened(path)
    with np.load(model_data / "llm" / "ref" / f"{name}.npz") as reference:
        for number in range(3):
            prompt = [int(token) for token in reference[f"tokens{number}"]]
            wanted = [int(token) for token in reference[f"greedy{number}"]]
            assert answer(decoder, prompt, len(wanted)) == wanted
