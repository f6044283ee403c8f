"""TpuLang: networks written down op by op. `import tpuc_lang as tl`; begin with `tl.init`, end with `tl.compile`."""

from __future__ import annotations

from tpuc_lang import functions
from tpuc_lang.arithmetic import add as add
from tpuc_lang.arithmetic import batch_norm as batch_norm
from tpuc_lang.arithmetic import compare as compare
from tpuc_lang.arithmetic import div as div
from tpuc_lang.arithmetic import group_norm as group_norm
from tpuc_lang.arithmetic import layer_norm as layer_norm
from tpuc_lang.arithmetic import lrn as lrn
from tpuc_lang.arithmetic import lstm as lstm
from tpuc_lang.arithmetic import matmul as matmul
from tpuc_lang.arithmetic import max as max  # noqa: A004  # the interface's name
from tpuc_lang.arithmetic import min as min  # noqa: A004  # the interface's name
from tpuc_lang.arithmetic import mul as mul
from tpuc_lang.arithmetic import reduce as reduce
from tpuc_lang.arithmetic import rms_norm as rms_norm
from tpuc_lang.arithmetic import scale as scale
from tpuc_lang.arithmetic import sub as sub
from tpuc_lang.arrangement import cast as cast
from tpuc_lang.arrangement import concat as concat
from tpuc_lang.arrangement import copy as copy
from tpuc_lang.arrangement import depth2space as depth2space
from tpuc_lang.arrangement import dequantize as dequantize
from tpuc_lang.arrangement import gather as gather
from tpuc_lang.arrangement import interpolate as interpolate
from tpuc_lang.arrangement import pad as pad
from tpuc_lang.arrangement import permute as permute
from tpuc_lang.arrangement import quantize as quantize
from tpuc_lang.arrangement import repeat as repeat
from tpuc_lang.arrangement import requantize as requantize
from tpuc_lang.arrangement import reshape as reshape
from tpuc_lang.arrangement import slice as slice  # noqa: A004  # the interface's name
from tpuc_lang.arrangement import split as split
from tpuc_lang.arrangement import squeeze as squeeze
from tpuc_lang.arrangement import tile as tile
from tpuc_lang.arrangement import unsqueeze as unsqueeze
from tpuc_lang.arrangement import upsample as upsample
from tpuc_lang.choices import and_op as and_op
from tpuc_lang.choices import arg as arg
from tpuc_lang.choices import cond_select as cond_select
from tpuc_lang.choices import cumsum as cumsum
from tpuc_lang.choices import eq as eq
from tpuc_lang.choices import gather_elements as gather_elements
from tpuc_lang.choices import ge as ge
from tpuc_lang.choices import gt as gt
from tpuc_lang.choices import index_select as index_select
from tpuc_lang.choices import le as le
from tpuc_lang.choices import lt as lt
from tpuc_lang.choices import ne as ne
from tpuc_lang.choices import not_op as not_op
from tpuc_lang.choices import or_op as or_op
from tpuc_lang.choices import scatter as scatter
from tpuc_lang.choices import scatterND as scatterND
from tpuc_lang.choices import topk as topk
from tpuc_lang.choices import xor_op as xor_op
from tpuc_lang.functions import clamp as clamp
from tpuc_lang.functions import clip as clip
from tpuc_lang.functions import elu as elu
from tpuc_lang.functions import hsigmoid as hsigmoid
from tpuc_lang.functions import leaky_relu as leaky_relu
from tpuc_lang.functions import log_sigmoid as log_sigmoid
from tpuc_lang.functions import pow as pow  # noqa: A004  # the interface's name
from tpuc_lang.functions import prelu as prelu
from tpuc_lang.functions import relu as relu
from tpuc_lang.functions import relu6 as relu6
from tpuc_lang.functions import softmax as softmax
from tpuc_lang.functions import square as square
from tpuc_lang.functions import swish as swish
from tpuc_lang.graph import LangError as LangError
from tpuc_lang.graph import Tensor as Tensor
from tpuc_lang.program import compile as compile  # noqa: A004  # the interface's name
from tpuc_lang.program import deinit as deinit
from tpuc_lang.program import init as init
from tpuc_lang.windows import avgpool as avgpool
from tpuc_lang.windows import avgpool2d as avgpool2d
from tpuc_lang.windows import conv as conv
from tpuc_lang.windows import conv_v2 as conv_v2
from tpuc_lang.windows import deconv as deconv
from tpuc_lang.windows import deconv_v2 as deconv_v2
from tpuc_lang.windows import maxpool as maxpool
from tpuc_lang.windows import maxpool2d as maxpool2d
from tpuc_lang.windows import maxpool3d as maxpool3d


def __getattr__(name: str) -> functions.FunctionOfOne:
    """A function of one number, by the name that its op's file gives it: `tl.mish`."""
    if name.startswith("_"):
        raise AttributeError(f"module 'tpuc_lang' has no attribute '{name}'")
    return functions.function(name)


def __dir__() -> list[str]:
    """All names of the interface."""
    return sorted({*globals(), *functions.function_ops()})
