"""Architectures that no package of the environment has, as short PyTorch modules with few channels."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional


def conv(source: int, target: int, kernel: int = 3, stride: int = 1, **options: int) -> nn.Sequential:
    """Convolution, batch normalization, ReLU."""
    inner = nn.Conv2d(source, target, kernel, stride, kernel // 2 * options.get("dilation", 1), bias=False, **options)
    return nn.Sequential(inner, nn.BatchNorm2d(target), nn.ReLU())


# Classification


class Convolutions(nn.Module):
    """Features, an adaptive pooling, layers of products with dropout."""

    def __init__(self, features: nn.Module, side: int, width: int) -> None:
        super().__init__()
        self.features, self.pool = features, nn.AdaptiveAvgPool2d(side)
        self.head = nn.Sequential(nn.Linear(width * side * side, 64), nn.ReLU(), nn.Dropout(), nn.Linear(64, 10))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.flatten(self.pool(self.features(x)), 1))


class VGG(Convolutions):
    """VGG11 with batch normalization and an eighth of its channels."""

    def __init__(self) -> None:
        layers: list[nn.Module] = []
        source = 3
        for target in (8, 0, 16, 0, 32, 32, 0, 64, 64, 0, 64, 64, 0):
            layers.append(conv(source, target) if target else nn.MaxPool2d(2))
            source = target or source
        super().__init__(nn.Sequential(*layers), 3, 64)


class AlexNet(Convolutions):
    """A quarter of its channels."""

    def __init__(self) -> None:
        super().__init__(nn.Sequential(nn.Conv2d(3, 16, 11, 4, 2), nn.ReLU(), nn.MaxPool2d(3, 2),
                                       nn.Conv2d(16, 48, 5, 1, 2), nn.ReLU(), nn.MaxPool2d(3, 2),
                                       nn.Conv2d(48, 64, 3, 1, 1), nn.ReLU()), 2, 64)  # fmt: skip


# Segmentation and detection


class UNet(nn.Module):
    """Three levels, up by transposed convolutions or by resizing."""

    def __init__(self, bilinear: bool = False) -> None:
        super().__init__()
        widths = (8, 16, 32)
        self.down = nn.ModuleList(
            nn.Sequential(conv(a, b), conv(b, b)) for a, b in zip((3, *widths), widths, strict=False)
        )
        self.up = nn.ModuleList(
            nn.Sequential(nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True), nn.Conv2d(a, b, 1))
            if bilinear
            else nn.ConvTranspose2d(a, b, 2, 2)
            for a, b in ((32, 16), (16, 8))
        )
        self.after = nn.ModuleList(nn.Sequential(conv(2 * b, b), conv(b, b)) for b in (16, 8))
        self.head = nn.Conv2d(8, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        kept: list[Tensor] = []
        for index, level in enumerate(self.down):
            x = level(x if index == 0 else functional.max_pool2d(x, 2))
            kept.append(x)
        for up, after, skip in zip(self.up, self.after, reversed(kept[:-1]), strict=True):
            x = after(torch.cat([skip, up(x)], 1))
        return self.head(x)


class PyramidPooling(nn.Module):
    """Adaptive pooling to several grids, each resized back."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(conv(3, 16, 3, 2), conv(16, 32, 3, 2), conv(32, 32, dilation=2))
        self.levels = nn.ModuleList(nn.Sequential(nn.AdaptiveAvgPool2d(n), conv(32, 8, 1)) for n in (1, 2, 4, 8))
        self.head = nn.Sequential(conv(64, 16), nn.Conv2d(16, 5, 1))

    def forward(self, x: Tensor) -> Tensor:
        y = self.body(x)
        size = y.shape[-2:]
        grids = [functional.interpolate(one(y), size, mode="bilinear", align_corners=False) for one in self.levels]
        return functional.interpolate(
            self.head(torch.cat([y, *grids], 1)), x.shape[-2:], mode="bilinear", align_corners=False
        )


class Heads(nn.Module):
    """The convolutions of a detector of torchvision, without its post-processing."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.backbone, self.head = model.backbone, model.head

    def forward(self, x: Tensor) -> Sequence[Tensor]:
        return tuple(self.head(list(self.backbone(x).values())).values())


def ssdlite_head() -> nn.Module:
    """SSDLite on MobileNetV3."""
    from torchvision.models.detection import ssdlite320_mobilenet_v3_large

    return Heads(ssdlite320_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=5))


def _pyramid() -> nn.Module:
    from torchvision.models import resnet18
    from torchvision.models.detection.backbone_utils import BackboneWithFPN

    inner = resnet18(weights=None)
    layers = {f"layer{index}": str(index) for index in (2, 3, 4)}
    return BackboneWithFPN(inner, layers, [128, 256, 512], 32)


def _anchors(sizes: Sequence[int]) -> nn.Module:
    from torchvision.models.detection.anchor_utils import AnchorGenerator

    return AnchorGenerator(tuple((one,) for one in sizes), ((1.0,),) * len(sizes))


def retinanet_head() -> nn.Module:
    """RetinaNet on ResNet-18."""
    from torchvision.models.detection import RetinaNet

    return Heads(RetinaNet(_pyramid(), 5, anchor_generator=_anchors((16, 32, 64, 128))))


def fcos_head() -> nn.Module:
    """FCOS on ResNet-18."""
    from torchvision.models.detection import FCOS

    return Heads(FCOS(_pyramid(), 5, anchor_generator=_anchors((16, 32, 64, 128))))


class CenterNet(nn.Module):
    """Heat map, whose peaks are those that max pooling keeps, offsets and sizes."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(conv(3, 16, 3, 2), conv(16, 32, 3, 2), nn.ConvTranspose2d(32, 16, 4, 2, 1), nn.ReLU())
        self.heat, self.offset, self.size = (nn.Conv2d(16, n, 1) for n in (4, 2, 2))

    def forward(self, x: Tensor) -> Sequence[Tensor]:
        y = self.body(x)
        heat = torch.sigmoid(self.heat(y))
        peaks = heat * (functional.max_pool2d(heat, 3, 1, 1) == heat).float()
        return peaks, self.offset(y), self.size(y)


class DBNet(nn.Module):
    """Text detection by differentiable binarization: a feature pyramid and two transposed convolutions."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = conv(3, 16, 3, 4), conv(16, 32, 3, 2)
        self.side = nn.Conv2d(16, 32, 1)
        self.head = nn.Sequential(conv(32, 8), nn.ConvTranspose2d(8, 8, 2, 2), nn.BatchNorm2d(8), nn.Hardswish(),
                                  nn.ConvTranspose2d(8, 1, 2, 2), nn.Hardsigmoid())  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        fine = self.first(x)
        return self.head(self.side(fine) + functional.interpolate(self.second(fine), scale_factor=2.0, mode="nearest"))


# Restoration and generators


class SRCNN(nn.Sequential):
    """Super-resolution in three convolutions."""

    def __init__(self) -> None:
        super().__init__(nn.Conv2d(1, 16, 9, 1, 4), nn.ReLU(), nn.Conv2d(16, 8, 5, 1, 2), nn.ReLU(),
                         nn.Conv2d(8, 1, 5, 1, 2))  # fmt: skip


class ESPCN(nn.Sequential):
    """Super-resolution with a pixel shuffle."""

    def __init__(self) -> None:
        super().__init__(nn.Conv2d(1, 16, 5, 1, 2), nn.Tanh(), nn.Conv2d(16, 8, 3, 1, 1), nn.Tanh(),
                         nn.Conv2d(8, 9, 3, 1, 1), nn.PixelShuffle(3), nn.Sigmoid())  # fmt: skip


class FSRCNN(nn.Sequential):
    """Super-resolution with PReLU and a transposed convolution."""

    def __init__(self) -> None:
        super().__init__(nn.Conv2d(1, 16, 5, 1, 2), nn.PReLU(16), nn.Conv2d(16, 8, 1), nn.PReLU(8),
                         nn.Conv2d(8, 8, 3, 1, 1), nn.PReLU(8), nn.Conv2d(8, 16, 1), nn.PReLU(16),
                         nn.ConvTranspose2d(16, 1, 9, 2, 4, output_padding=1))  # fmt: skip


class EDSR(nn.Module):
    """Residual blocks without normalization."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Conv2d(3, 16, 3, 1, 1)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Conv2d(16, 16, 3, 1, 1), nn.ReLU(), nn.Conv2d(16, 16, 3, 1, 1)) for _ in range(3)
        )
        self.tail = nn.Sequential(nn.Conv2d(16, 64, 3, 1, 1), nn.PixelShuffle(2), nn.Conv2d(16, 3, 3, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        x = self.head(x)
        y = x
        for block in self.blocks:
            y = y + 0.1 * block(y)
        return self.tail(x + y)


class Distillation(nn.Module):
    """Channels split off step by step, and attention by pooled contrast."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Conv2d(3, 16, 3, 1, 1)
        self.steps = nn.ModuleList(nn.Conv2d(n, 16, 3, 1, 1) for n in (16, 12, 12))
        self.merge = nn.Conv2d(4 + 4 + 16, 16, 1)
        self.gate = nn.Sequential(nn.Conv2d(16, 4, 1), nn.ReLU(), nn.Conv2d(4, 16, 1), nn.Sigmoid())
        self.tail = nn.Sequential(nn.Conv2d(16, 12, 3, 1, 1), nn.PixelShuffle(2))

    def forward(self, x: Tensor) -> Tensor:
        x = self.head(x)
        kept, rest = [], x
        for step in self.steps[:-1]:
            part, rest = torch.split(functional.leaky_relu(step(rest), 0.05), (4, 12), 1)
            kept.append(part)
        y = self.merge(torch.cat([*kept, self.steps[-1](rest)], 1))
        contrast = y.mean((2, 3), keepdim=True) + y.std((2, 3), keepdim=True)
        return self.tail(x + y * self.gate(contrast))


class DnCNN(nn.Module):
    """Predicts the noise to subtract."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(conv(1, 16), conv(16, 16), conv(16, 16), nn.Conv2d(16, 1, 3, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        return x - self.body(x)


class NAFNet(nn.Module):
    """Layer normalization over channels and gates that multiply halves."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.head, self.tail = nn.Conv2d(3, width, 3, 1, 1), nn.Conv2d(width, 3, 3, 1, 1)
        self.norm = nn.LayerNorm(width)
        self.wide, self.deep = nn.Conv2d(width, 2 * width, 1), nn.Conv2d(2 * width, 2 * width, 3, 1, 1, groups=32)
        self.scale, self.out = nn.Conv2d(width, width, 1), nn.Conv2d(width, width, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = self.head(x)
        z = self.norm(y.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        first, second = self.deep(self.wide(z)).chunk(2, 1)
        z = first * second
        z = z * self.scale(functional.adaptive_avg_pool2d(z, 1))
        return x + self.tail(y + self.out(z))


class StyleTransfer(nn.Sequential):
    """Reflected borders, instance normalization, resizing by nearest."""

    def __init__(self) -> None:
        def block(source: int, target: int, stride: int = 1) -> nn.Sequential:
            inner = nn.Conv2d(source, target, 3, stride)
            return nn.Sequential(nn.ReflectionPad2d(1), inner, nn.InstanceNorm2d(target, affine=True), nn.ReLU())

        super().__init__(block(3, 8), block(8, 16, 2), block(16, 16), nn.Upsample(scale_factor=2), block(16, 8),
                         nn.ReflectionPad2d(4), nn.Conv2d(8, 3, 9))  # fmt: skip


class ResBlock(nn.Module):
    """Group normalization and SiLU, as in latent diffusion."""

    def __init__(self, source: int, target: int) -> None:
        super().__init__()
        self.first, self.second = nn.GroupNorm(4, source), nn.GroupNorm(4, target)
        self.one, self.two = nn.Conv2d(source, target, 3, 1, 1), nn.Conv2d(target, target, 3, 1, 1)
        self.skip = nn.Conv2d(source, target, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = self.one(functional.silu(self.first(x)))
        return self.skip(x) + self.two(functional.silu(self.second(y)))


class SelfAttention(nn.Module):
    """Attention over the pixels of a picture."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.qkv, self.out = nn.GroupNorm(4, width), nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        _, channels, height, width = x.shape
        q, k, v = self.qkv(self.norm(x).flatten(2).transpose(1, 2)).chunk(3, -1)
        y = self.out(functional.scaled_dot_product_attention(q, k, v))
        return x + y.transpose(1, 2).reshape(1, channels, height, width)


class VaeDecoder(nn.Sequential):
    """Of latent diffusion."""

    def __init__(self) -> None:
        up = nn.Upsample(scale_factor=2, mode="nearest")
        super().__init__(nn.Conv2d(4, 32, 3, 1, 1), ResBlock(32, 32), SelfAttention(32), ResBlock(32, 32), up,
                         nn.Conv2d(32, 32, 3, 1, 1), ResBlock(32, 16), up, nn.Conv2d(16, 16, 3, 1, 1),
                         nn.GroupNorm(4, 16), nn.SiLU(), nn.Conv2d(16, 3, 3, 1, 1))  # fmt: skip


class DiffusionUNet(nn.Module):
    """One step: a picture and the embedding of its step number."""

    def __init__(self) -> None:
        super().__init__()
        self.time = nn.Sequential(nn.Linear(32, 32), nn.SiLU(), nn.Linear(32, 16))
        self.head, self.tail = nn.Conv2d(4, 16, 3, 1, 1), nn.Conv2d(16, 4, 3, 1, 1)
        self.down, self.middle, self.up = ResBlock(16, 32), SelfAttention(32), ResBlock(48, 16)

    def forward(self, x: Tensor, step: Tensor) -> Tensor:
        x = self.head(x) + self.time(step)[:, :, None, None]
        y = self.middle(self.down(functional.avg_pool2d(x, 2)))
        return self.tail(self.up(torch.cat([x, functional.interpolate(y, scale_factor=2.0)], 1)))


class Generator(nn.Sequential):
    """Of DCGAN."""

    def __init__(self) -> None:
        def block(source: int, target: int, stride: int, pad: int) -> nn.Sequential:
            inner = nn.ConvTranspose2d(source, target, 4, stride, pad, bias=False)
            return nn.Sequential(inner, nn.BatchNorm2d(target), nn.ReLU())

        super().__init__(block(32, 64, 1, 0), block(64, 32, 2, 1), block(32, 16, 2, 1),
                         nn.ConvTranspose2d(16, 3, 4, 2, 1), nn.Tanh())  # fmt: skip


class MlpDecoder(nn.Sequential):
    """Of a variational autoencoder for digits."""

    def __init__(self) -> None:
        super().__init__(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 784), nn.Sigmoid(), nn.Unflatten(1, (1, 28, 28)))


# Text lines


class CRNN(nn.Module):
    """Columns of convolutions, read by a bidirectional recurrent network."""

    def __init__(self, cell: str = "LSTM") -> None:
        super().__init__()
        self.body = nn.Sequential(conv(1, 16), nn.MaxPool2d(2), conv(16, 32), nn.MaxPool2d(2), conv(32, 32),
                                  nn.MaxPool2d((2, 1), (2, 1)), conv(32, 32), nn.MaxPool2d((4, 1), (4, 1)))  # fmt: skip
        self.reader = getattr(nn, cell)(32, 24, num_layers=2, bidirectional=True)
        self.head = nn.Linear(48, 37)

    def forward(self, x: Tensor) -> Tensor:
        columns = self.body(x).squeeze(2).permute(2, 0, 1)
        return functional.log_softmax(self.head(self.reader(columns)[0]), 2)


class SVTR(nn.Module):
    """Convolutions, then attention over the columns of a line."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(conv(3, 16, 3, 2), conv(16, 32, 3, 2), nn.AdaptiveAvgPool2d((1, 24)))
        layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, activation="gelu", norm_first=True)
        self.mixer = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(32, 37)

    def forward(self, x: Tensor) -> Tensor:
        return functional.softmax(self.head(self.mixer(self.body(x).squeeze(2).transpose(1, 2))), 2)
