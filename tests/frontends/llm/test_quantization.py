"""Language models whose matrices are stored as integers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tpuc.api import ImportOptions, InvalidModel, Unsupported, UsageError, WeightChoice
from tpuc.registry import Registry
from tpuc_driver.session import Session
from tpuc_llm.calibrating import windows
from tpuc_llm.family import Linear
from tpuc_llm.model import LanguageModel
from tpuc_llm.perplexity import perplexity
from tpuc_llm.quantization import PROJECTIONS, Quantizer
from tpuc_llm.rounding import Feedback
from tpuc_llm.sensitivity import Loss, wide_places

from tests.frontends.llm.models import config_of, logits, weights_of, write_model, write_tensors
from tests.frontends.llm.test_generate import write_tokenizer
from tests.frontends.llm.test_model import opened


def error_of(choice: WeightChoice, depth: int) -> float:
    """The largest error of a matrix, in shares of the largest step that its groups may take."""
    weight = np.random.default_rng(0).normal(0, 1, (50, depth)).astype("f4")
    done = Quantizer(choice, choice.bits).linear(Linear(weight))
    group = choice.group or 256
    filled = np.zeros((50, -(-depth // group) * group), "f4")
    filled[:, :depth] = weight
    rows = filled.reshape(50, -1, group)
    assert done.integers is not None
    assert done.integers.bits == (8 if choice.group and depth % group else choice.bits)
    steps = 2**done.integers.bits - 1
    step = (np.maximum(rows.max(-1), 0) - np.minimum(rows.min(-1), 0)) / steps
    if choice.symmetric:
        step = 2 * np.abs(rows).max(-1) / steps
    errors = np.abs(done.weight - weight)
    return float((errors / np.repeat(step, group, 1)[:, :depth]).max())


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("group", [0, 32, 64, 128])
@pytest.mark.parametrize("symmetric", [False, True])
def test_no_weight_is_off_by_more_than_a_step(bits: int, group: int, symmetric: bool) -> None:
    """Half a step by rounding; half a step more where the zero point moves the ends of the range. No group divides 172:
    with several groups, such rows get 8 bits.
    """
    assert error_of(WeightChoice(bits, "f16", group, symmetric), 256) < 1.02
    assert error_of(WeightChoice(bits, "f16", group, symmetric), 172) < 1.02


def test_feedback_loses_less_of_the_products_than_rounding() -> None:
    random = np.random.default_rng(1)
    inputs = random.normal(0, 1, (512, 12)) @ random.normal(0, 1, (12, 96)) + 0.1 * random.normal(0, 1, (512, 96))
    inputs = inputs.astype("f4")
    linear = Linear(random.normal(0, 1, (40, 96)).astype("f4"))
    quantizer = Quantizer(WeightChoice(4, "f16", 32), 4)
    wanted = inputs @ linear.weight.T
    nearest = quantizer.linear(linear).weight
    fed = Feedback(quantizer, inputs.T @ inputs).linear(linear).weight
    lost = [float(np.square(inputs @ weight.T - wanted).mean()) for weight in (nearest, fed)]
    assert lost[1] < 0.5 * lost[0]


@pytest.mark.chip("bm1684x")
def test_a_file_computes_with_the_integers_of_the_model(tmp_path: Path) -> None:
    """Prompt and steps against plain arithmetic with the same quantized weights; 11 bits round on the way."""
    write_model(tmp_path / "model", "qwen3")
    path = tmp_path / "m.bmodel"
    Session(chip="bm1684x", quantize="w4f16").compile(
        tmp_path / "model", path, dims={"seq": 16}, group_size=32, head_bits=4
    )
    options = ImportOptions(dims={"seq": 16}, weights=WeightChoice(4, "f16", 32, head_bits=4))
    model = LanguageModel.open(tmp_path / "model", options, Registry())
    ids = [3, 1, 4, 1, 5, 9, 2, 6]
    wanted = model.logits(len(ids))(ids)
    decoder = opened(path)
    found = [decoder.prefill(ids[:5]), *(decoder.step({0: token})[0] for token in ids[5:])]
    assert np.abs(np.array(found) - wanted[4:]).max() < 0.02 * np.abs(wanted).max()
    plain = logits(config_of("qwen3"), weights_of(config_of("qwen3")), ids)
    assert np.abs(plain - wanted).max() > 0.05 * np.abs(plain).max()  # the integers do matter


def test_plain_arithmetic_is_that_of_the_papers(tmp_path: Path) -> None:
    for kind in ("llama3", "qwen2", "qwen3"):
        weights = write_model(tmp_path / kind, kind)
        model = LanguageModel.open(tmp_path / kind, ImportOptions(dims={"seq": 8}), Registry())
        ids = [3, 1, 4, 1, 5]
        wanted = logits(config_of(kind), weights, ids)
        assert np.abs(model.logits(5)(ids) - wanted).max() < 1e-4 * np.abs(wanted).max()


def test_a_text_is_cut_into_windows_that_begin_alike() -> None:
    assert windows([1, 5, 6, 7, 8, 9, 10], 4, 1) == [[1, 5, 6, 7], [1, 8, 9, 10]]
    assert windows([5, 6, 7, 8, 9], 2, None) == [[5, 6], [7, 8]]
    assert perplexity(lambda window: np.zeros((len(window), 60)), [[1, 2, 3]]) == pytest.approx(60)


@pytest.mark.parametrize("calibrated", [False, True])
def test_keys_and_values_that_heads_share_keep_eight_bits(calibrated: bool, tmp_path: Path) -> None:
    """Qwen3 here has one key head for four query heads; with as many as query heads, they have the bits asked for."""
    for kind, heads, wanted in (("qwen3", 1, 8), ("llama", 4, 4)):
        folder = tmp_path / kind
        write_model(folder, kind, num_key_value_heads=heads)
        write_tokenizer(folder)
        text = folder / "text.txt"
        text.write_text(" ".join(f"w{3 + number * number % 50}" for number in range(200)))
        choice = WeightChoice(4, "f16", 32, text=text if calibrated else None)
        model = LanguageModel.open(folder, ImportOptions(dims={"seq": 16}, weights=choice), Registry())
        for block in model.blocks():
            assert block.gate is not None
            bits = [one.integers and one.integers.bits for one in (block.q, block.k, block.v, block.o)]
            assert bits == [4, wanted, wanted, 4]


def test_matrices_that_lose_most_for_their_size_get_eight_bits() -> None:
    """Within 6 bits on average: of 4 + 4 + 2 + 1 hundred numbers, three may have 8, with one that has them anyway."""
    shares = {(0, "q"): (0.1, 400, True), (0, "k"): (0.0, 100, False), (1, "up"): (0.4, 400, True)}
    found = [Loss(place, *rest) for place, rest in {**shares, (1, "q"): (0.05, 200, True)}.items()]
    assert wide_places(found, 6) == {(1, "up")}
    assert wide_places(found, 7) == {(1, "up"), (1, "q")}
    assert wide_places(found, 5) == frozenset()
    assert wide_places(found, 8) == {(0, "q"), (1, "up"), (1, "q")}


def bits_of(model: LanguageModel) -> dict[str, tuple[int, int]]:
    """Bits and numbers of every matrix."""
    found: dict[str, tuple[int, int]] = {}
    for index, block in enumerate(model.blocks()):
        for name in PROJECTIONS:
            linear: Linear = getattr(block, name)
            assert linear.integers is not None
            found[f"{index}{name}"] = (linear.integers.bits, linear.weight.size)
    return found


def test_bits_between_four_and_eight_are_a_mean(tmp_path: Path) -> None:
    """A matrix whose products are large beside the states gets 8 bits first."""
    weights = weights_of(config_of("llama"))
    write_model(tmp_path, "llama")
    weights["model.layers.1.self_attn.o_proj.weight"] *= 30
    write_tensors(tmp_path / "model.safetensors", weights)
    write_tokenizer(tmp_path)
    text = tmp_path / "text.txt"
    text.write_text(" ".join(f"w{3 + number * number % 50}" for number in range(200)))

    def opened_as(bits: int, text: Path | None) -> LanguageModel:
        choice = WeightChoice(bits, "f16", 16, text=text)
        return LanguageModel.open(tmp_path, ImportOptions(dims={"seq": 16}, weights=choice), Registry())

    means: list[float] = []
    for bits in (4, 6, 7, 8):
        found = bits_of(opened_as(bits, text))
        means.append(sum(one * size for one, size in found.values()) / sum(size for _, size in found.values()))
        assert means[-1] <= max(bits, means[0])
        assert found["1o"][0] == (4 if bits == 4 else 8)
    assert means == sorted(set(means))
    with pytest.raises(UsageError, match=r"w6 gives 8 bits to the matrices that need them, .*; add --dataset FILE, or"):
        next(opened_as(6, None).blocks())


def test_a_text_decides_how_weights_are_rounded(tmp_path: Path) -> None:
    write_model(tmp_path / "model", "llama")
    write_tokenizer(tmp_path / "model")
    text = tmp_path / "text.txt"
    text.write_text(" ".join(f"w{3 + number * number % 50}" for number in range(200)))
    choice = WeightChoice(4, "f16", 32, text=text)
    model = LanguageModel.open(tmp_path / "model", ImportOptions(dims={"seq": 16}, weights=choice), Registry())
    for block in model.blocks():
        assert block.q.integers is not None
    assert model.head()[1].integers is not None
    text.write_text("w5")
    model = LanguageModel.open(tmp_path / "model", ImportOptions(dims={"seq": 16}, weights=choice), Registry())
    with pytest.raises(UsageError, match="the text has less than 16 tokens; give a longer one"):
        next(model.blocks())
    text.write_bytes(b"\xff\xfe\xff")
    model = LanguageModel.open(tmp_path / "model", ImportOptions(dims={"seq": 16}, weights=choice), Registry())
    with pytest.raises(InvalidModel, match="this is not a text that can be read"):
        next(model.blocks())


@pytest.mark.parametrize(
    ("mode", "settings", "words"),
    [
        ("f16", {"group_size": 64}, "--group-size is for weights stored as integers; add --quantize w4f16"),
        ("f16", {"head_bits": 8}, "--quantize-head is for weights stored as integers"),
        ("w4f16", {"group_size": 48}, "--group-size 48: choose 32, 64 or 128, or 0 for one scale per row"),
    ],
)
def test_settings_that_do_not_fit_are_named(mode: str, settings: dict[str, Any], words: str, tmp_path: Path) -> None:
    write_model(tmp_path / "model", "llama")
    with pytest.raises(UsageError, match=words):
        Session(chip="bm1684x", quantize=mode).compile(tmp_path / "model", tmp_path / "m.bmodel", **settings)


def test_other_networks_have_no_such_modes(tmp_path: Path, digits_onnx: Path) -> None:
    session = Session(chip="bm1684x", quantize="w8f16")
    with pytest.raises(Unsupported, match="weights alone are quantized in language models only"):
        session.compile(digits_onnx, tmp_path / "m.bmodel")
    with pytest.raises(Unsupported, match="weights become integers where a language model is read"):
        session.deploy(Session().transform(digits_onnx), tmp_path / "m.bmodel")
