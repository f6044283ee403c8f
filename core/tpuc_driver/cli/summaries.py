"""Summaries of bundled commands: `python docs/command_summaries.py` writes them."""

from __future__ import annotations

BUILT_IN = {
    "calibrate": "tpuc_driver.cli.commands.calibrate",
    "combine": "tpuc_driver.cli.commands.combine",
    "compile": "tpuc_driver.cli.commands.compile",
    "deploy": "tpuc_driver.cli.commands.deploy",
    "disasm": "tpuc_driver.cli.commands.disasm",
    "doctor": "tpuc_driver.cli.commands.doctor",
    "extract": "tpuc_driver.cli.commands.extract",
    "matrix": "tpuc_driver.cli.commands.matrix",
    "opt": "tpuc_driver.cli.commands.opt",
    "plugins": "tpuc_driver.cli.commands.plugins",
    "run": "tpuc_driver.cli.commands.run",
    "transform": "tpuc_driver.cli.commands.transform",
}

SUMMARIES = {
    "calibrate": "Measure value ranges on sample data, and write a calibration table.",
    "check": "List every op and limit that keeps a network from compiling, and suggest a fix for each.",
    "combine": "Merge the networks of several compiled files into one.",
    "compare": "Show where a quantized network loses accuracy, and why.",
    "compile": "Compile a network for one or several chips.",
    "deploy": "Compile a TOP module to a file.",
    "disasm": "Print the commands of a compiled file.",
    "doctor": "Check the installation: versions, plugins, and optional packages.",
    "eval": "Measure the accuracy of networks on labeled data.",
    "extract": "Split a compiled file into one file per network and set of shapes.",
    "generate": "Write text with a compiled language model, on the simulator of its chip.",
    "matrix": "Show which ops a chip supports in which mode.",
    "new": "Create a plugin package with a test.",
    "npz": "Inspect, compare, and change npz files.",
    "opt": "Run passes on a module.",
    "plan": "Plan the memory of networks (.mlir) or buffer lists (.json).",
    "plugins": "List installed plugins.",
    "profile": "Show cycles, DDR traffic, and memory of a compiled file.",
    "qtable": "Find the layers to keep in floats.",
    "reduce": "Reduce a failing network to a minimal reproducer.",
    "regress": "Run the listed commands for every network of a folder.",
    "report": "Write a page about a compiled file to share.",
    "run": "Run a network on inputs and explain its outputs.",
    "transform": "Convert a network to a TOP module (.mlir and .npz).",
    "visual": "Show the float and the quantized network side by side.",
}

SECTIONS = {
    "Compile": ["check", "combine", "compile", "extract", "reduce"],
    "Step by step": ["calibrate", "deploy", "transform"],
    "Run and measure": ["generate", "npz", "profile", "regress", "report", "run"],
    "Accuracy": ["compare", "eval", "qtable", "visual"],
    "Look inside": ["disasm", "opt", "plan"],
    "Installation": ["doctor", "matrix", "new", "plugins"],
}
