"""TpuLang: write networks op by op. `import tpuc_lang as tl`; begin with `tl.init`, end with `tl.compile`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tpuc_lang import functions, language
from tpuc_lang.arithmetic import add as add
from tpuc_lang.arithmetic import add_shift as add_shift
from tpuc_lang.arithmetic import clamp as clamp
from tpuc_lang.arithmetic import clip as clip
from tpuc_lang.arithmetic import copy as copy
from tpuc_lang.arithmetic import div as div
from tpuc_lang.arithmetic import max as max  # noqa: A004  # the interface's name
from tpuc_lang.arithmetic import min as min  # noqa: A004  # the interface's name
from tpuc_lang.arithmetic import mul as mul
from tpuc_lang.arithmetic import mul_shift as mul_shift
from tpuc_lang.arithmetic import sub as sub
from tpuc_lang.arithmetic import sub_shift as sub_shift
from tpuc_lang.arrangement import broadcast as broadcast
from tpuc_lang.arrangement import concat as concat
from tpuc_lang.arrangement import depth2space as depth2space
from tpuc_lang.arrangement import extract as extract
from tpuc_lang.arrangement import pad as pad
from tpuc_lang.arrangement import permute as permute
from tpuc_lang.arrangement import repeat as repeat
from tpuc_lang.arrangement import reshape as reshape
from tpuc_lang.arrangement import roll as roll
from tpuc_lang.arrangement import shape_fetch as shape_fetch
from tpuc_lang.arrangement import slice as slice  # noqa: A004  # the interface's name
from tpuc_lang.arrangement import split as split
from tpuc_lang.arrangement import squeeze as squeeze
from tpuc_lang.arrangement import tile as tile
from tpuc_lang.arrangement import unsqueeze as unsqueeze
from tpuc_lang.arrangement import upsample as upsample
from tpuc_lang.attention import multi_scale_deformable_attention as multi_scale_deformable_attention
from tpuc_lang.attention import rope as rope
from tpuc_lang.choices import and_op as and_op
from tpuc_lang.choices import arg as arg
from tpuc_lang.choices import argsort as argsort
from tpuc_lang.choices import compare as compare
from tpuc_lang.choices import cond_select as cond_select
from tpuc_lang.choices import cumsum as cumsum
from tpuc_lang.choices import eq as eq
from tpuc_lang.choices import eqs as eqs
from tpuc_lang.choices import gather as gather
from tpuc_lang.choices import gather_elements as gather_elements
from tpuc_lang.choices import ge as ge
from tpuc_lang.choices import ges as ges
from tpuc_lang.choices import gt as gt
from tpuc_lang.choices import gts as gts
from tpuc_lang.choices import index_select as index_select
from tpuc_lang.choices import le as le
from tpuc_lang.choices import les as les
from tpuc_lang.choices import lt as lt
from tpuc_lang.choices import lts as lts
from tpuc_lang.choices import lut as lut
from tpuc_lang.choices import ne as ne
from tpuc_lang.choices import nes as nes
from tpuc_lang.choices import not_op as not_op
from tpuc_lang.choices import or_op as or_op
from tpuc_lang.choices import scatter as scatter
from tpuc_lang.choices import scatterND as scatterND
from tpuc_lang.choices import select as select
from tpuc_lang.choices import sort as sort
from tpuc_lang.choices import sort_by_key as sort_by_key
from tpuc_lang.choices import topk as topk
from tpuc_lang.choices import xor_op as xor_op
from tpuc_lang.conversions import cast as cast
from tpuc_lang.conversions import dequant_int as dequant_int
from tpuc_lang.conversions import dequant_int_to_fp as dequant_int_to_fp
from tpuc_lang.conversions import dequantize as dequantize
from tpuc_lang.conversions import quantize as quantize
from tpuc_lang.conversions import requant_fp as requant_fp
from tpuc_lang.conversions import requant_fp_to_int as requant_fp_to_int
from tpuc_lang.conversions import requant_int as requant_int
from tpuc_lang.conversions import requantize as requantize
from tpuc_lang.convolutions import conv as conv
from tpuc_lang.convolutions import conv3d as conv3d
from tpuc_lang.convolutions import conv3d_int as conv3d_int
from tpuc_lang.convolutions import conv3d_quant as conv3d_quant
from tpuc_lang.convolutions import conv3d_v2 as conv3d_v2
from tpuc_lang.convolutions import conv_int as conv_int
from tpuc_lang.convolutions import conv_quant as conv_quant
from tpuc_lang.convolutions import conv_v2 as conv_v2
from tpuc_lang.convolutions import deconv as deconv
from tpuc_lang.convolutions import deconv3d as deconv3d
from tpuc_lang.convolutions import deconv3d_v2 as deconv3d_v2
from tpuc_lang.convolutions import deconv_int as deconv_int
from tpuc_lang.convolutions import deconv_v2 as deconv_v2
from tpuc_lang.custom import LangFunction as LangFunction
from tpuc_lang.custom import custom as custom
from tpuc_lang.functions import elu as elu
from tpuc_lang.functions import hsigmoid as hsigmoid
from tpuc_lang.functions import leaky_relu as leaky_relu
from tpuc_lang.functions import log_sigmoid as log_sigmoid
from tpuc_lang.functions import pow as pow  # noqa: A004  # the interface's name
from tpuc_lang.functions import prelu as prelu
from tpuc_lang.functions import relu as relu
from tpuc_lang.functions import relu6 as relu6
from tpuc_lang.functions import softmax as softmax
from tpuc_lang.functions import softmax_int as softmax_int
from tpuc_lang.functions import square as square
from tpuc_lang.functions import swish as swish
from tpuc_lang.graph import LangError as LangError
from tpuc_lang.graph import Scalar as Scalar
from tpuc_lang.graph import Tensor as Tensor
from tpuc_lang.normalizations import batch_norm as batch_norm
from tpuc_lang.normalizations import group_norm as group_norm
from tpuc_lang.normalizations import layer_norm as layer_norm
from tpuc_lang.normalizations import lrn as lrn
from tpuc_lang.normalizations import lstm as lstm
from tpuc_lang.normalizations import normalize as normalize
from tpuc_lang.normalizations import reduce as reduce
from tpuc_lang.normalizations import rms_norm as rms_norm
from tpuc_lang.normalizations import scale as scale
from tpuc_lang.products import matmul as matmul
from tpuc_lang.products import matmul_int as matmul_int
from tpuc_lang.products import matmul_quant as matmul_quant
from tpuc_lang.products import matmulrq_int_op as matmulrq_int_op
from tpuc_lang.products import matrix_mul as matrix_mul
from tpuc_lang.program import compile as compile  # noqa: A004  # the interface's name
from tpuc_lang.program import compile_f32 as compile_f32
from tpuc_lang.program import deinit as deinit
from tpuc_lang.program import get_default_graph as get_default_graph
from tpuc_lang.program import init as init
from tpuc_lang.program import reset_default_graph as reset_default_graph
from tpuc_lang.program import reset_graph as reset_graph
from tpuc_lang.vision import interpolate as interpolate
from tpuc_lang.vision import interpolate_v2 as interpolate_v2
from tpuc_lang.vision import mean_std_scale as mean_std_scale
from tpuc_lang.vision import roiExtractor as roiExtractor
from tpuc_lang.vision import yuv2rgb as yuv2rgb
from tpuc_lang.windows import avgpool as avgpool
from tpuc_lang.windows import avgpool2d as avgpool2d
from tpuc_lang.windows import avgpool3d as avgpool3d
from tpuc_lang.windows import maxpool as maxpool
from tpuc_lang.windows import maxpool2d as maxpool2d
from tpuc_lang.windows import maxpool2d_with_mask as maxpool2d_with_mask
from tpuc_lang.windows import maxpool3d as maxpool3d


def __getattr__(name: str) -> Callable[..., Any]:
    """Return a unary function by the name stated in its op's file (`tl.mish`), or one that raises the reason why it is
    not supported.
    """
    if name.startswith("_"):
        raise AttributeError(f"module 'tpuc_lang' has no attribute '{name}'")
    return language.refused(name) or functions.function(name)


def __dir__() -> list[str]:
    """Return all names of the interface, without unsupported functions."""
    names = {name for group in language.groups() for name in group.here if "." not in name}
    return sorted({"LangError", "LangFunction", *names})
