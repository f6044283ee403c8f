"""The dialects `tf`, which accepts any op name, and `tf_executor`, which has a fixed set of ops."""

from __future__ import annotations

from tpuc.api import Dialect

_OPS = "tpuc_tensorflow.dialects.executor"

TF = Dialect("tf", others="tpuc_tensorflow.dialects.tf:definition")

TF_EXECUTOR = Dialect(
    "tf_executor",
    {
        "ControlTrigger": f"{_OPS}:ControlTrigger",
        "Enter": f"{_OPS}:Enter",
        "Exit": f"{_OPS}:Exit",
        "LoopCond": f"{_OPS}:LoopCond",
        "Merge": f"{_OPS}:Merge",
        "NextIteration.Sink": f"{_OPS}:Sink",
        "NextIteration.Source": f"{_OPS}:Source",
        "Recv": f"{_OPS}:Recv",
        "Send": f"{_OPS}:Send",
        "Switch": f"{_OPS}:Switch",
        "SwitchN": f"{_OPS}:SwitchN",
        "fetch": f"{_OPS}:Fetch",
        "graph": f"{_OPS}:Graph",
        "island": f"{_OPS}:Island",
        "yield": f"{_OPS}:Yield",
    },
)
