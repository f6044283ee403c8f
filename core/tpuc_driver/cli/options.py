"""Options shared by commands: preprocessing of images, and the types of inputs and outputs."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click
from click.core import ParameterSource
from tpuc.errors import UsageError

from tpuc_driver.cli.app import App
from tpuc_driver.cli.values import EMPTY, INTEGERS, LARGEST, NAMES, NUMBERS, OUTPUT, PAIR, SAMPLES, WORDS

R = TypeVar("R")
Function = Callable[..., R]


class _PresetOption(click.Option):
    """An option whose help lists the installed presets."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        record = super().get_help_record(ctx)
        names = ctx.ensure_object(App).make_registry().names("tpuc.presets")
        return None if record is None else (record[0], record[1].replace("{presets}", ", ".join(names)))


_PREPROCESS = {
    "preset": click.option(
        "--preprocess", "preset", cls=_PresetOption, metavar="PRESET", help="One of the presets: {presets}."
    ),
    "resize_dims": click.option(
        "--resize-dims", type=INTEGERS, default=EMPTY, help="Resize images to this size first: 256,256."
    ),
    "keep_aspect_ratio": click.option("--keep-aspect-ratio", is_flag=True, help="Resize images without distortion."),
    "keep_ratio_mode": click.option(
        "--keep-ratio-mode",
        type=click.Choice(["letterbox", "short_side_scale"]),
        help="Fit the whole image and pad it, or fill the input and crop.",
    ),
    "pad_value": click.option(
        "--pad-value", type=click.IntRange(0, 255), help="Value of padding pixels; 0 by default."
    ),
    "pad_type": click.option(
        "--pad-type",
        type=click.Choice(["center", "normal"]),
        help="Position of the padded image; normal: top left.",
    ),
    "interpolation": click.option(
        "--interpolation",
        type=click.Choice(["nearest", "box", "bilinear", "hamming", "bicubic", "lanczos", "area", "linear"]),
        help="Filter for resizing, as in Pillow; area and linear as in OpenCV.",
    ),
    "mean": click.option("--mean", type=NUMBERS, default=EMPTY, help="Subtracted per channel: 103.939,116.779,123.68."),
    "scale": click.option(
        "--scale", type=NUMBERS, default=EMPTY, help="Factor per channel, after the mean: 1.0,1.0,1.0."
    ),
    "std": click.option(
        "--std", type=NUMBERS, default=EMPTY, help="Divisor per channel, instead of --scale: 0.229,0.224,0.225."
    ),
    "crop": click.option(
        "--crop",
        type=click.FloatRange(0.0, 1.0, min_open=True),
        metavar="SHARE",
        help="Resize until the input spans this share of a side, then crop the center: 0.875.",
    ),
    "pixel_format": click.option(
        "--pixel-format",
        type=click.Choice(["rgb", "bgr", "gray", "rgba", "rgbd", "rggb", "grbg", "gbrg", "bggr"]),
        help="Order of channels, or of colors on a sensor.",
    ),
    "channel_format": click.option(
        "--channel-format",
        type=click.Choice(["nchw", "nhwc", "none"]),
        help="Position of channels; none: inputs are no images.",
    ),
}

_BOUNDARY = {
    "fuse_preprocess": click.option(
        "--fuse-preprocess", is_flag=True, help="Compile cropping and normalization in: the file takes image bytes."
    ),
    "customization_format": click.option(
        "--customization-format",
        metavar="FORMAT",
        default="",
        help="RGB, BGR or RGBA with _PLANAR or _PACKED, GRAYSCALE, YUV420_PLANAR, YUV_NV12, YUV_NV21, RGGB_RAW, "
        "GRBG_RAW, GBRG_RAW, BGGR_RAW.",
    ),
    "aligned_input": click.option(
        "--aligned-input",
        is_flag=True,
        help="Image rows are aligned as by the chip's camera hardware.",
    ),
    "quant_input": click.option("--quant-input", is_flag=True, help="Take inputs in their stored type, without casts."),
    "float_input": click.option(
        "--float-input", is_flag=True, help="Take floats even if the framework quantizes inputs itself."
    ),
    "float_output": click.option(
        "--float-output", is_flag=True, help="Return floats even if the network returns quantized integers (chip c)."
    ),
    "quant_output": click.option(
        "--quant-output", is_flag=True, help="Return outputs in their stored type; bytes in the int8 modes."
    ),
    "quant_input_list": click.option(
        "--quant-input-list",
        type=INTEGERS,
        default=EMPTY,
        help="Limit --quant-input to these inputs, counted from 1: 1,3.",
    ),
    "quant_output_list": click.option(
        "--quant-output-list",
        type=INTEGERS,
        default=EMPTY,
        help="Limit --quant-output to these outputs, counted from 1: 1,3.",
    ),
    "state": click.option(
        "--state",
        type=click.Choice(["internal", "external"]),
        help="internal: the file keeps states between runs; otherwise they are inputs and outputs.",
    ),
    "state_pair": click.option(
        "--state-pair",
        multiple=True,
        metavar="INPUT=OUTPUT",
        help="With --state internal: this output is this input of the next run. Repeatable.",
    ),
}


def layout_option(function: Function[R]) -> Function[R]:
    """Add the option for the memory layout of arrays, as `input_layout`."""
    option = click.option(
        "--input-layout",
        type=click.Choice(["nchw", "nhwc"]),
        help="Layout of four-dimensional input arrays, if their shape leaves it open.",
    )
    return option(function)


def trust_option(function: Function[R]) -> Function[R]:
    """Add the option that trusts code in compiled files, as `trust`. It is not allowed in `tpuc.toml`."""
    option = click.option(
        "--trust",
        is_flag=True,
        callback=_said_here,
        help="Run C code of a compiled file that another installation wrote; it is confined.",
    )
    return option(function)


def _said_here(context: click.Context, parameter: click.Parameter, value: bool) -> bool:
    source = context.get_parameter_source(parameter.name or "")
    if value and source is not ParameterSource.COMMANDLINE:
        raise UsageError(
            "--trust cannot be a default: it is given on the command line, for one file at a time; remove it from "
            "tpuc.toml."
        )
    return value


def dataset_option(what: str) -> Callable[[Function[R]], Function[R]]:
    """Add the option that names data sets, as `dataset`: a tuple, None by default."""
    option = click.option(
        "--dataset",
        type=SAMPLES,
        multiple=True,
        metavar="DIR",
        help=f"{what} DIR=3 counts its samples three times.",
    )

    def add(function: Function[R]) -> Function[R]:
        @functools.wraps(function)
        def named(*arguments: Any, **settings: Any) -> R:
            settings["dataset"] = settings["dataset"] or None
            return function(*arguments, **settings)

        return option(named)

    return add


def agreement_option(function: Function[R]) -> Function[R]:
    """Add the option for the required prediction agreement, as `min_agreement`."""
    option = click.option(
        "--min-agreement",
        type=click.FloatRange(0.0, 1.0),
        metavar="SHARE",
        help="Fail if int8 and float agree on less than this share of predictions: 0.98.",
    )
    return option(function)


def force_option(function: Function[R]) -> Function[R]:
    """Add the option to calibrate on samples that say nothing, as `force`."""
    option = click.option(
        "--force", is_flag=True, default=None, help="Calibrate even if all samples consist of one value, such as 0."
    )
    return option(function)


def runtime_option(function: Function[R]) -> Function[R]:
    """Add the option for the target runtime version, as `runtime_version`."""
    option = click.option("--runtime-version", metavar="VERSION", help="Version of the runtime on the board: 1.4.")
    return option(function)


def specializing_options(function: Function[R]) -> Function[R]:
    """Add the options that specialize a network, as `input_names`, `dims`, `fixed_inputs`."""
    cut = click.option(
        "--input-names", type=NAMES, default=EMPTY, help="Cut the network at its front: these values become the inputs."
    )
    dims = click.option(
        "--dim",
        "dims",
        type=PAIR,
        multiple=True,
        metavar="NAME=EXTENT",
        callback=_extents,
        help="Extent of an open dimension: seq=128; may be given several times.",
    )
    fixed = click.option(
        "--fix-input",
        "fixed_inputs",
        type=PAIR,
        multiple=True,
        metavar="NAME=VALUE",
        callback=_fixed,
        help="Make an input a constant: sr=16000, mask=ones, x=x.npy; may be given several times.",
    )
    return cut(dims(fixed(function)))


def _extents(context: click.Context, option: click.Parameter, pairs: Sequence[tuple[str, str]]) -> dict[str, int]:
    for name, text in pairs:
        if not text.isascii() or not text.isdecimal() or not 0 < int(text[:12]) <= LARGEST:
            raise click.BadParameter(f"{name}={text!s} is not an extent such as {name}=128.", context, option)
    return {name: int(text) for name, text in _once(context, option, pairs).items()}


def _fixed(context: click.Context, option: click.Parameter, pairs: Sequence[tuple[str, str]]) -> dict[str, str]:
    return _once(context, option, pairs)


def _once(context: click.Context, option: click.Parameter, pairs: Sequence[tuple[str, str]]) -> dict[str, str]:
    found = dict[str, str]()
    for name, text in pairs:
        if found.setdefault(name, text) != text:
            raise click.BadParameter(f"{name!r} is given twice: {found[name]} and {text}.", context, option)
    return found


def planning_options(function: Function[R]) -> Function[R]:
    """Add the options of planning, as `planner`, `memory_plan`, `opt`, `cores` and `cpu_ops`."""
    plan = click.option(
        "--memory-plan",
        type=OUTPUT,
        metavar="FILE.json",
        help="Write the address of every buffer in DDR, and the reason.",
    )
    name = click.option("--planner", metavar="NAME", help="Algorithm that places buffers in DDR; greedy by default.")
    level = click.option(
        "--opt",
        type=click.IntRange(1, 3),
        help="Effort of planning local memory: 1 one quick plan, 2 best of a few, 3 best of many.",
    )
    processor = click.option(
        "--cpu-ops",
        type=WORDS,
        default=EMPTY,
        metavar="OPS",
        help="Ops that may run on the processor if the chip does not compute them: TopK,GatherND or all.",
    )
    cores = click.option(
        "--cores", type=click.IntRange(1), help="Cores of the chip that may share the work; 1 by default."
    )
    return processor(cores(level(name(plan(function)))))


def preprocess_options(function: Function[R]) -> Function[R]:
    """Add the preprocessing options, as `preprocess`: the given ones, by name."""

    def gather(given: dict[str, Any]) -> Any:
        return {name: value for name, value in given.items() if value not in (None, False, ())}

    return _gathering(function, "preprocess", _PREPROCESS, gather)


def post_option(function: Function[R]) -> Function[R]:
    """Add the option for post-processing appended to the network, as `post`."""
    option = click.option(
        "--post",
        "--post-handle-type",
        "post",
        metavar="NAME",
        help="Append post-processing to the network: classes, yolo, ssd{score=0.3}, auto.",
    )
    return option(function)


def labels_option(function: Function[R]) -> Function[R]:
    """Add the option for class names, as `labels`: None by default."""
    option = click.option(
        "--labels",
        "labels_text",
        default="",
        metavar="NAME",
        help="Class names: imagenet, coco, or a file with one per line.",
    )

    @functools.wraps(function)
    def named(*arguments: Any, labels_text: str, **settings: Any) -> R:
        from tpuc_driver.data import labels_named

        return function(*arguments, labels=labels_named(labels_text) if labels_text else None, **settings)

    return option(named)


def bundle_option(function: Function[R]) -> Function[R]:
    """Add the option for a deployment folder, as `bundle`."""
    option = click.option(
        "--bundle", type=OUTPUT, metavar="DIR", help="Write a folder to deploy: the file, its description, programs."
    )
    return option(function)


def boundary_options(function: Function[R]) -> Function[R]:
    """Add the boundary options, as `boundary`: None by default; contradictory ones raise UsageError."""

    def gather(given: dict[str, Any]) -> Any:
        if not any(given.values()):
            return None
        from tpuc_driver.session.boundary import Boundary

        given["customization_format"] = given["customization_format"].upper()
        return Boundary(**{name: value for name, value in given.items() if value})

    return _gathering(function, "boundary", _BOUNDARY, gather)


def _gathering(
    function: Function[R], name: str, options: dict[str, Any], gather: Callable[[dict[str, Any]], Any]
) -> Function[R]:
    @functools.wraps(function)
    def gathered(*arguments: Any, **settings: Any) -> R:
        given = {option: settings.pop(option) for option in options}
        return function(*arguments, **settings, **{name: gather(given)})

    result: Any = gathered
    for option in reversed(list(options.values())):
        result = option(result)
    return result
