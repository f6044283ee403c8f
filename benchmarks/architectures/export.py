"""Make a module of a line in the table, give it random weights that matter, and export it to ONNX.

python -m benchmarks.architectures.export NAME EXPORTER OUT.onnx
"""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.architectures import ARCHITECTURES, Architecture

SEED = 7
SETTLING = 16
"""Samples for statistics of batch normalization."""
MEAN_SHARE = 0.25
"""Of the mean that normalization subtracts. All of it leaves only what differs between random inputs, which hardly
differ deep in a network of random weights: rounding grows from layer to layer, as it does not in a trained one (an
import that computes in float32 was 95 dB from ONNX Runtime in MobileNetV2, f16 overflowed in TinyNet).
"""
LEAST_SCALE = 0.1
"""Smaller scales of normalization are drawn again."""
OPSET = {"dynamo": 20, "legacy": 17}
"""One opset that both kinds of exporter write without converting, and that ONNX Runtime runs."""


def module_of(row: Architecture) -> nn.Module:
    """The untrained module."""
    return MAKERS[row.package](row.function, row.options)


def _timm(function: str, options: Mapping[str, Any]) -> nn.Module:
    import timm

    place, _, kind = function.rpartition(".")
    if place:  # a class, where the function of a model fixes its width
        return getattr(importlib.import_module(f"timm.models.{place}"), kind)(num_classes=10, **options)
    return timm.create_model(function, pretrained=False, num_classes=10, **options)


def _torchvision(function: str, options: Mapping[str, Any]) -> nn.Module:
    from torchvision import models

    if function == "resnext_small":
        return models.ResNet(models.resnet.Bottleneck, [1, 1, 1, 1], num_classes=10, groups=8, width_per_group=4)
    if function == "fcn_small":
        backbone = models.ResNet(models.resnet.BasicBlock, [1, 1, 1, 1])
        inner = models._utils.IntermediateLayerGetter(backbone, {"layer4": "out"})  # noqa: SLF001  # as its own models
        return models.segmentation.FCN(inner, models.segmentation.fcn.FCNHead(512, 5))
    place = models.segmentation if hasattr(models.segmentation, function) else models
    classes = {} if function == "DenseNet" else {"weights": None}
    return getattr(place, function)(num_classes=10, **classes, **options)


def _transformers(function: str, options: Mapping[str, Any]) -> nn.Module:
    import transformers

    whole = getattr(transformers, function, None)
    if whole is None:  # encoders and decoders that have no name at the top
        family = next(key for key in ("whisper", "moonshine", "encodec") if function.lower().startswith(key))
        whole = getattr(importlib.import_module(f"transformers.models.{family}.modeling_{family}"), function)
    kind = getattr(whole, "config_class", None)
    if kind is None:
        kind = getattr(transformers, f"{function.removesuffix('Decoder')}Config")
    options = dict(options)
    if (inner := options.get("backbone_config")) is not None:
        inner = dict(inner)
        options["backbone_config"] = transformers.AutoConfig.for_model(inner.pop("model_type"), **inner)
    return whole(kind(**options))


def _ultralytics(function: str, options: Mapping[str, Any]) -> nn.Module:
    assert not options
    from ultralytics import YOLO

    model = YOLO(function).model
    for layer in model.modules():
        for name, value in {"export": True, "format": "onnx", "dynamic": False, "max_det": 20}.items():
            if hasattr(layer, name):
                setattr(layer, name, value)
    return model


def _drawn(function: str, options: Mapping[str, Any]) -> nn.Module:
    from benchmarks.architectures import drawn, drawn_audio

    place = drawn if hasattr(drawn, function) else drawn_audio
    return getattr(place, function)(**options)


MAKERS = {
    "timm": _timm,
    "torchvision": _torchvision,
    "transformers": _transformers,
    "ultralytics": _ultralytics,
    "drawn": _drawn,
}


def stir(module: nn.Module) -> None:
    """Random values for parameters that start as one number, such as scales of residual branches at 0: exporters fold
    some of these away, and a branch times 0 tests nothing. Scales of normalization that a package draws around 0
    (RT-DETR's) become positive: otherwise every layer makes the signal a hundred times smaller.
    """
    with torch.no_grad():
        for layer in normalizations(module):
            if isinstance(layer.weight, Tensor) and float(layer.weight.abs().mean()) < LEAST_SCALE:
                layer.weight.copy_(0.5 + torch.rand_like(layer.weight))
        for parameter in module.parameters():
            if not parameter.is_floating_point() or parameter.numel() == 0:
                continue
            value = parameter.flatten()[0].item()
            if not bool((parameter == value).all()):
                continue
            spread = torch.rand_like(parameter)
            parameter.copy_(
                0.1 * (2 * spread - 1) if value == 0 else 0.5 + spread if abs(value) > 0.1 else 0.2 + spread
            )


def normalizations(module: nn.Module) -> list[Any]:
    """The layers of batch normalization, frozen or not."""
    return [one for one in module.modules() if {"running_mean", "running_var"} <= dict(one.named_buffers()).keys()]


def settle(module: nn.Module, row: Architecture) -> None:
    """Statistics of batch normalization, frozen or not, that keep magnitudes from layer to layer, as training does."""
    norms = normalizations(module)
    if not norms:
        return

    def observe(layer: Any, given: tuple[Tensor, ...]) -> None:
        (x,) = given
        axes = [axis for axis in range(x.ndim) if axis != 1]
        if x.numel() // x.shape[1] > 1:
            mean = MEAN_SHARE * x.mean(axes)
            layer.running_mean.copy_(mean)
            layer.running_var.copy_((x * x).mean(axes) - 2 * mean * x.mean(axes) + mean * mean + 1e-3)

    hooks = [one.register_forward_pre_hook(observe) for one in norms if one.running_mean is not None]
    samples = [[torch.from_numpy(spec.array(SEED + seed)) for spec in row.inputs] for seed in range(SETTLING)]
    with torch.no_grad():
        try:
            Called(module, row)(*map(torch.cat, zip(*samples, strict=True)))
        except (RuntimeError, ValueError):  # shapes that are written for one sample
            Called(module, row)(*samples[0])
    for hook in hooks:
        hook.remove()


class Called(nn.Module):
    """A module with inputs by place, and the outputs that the line keeps as a tuple."""

    def __init__(self, module: nn.Module, row: Architecture) -> None:
        super().__init__()
        self.module, self.names, self.keeps = module, [spec.name for spec in row.inputs], row.keeps
        self.by_name = row.package == "transformers"
        self.drops_cache = row.options.get("use_cache") is False

    def forward(self, *given: Tensor) -> Any:
        if self.by_name:
            extra = {"use_cache": False} if self.drops_cache else {}
            found = self.module(**dict(zip(self.names, given, strict=True)), **extra)
        else:
            found = self.module(*given)
        values = found if isinstance(found, (list, tuple)) else _values(found)
        if self.keeps:
            values = [values[index] for index in self.keeps]
        flat = _flat(values)
        return flat[0] if len(flat) == 1 else tuple(flat)


def _values(found: Any) -> list[Any]:
    """Those of a dictionary, or one tensor."""
    return list(found.values()) if hasattr(found, "values") and not isinstance(found, Tensor) else [found]


def _flat(values: Any) -> list[Tensor]:
    if isinstance(values, Tensor):
        return [values]
    if isinstance(values, Mapping):
        values = list(values.values())
    return [one for value in values if value is not None for one in _flat(value)]


def export(row: Architecture, exporter: str, path: Path) -> None:
    """Write one ONNX file."""
    torch.manual_seed(SEED)
    module = module_of(row).eval()
    stir(module)
    settle(module, row)
    called = Called(module, row).eval()
    given = tuple(torch.from_numpy(spec.array(SEED)) for spec in row.inputs)
    names = [spec.name for spec in row.inputs]
    options: dict[str, Any] = {"input_names": names, "opset_version": OPSET[exporter]}
    if exporter == "dynamo":
        program = torch.onnx.export(called, given, dynamo=True, verbose=False, **options)
        assert program is not None
        program.save(str(path))
    else:
        torch.onnx.export(called, given, str(path), dynamo=False, **options)


def main() -> None:
    name, exporter, path = sys.argv[1:]
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    row = next(row for row in ARCHITECTURES if row.name == name)
    export(row, exporter, Path(path))


if __name__ == "__main__":
    main()
