"""Problems of a network on a chip, node by node, each with a suggested fix."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tpuc.api import visible

IMPORT, LOWERING, CODE, NETWORK, BOARD = "import", "lowering", "code", "network", "board"
"""Where a problem appeared: reading the file, choosing instructions, emitting them, only for the whole network, or on
the board.
"""

_HOST_BOXES = "end the network before it and decode the boxes on the host"
REWRITES = {
    "top.Det": "compute it on the host, or expand small matrices into products",
    **dict.fromkeys(("top.DetectionOutput", "top.FrcnDetection", "top.Proposal"), _HOST_BOXES),
    **dict.fromkeys(("top.RetinaFaceDetection", "top.YoloDetection"), _HOST_BOXES),
    "top.DeformConv2D": "use a Conv of the same size and fine-tune",
    "top.GridSampler": "use Resize for a regular grid, or split the network there and sample on the host",
    "top.Erf": "write GELU and the like as one op, or with tanh",
    "top.GELU": "use its form with tanh, or sigmoid(1.702 x) * x",
    "top.InstanceNorm": "use BatchNorm with fixed statistics",
    "top.LRN": "use BatchNorm, or remove it and fine-tune",
    "top.LSTM": "unroll its steps into matrix products",
    "top.GRU": "unroll its steps into matrix products",
    "top.ROIPooling": "split the network there and crop the regions on the host",
    "top.Normalize": "use a Reduce of squares, Sqrt and Div",
    "top.RoiAlign": "split the network there and crop the regions on the host",
    "top.ScatterElements": "use Where with a mask, or Concat of the parts",
    "top.ScatterND": "use Where with a mask, or Concat of the parts",
    "top.TopK": "end the network before it and sort on the host",
}
"""Suggested rewrites of ops that no chip supports."""

_NODE = re.compile(r"(?:node|layer) '([^']*)' \(([^)]*)\): (.*)", re.DOTALL)
_UNKNOWN = re.compile(r"\d+ (?:operator|layer type)s? (?:is|are) not known: (.*?)\. Install", re.DOTALL)
_ITEM = re.compile(r"([^,() ]+) \((?:nodes?|layers?) ([^)]*)\)")


@dataclass(frozen=True)
class Finding:
    """One reason why the network does not run, with every node that it applies to."""

    stage: str
    nodes: tuple[str, ...]
    op: str
    reason: str
    way_out: str
    mode: str = ""
    cycles: int | None = None
    host_operations: int | None = None

    def text(self) -> str:
        """Format a finding."""
        shown = ", ".join(f"'{name}'" for name in self.nodes[:4])
        more = f" and {len(self.nodes) - 4} more" if len(self.nodes) > 4 else ""
        subject = f"{shown}{more} ({self.op})" if self.nodes else self.op or "the network"
        return visible(f"{subject}: {self.reason.rstrip('.')}. {self.way_out[:1].upper()}{self.way_out[1:]}.")

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "stage": self.stage,
            "nodes": list(self.nodes),
            "op": self.op,
            "mode": self.mode,
            "reason": self.reason,
            "way_out": self.way_out,
            "cycles": self.cycles,
            "host_operations": self.host_operations,
        }


def import_findings(
    message: str, path: str, unknown_nodes: Mapping[str, tuple[str, ...]] | None = None
) -> list[Finding]:
    """Convert a front end's message, line by line, to findings; a sentence names only the first nodes of an unknown
    operator, `unknown_nodes` all of them.
    """
    known = unknown_nodes or {}
    found: list[Finding] = []
    for line in message.splitlines():
        line = line.removeprefix(f"{path}: ")
        unknown, node = _UNKNOWN.search(line), _NODE.match(line)
        if unknown is not None:
            found += _unknown_ops(unknown.group(1), known)
        elif node is not None:
            reason, way_out = _last_sentence(node.group(3))
            found.append(Finding(IMPORT, (node.group(1),), node.group(2), reason, way_out))
        else:
            reason, way_out = _last_sentence(line)
            found.append(Finding(IMPORT, (), "", reason, way_out))
    return found


def _unknown_ops(text: str, known: Mapping[str, tuple[str, ...]]) -> Iterator[Finding]:
    for match in _ITEM.finditer(text):
        nodes = known.get(match.group(1)) or tuple(re.findall(r"'([^']*)'", match.group(2)))
        way_out = "install a package that imports it, or cut the network before it with --output-names"
        yield Finding(IMPORT, nodes, match.group(1), "no installed importer supports this operator", way_out)


def _last_sentence(text: str) -> tuple[str, str]:
    """Return the reason, and the suggested fix if the text ends with one."""
    sentences = re.split(r"(?<=[.?]) (?=[A-Z])", text.strip())
    reason, has_way_out, way_out = sentences[-1].rpartition("; ")
    if len(sentences) < 2 and has_way_out:
        return reason, way_out.rstrip(".")
    if len(sentences) < 2:
        return text.rstrip("."), "change the network, or cut it before this node with --output-names"
    return " ".join(sentences[:-1]).rstrip("."), sentences[-1].rstrip(".?")
