"""What another preset makes of the same pixels, against the preset itself on the bytes."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
from tpuc.ir.preprocess import Preprocess
from tpuc.registry import Registry
from tpuc_driver.data import SampleInput, alternatives, from_pixels, one_of

BYTES = Preprocess(pixel_format="rgb", layout="nhwc")
REGISTRY = Registry()
PRESETS = REGISTRY.names("tpuc.presets")


def described(name: str, layout: Any) -> Preprocess:
    said = REGISTRY.get("tpuc.presets", name).said
    known = {field: said[field] for field in ("mean", "scale", "pixel_format") if field in said}
    return Preprocess(**known, layout=layout)


def test_each_preset_from_each_other_one() -> None:
    pixels = np.random.default_rng(1).integers(0, 256, (1, 6, 5, 3), np.uint8)
    wrong, tried = list[str](), 0
    for layout, own in product(("nchw", "nhwc"), PRESETS):
        shape = (1, 3, 6, 5) if layout == "nchw" else (1, 6, 5, 3)
        one = SampleInput("image", shape, preprocess=described(own, layout))
        values = from_pixels(one.preprocess, pixels, BYTES, shape)
        for way in alternatives(one, REGISTRY, None):
            for name in way.names:
                wanted = from_pixels(described(name, layout), pixels, BYTES, shape)
                tried += 1
                if not np.allclose(way.of(values), wanted, rtol=1e-4, atol=2e-3):
                    wrong.append(f"{layout}: {own} to {name}")
        found = {name for way in alternatives(one, REGISTRY, None) for name in way.names}
        same = {name for name in PRESETS if described(name, layout) == described(own, layout)}
        assert found == set(PRESETS) - same
    assert not wrong, wrong
    assert tried > 60


def test_arrays_that_nobody_described_are_known_by_their_range() -> None:
    pixels = np.random.default_rng(1).integers(0, 256, (1, 40, 50, 3), np.uint8)
    shape = (1, 3, 40, 50)
    for name in ("imagenet-tf", "imagenet-torch", "yolo", "caffe"):
        values = from_pixels(described(name, "nchw"), pixels, BYTES, shape)
        one = SampleInput("image", shape, is_described=False)
        (way,) = [
            way
            for way in alternatives(one, REGISTRY, (float(values.min()), float(values.max())))
            if "none" in way.names
        ]
        wanted = pixels[..., :: 1 if way.swaps and name == "caffe" else -1].transpose(0, 3, 1, 2)
        assert np.allclose(np.sort(way.of(values).ravel()), np.sort(wanted.ravel()), atol=2e-3), name


def test_inputs_of_other_kinds_have_none() -> None:
    for shape, dtype, said in (
        ((1, 3, 8, 8), np.uint8, Preprocess()),
        ((1, 4, 8, 8), np.float32, Preprocess(pixel_format="rgba")),
        ((1, 640), np.float32, Preprocess()),
        ((1, 4, 8, 8), np.float32, Preprocess(pixel_format="rggb")),
    ):
        assert not alternatives(SampleInput("x", shape, dtype, said), REGISTRY, (0.0, 1.0))
    assert not alternatives(SampleInput("x", (1, 3, 8, 8), is_described=False), REGISTRY, (-1e5, 1.0))


def test_names_stand_in_a_sentence() -> None:
    assert [one_of(names) for names in (["a"], ["a", "b"], ["a", "b", "c"])] == ["a", "a or b", "a, b or c"]
