"""The functions of the language: which are here, that each has a case, and that the others say why they are not."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import numpy as np
import pytest
import tpuc_lang as tl
from tpuc_lang import functions, language

from tests.families import each
from tests.frontends.lang.cases import CASES, SHAPE
from tests.frontends.lang.programs import evaluated, floats

FOLDER = Path(__file__).parent
LEAST_HERE = 130


@each("name", CASES)
def test_values_and_shapes(name: str) -> None:
    x, y = floats(*SHAPE), floats(*SHAPE, seed=1)
    case = CASES[name]
    output = case.build(x, y)
    assert output.shape == case.wanted.shape
    np.testing.assert_allclose(evaluated(output, [x, y])[0], case.wanted, rtol=1e-5, atol=1e-5)  # float32


def test_the_table_names_what_is_there() -> None:
    ours = {name for group in language.groups() for name in group.here if "." not in name}
    found = {name for name, value in vars(tl).items() if callable(value) and not name.startswith("_")}
    others = {"Any", "Callable", "LangError", "LangFunction"}
    assert (found | set(functions.function_ops())) - others == ours
    assert sorted({*ours, "LangError", "LangFunction"}) == dir(tl)


def test_counts() -> None:
    published = [group for group in language.groups() if group.is_published]
    names = [name for group in published for name in (*group.here, *group.refused)]
    assert len(names) == len(set(names))
    assert sum(len(group.here) for group in published) >= LEAST_HERE
    assert not {name for group in language.groups() for name in group.here} & set(language.refusals())


def test_every_function_has_a_case() -> None:
    """Somewhere in the tests it is called by its name, in a file that compares with numpy."""
    text = "\n".join(path.read_text(encoding="utf-8") for path in sorted(FOLDER.glob("*.py")))
    called = set(re.findall(r"\btl\.(\w+)\b", text))
    wanted = {name for group in language.groups() for name in group.here if "." not in name}
    assert wanted - called == set()


@each("name", sorted(language.refusals()))
def test_what_is_not_here_says_why(name: str) -> None:
    with pytest.raises(tl.LangError) as caught:
        getattr(tl, name)(1, 2, some=3)
    assert str(caught.value) == f"{name}: {language.refusals()[name]}."
    assert ", and " in str(caught.value) or "; " in str(caught.value)


SIGNATURES = {
    "add": "tensor_i0, tensor_i1, scale=None, zero_point=None, out_dtype=None, out_name=None",
    "add_shift": "tensor_i0, tensor_i1, shift, out_dtype, round_mode='half_away_from_zero', is_saturate=True, "
    "out_name=None",
    "arg": "input, method='max', axis=0, keep_dims=True, out_name=None",
    "avgpool2d": "input, kernel=None, stride=None, pad=None, ceil_mode=False, scale=None, zero_point=None, "
    "out_name=None, count_include_pad=False, round_mode='half_away_from_zero', first_round_mode='half_away_from_zero'",
    "cast": "tensor_i, out_dtype='float32', out_name=None, round_mode='half_away_from_zero'",
    "concat": "inputs, scales=None, zero_points=None, axis=0, out_name=None, dtype='float32', "
    "round_mode='half_away_from_zero'",
    "conv": "input, weight, bias=None, stride=None, dilation=None, pad=None, group=1, out_dtype=None, out_name=None",
    "conv_quant": "input, weight, bias=None, stride=None, dilation=None, pad=None, group=1, input_scale=None, "
    "weight_scale=None, output_scale=None, input_zp=None, weight_zp=None, output_zp=None, out_dtype=None, "
    "out_name=None",
    "conv_v2": "tensor_i, weight, bias=None, stride=None, dilation=None, pad=None, group=1, input_zp=None, "
    "weight_zp=None, out_dtype=None, out_name=None",
    "custom": "tensors_in, op_name, out_dtypes, out_names=None, params=None",
    "deconv_int": "input, weight, bias=None, stride=None, dilation=None, pad=None, output_padding=None, group=1, "
    "input_zp=None, weight_zp=None, out_dtype=None, out_name=None",
    "dequant_int": "tensor_i, mul, shift, offset, lshift, requant_mode, out_dtype='int8', out_name=None, "
    "round_mode='half_up'",
    "gelu": "input, scale=None, zero_point=None, out_name=None, round_mode='half_away_from_zero'",
    "gts": "tensor_i0, scalar_i1, scale=None, zero_point=None, out_name=None",
    "interpolate": "input, scale_h, scale_w, method='nearest', coord_mode='pytorch_half_pixel', out_name=None",
    "leaky_relu": "input, negative_slope=0.01, out_name=None, round_mode='half_away_from_zero'",
    "matmul_int": "input, right, bias=None, right_transpose=False, left_transpose=False, output_transpose=False, "
    "keep_dims=True, input_zp=None, right_zp=None, out_dtype=None, out_name=None",
    "mish": "input, scale=None, zero_point=None, out_name=None",
    "pad": "input, method='constant', value=None, padding=None, out_name=None",
    "reduce": "tensor_i, method='ReduceSum', axis=None, keep_dims=False, out_name=None",
    "requant_int": "tensor_i, mul, shift, offset, requant_mode, out_dtype='int8', out_name=None, "
    "round_mode='half_away_from_zero', rq_axis=1, fuse_rq_to_matmul=False",
    "rms_norm": "input, gamma=None, epsilon=1e-05, axis=-1, out_name=None",
    "round": "input, out_name=None",
    "slice": "input, starts, ends, steps=None, axes=None, out_name=None",
    "swish": "input, beta, scale=None, zero_point=None, round_mode='half_away_from_zero', out_name=None",
    "upsample": "tensor_i, scale=2, out_name=None",
    "yuv2rgb": "inputs, src_format, dst_format, ImageOutFormatAttr, formula_mode, round_mode, out_name=None",
}
"""As the language has them, in its order; some of every group."""


@each("name", SIGNATURES)
def test_signatures(name: str) -> None:
    parameters = inspect.signature(getattr(tl, name)).parameters.values()
    shown = [
        one.name if one.default is inspect.Parameter.empty else f"{one.name}={one.default!r}" for one in parameters
    ]
    assert ", ".join(shown) == SIGNATURES[name]


def test_compile_takes_what_the_language_says() -> None:
    wanted = "name inputs outputs cmp refs mode dynamic asymmetric no_save opt mlir_inference bmodel_inference "
    names = list(inspect.signature(tl.compile).parameters)
    assert names == [*wanted.split(), "log_level", "embed_debug_info", "folder"]
    names = list(inspect.signature(tl.Tensor.__init__).parameters)
    assert names == ["self", "shape", "name", "ttype", "data", "dtype", "scale", "zero_point", "is_const"]
