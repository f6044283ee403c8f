"""Move the preprocessing after resizing into the network."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from tpuc.api import FrameAlignment, Module, NetworkInput, Operation, Pass, PassContext, UsageError, remove_dead
from tpuc_driver.api.host import SENSOR_FORMATS

from tpuc_lower.boundary.images import FORMATS, ImageTarget
from tpuc_lower.boundary.normalizing import fuse_image
from tpuc_lower.target.kernels import has_kernel


@dataclass(frozen=True)
class FusePreprocess(Pass):
    """Every image input takes the bytes of resized pixels, as `<input>_raw`, in `customization_format`; crop, channel
    order, layout and normalization move into the network, on a lowered module.

    Where the input was quantized, tables reproduce exactly the integers that normalizing in float32 and casting gave;
    float inputs get the same two float32 operations, or a table where the chip has none. The default format is the
    network's own. `aligned`: an input takes frames aligned as the chip's camera hardware writes them, each as one row
    of bytes.
    """

    name = "fuse-preprocess"
    customization_format: str = ""
    aligned: bool = False

    def run(self, module: Module, context: PassContext) -> bool:
        """See Pass; raises UsageError when no input is an image, or an image cannot have the format."""
        if self.customization_format and self.customization_format not in FORMATS:
            raise UsageError(
                f"no customization format is named '{self.customization_format}'. Formats: {', '.join(FORMATS)}."
            )
        images = [operation for operation in module.main.operations if _is_image(operation)]
        if not images:
            raise UsageError(
                f"{module.name}: no input has preprocessing to fuse. Transform the network with --pixel-format, --mean "
                "and --scale."
            )
        target = _target(context, _alignment(context) if self.aligned else None)
        for operation in images:
            fuse_image(module, operation, self._format(operation), target)
        remove_dead(module)
        module.main.update_type()
        return True

    def _format(self, operation: Operation) -> str:
        op: Any = operation.op
        layout = "PLANAR" if op.channel_format == "nchw" else "PACKED"
        if op.pixel_format in SENSOR_FORMATS:
            layout = "RAW"
        own = "GRAYSCALE" if op.pixel_format == "gray" else f"{op.pixel_format}_{layout}".upper()
        wanted = self.customization_format or own
        fitting = [name for name, form in FORMATS.items() if form.gives(op.pixel_format)]
        if wanted not in fitting:
            way_out = f"Formats for it: {', '.join(fitting)}" if fitting else "Compile it without --fuse-preprocess"
            raise UsageError(
                f"input '{operation.name}' takes {op.pixel_format} images, which {wanted} does not match. {way_out}."
            )
        return wanted


def _target(context: PassContext, alignment: FrameAlignment | None) -> ImageTarget:
    if context.chip is None:
        return ImageTarget(alignment=alignment)
    chip = context.chip.description
    return ImageTarget("f32" in chip.modes, alignment, chip.lanes, lambda node: has_kernel(context, chip, node))


def _alignment(context: PassContext) -> FrameAlignment:
    found = None if context.chip is None else context.chip.description.frame_alignment
    if found is None:
        name = "no chip" if context.chip is None else f"chip '{context.chip.description.name}'"
        raise UsageError(f"{name} does not take camera frames; leave out --aligned-input.")
    return found


def _is_image(operation: Operation) -> bool:
    if not isinstance(operation.op, NetworkInput) or operation.result.tensor.rank != 4:
        return False
    fields = {field.name for field in dataclasses.fields(operation.op)}  # pyright: ignore[reportArgumentType]  # op definitions are dataclasses
    op: Any = operation.op
    return "do_preprocess" in fields and bool(op.do_preprocess) and not op.customization_format
