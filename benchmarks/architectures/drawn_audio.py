"""Architectures for sound that no package of the environment has."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional


class TemporalBlock(nn.Module):
    """A block of Conv-TasNet: depthwise dilated convolution between two pointwise ones, normalized over everything."""

    def __init__(self, dilation: int) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv1d(16, 32, 1), nn.PReLU(), nn.GroupNorm(1, 32),
                                  nn.Conv1d(32, 32, 3, padding=dilation, dilation=dilation, groups=32), nn.PReLU(),
                                  nn.GroupNorm(1, 32), nn.Conv1d(32, 16, 1))  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        return x + self.body(x)


class ConvTasNet(nn.Module):
    """Separates two speakers in the time domain."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Conv1d(1, 32, 16, 8, bias=False)
        self.masks = nn.Sequential(nn.GroupNorm(1, 32), nn.Conv1d(32, 16, 1), *map(TemporalBlock, (1, 2, 4)),
                                   nn.PReLU(), nn.Conv1d(16, 64, 1), nn.Sigmoid())  # fmt: skip
        self.decoder = nn.ConvTranspose1d(32, 1, 16, 8, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        y = self.encoder(x)
        masks = self.masks(y).view(2, 32, -1)
        return self.decoder(masks * y).view(1, 2, -1)


class DSCNN(nn.Sequential):
    """Keyword spotting with depthwise separable convolutions."""

    def __init__(self) -> None:
        def pair(stride: int = 1) -> nn.Sequential:
            deep = nn.Conv2d(32, 32, 3, stride, 1, groups=32)
            return nn.Sequential(
                deep, nn.BatchNorm2d(32), nn.ReLU(), nn.Conv2d(32, 32, 1), nn.BatchNorm2d(32), nn.ReLU()
            )

        super().__init__(nn.Conv2d(1, 32, (10, 4), (2, 2), (5, 1)), nn.BatchNorm2d(32), nn.ReLU(), pair(), pair(),
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 12))  # fmt: skip


class ConvRecurrent(nn.Module):
    """Noise suppression: convolutions over frequency, a GRU over time, transposed convolutions, a mask."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(2, 8, (1, 3), (1, 2)), nn.ELU(), nn.Conv2d(8, 8, (1, 3), (1, 2)), nn.ELU()
        )
        self.time = nn.GRU(56, 56, batch_first=True)
        self.decoder = nn.Sequential(nn.ConvTranspose2d(16, 8, (1, 3), (1, 2), output_padding=(0, 1)), nn.ELU(),
                                     nn.ConvTranspose2d(8, 2, (1, 3), (1, 2)))  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        y = self.encoder(x)
        frames = y.permute(0, 2, 1, 3).flatten(2)
        z = self.time(frames)[0].unflatten(2, (8, 7)).permute(0, 2, 1, 3)
        return x * torch.tanh(self.decoder(torch.cat([y, z], 1)))


class TCN(nn.Module):
    """Causal dilated convolutions."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Conv1d(16, 16, 3, dilation=d) for d in (1, 2, 4, 8))
        self.head = nn.Linear(16, 10)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = x + functional.relu(layer(functional.pad(x, (2 * layer.dilation[0], 0))))
        return self.head(x[:, :, -1])


class DeepSpeech(nn.Module):
    """Strided convolutions, a bidirectional GRU, classes per frame."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 8, (5, 11), (1, 2), (2, 5)), nn.BatchNorm2d(8), nn.Hardtanh(0, 20))
        self.time = nn.GRU(160, 32, bidirectional=True, batch_first=True)
        self.head = nn.Linear(64, 29)

    def forward(self, x: Tensor) -> Tensor:
        frames = self.body(x).permute(0, 2, 1, 3).flatten(2)
        return functional.log_softmax(self.head(self.time(frames)[0]), -1)


class Conformer(nn.Module):
    """One block: half feed-forward, attention, gated convolution, half feed-forward."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.head = nn.Linear(32, width)
        self.feed = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 64), nn.SiLU(), nn.Linear(64, width)) for _ in range(2)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.attention = nn.MultiheadAttention(width, 4, batch_first=True)
        self.gate, self.out = nn.Conv1d(width, 2 * width, 1), nn.Conv1d(width, width, 1)
        self.deep = nn.Sequential(
            nn.Conv1d(width, width, 15, padding=7, groups=width), nn.BatchNorm1d(width), nn.SiLU()
        )

    def forward(self, x: Tensor) -> Tensor:
        x = self.head(x)
        x = x + 0.5 * self.feed[0](x)
        y = self.norms[0](x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        y = functional.glu(self.gate(self.norms[1](x).transpose(1, 2)), 1)
        x = x + self.out(self.deep(y)).transpose(1, 2)
        return self.norms[2](x + 0.5 * self.feed[1](x))


class EcapaTDNN(nn.Module):
    """Speaker embedding: dilated convolutions, squeeze and excitation, attentive statistics."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Conv1d(24, 32, 5, padding=2)
        self.layers = nn.ModuleList(nn.Conv1d(32, 32, 3, padding=d, dilation=d) for d in (2, 3))
        self.squeeze = nn.Sequential(nn.Conv1d(32, 8, 1), nn.ReLU(), nn.Conv1d(8, 32, 1), nn.Sigmoid())
        self.attention = nn.Sequential(nn.Conv1d(32, 8, 1), nn.Tanh(), nn.Conv1d(8, 32, 1), nn.Softmax(2))
        self.out = nn.Linear(64, 16)

    def forward(self, x: Tensor) -> Tensor:
        x = functional.relu(self.head(x))
        for layer in self.layers:
            y = functional.relu(layer(x))
            x = x + y * self.squeeze(y.mean(2, keepdim=True))
        weights = self.attention(x)
        mean = (weights * x).sum(2)
        deviation = ((weights * x * x).sum(2) - mean * mean).clamp(min=1e-4).sqrt()
        return functional.normalize(self.out(torch.cat([mean, deviation], 1)))


class AutoEncoder(nn.Sequential):
    """Machine sounds, as in MLPerf Tiny."""

    def __init__(self) -> None:
        widths = (640, 128, 128, 8, 128, 128)
        layers: list[nn.Module] = []
        for source, target in pairwise(widths):
            layers += [nn.Linear(source, target), nn.BatchNorm1d(target), nn.ReLU()]
        super().__init__(*layers, nn.Linear(128, 640))
