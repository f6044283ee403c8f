"""Summaries of bundled commands: `python -m tpuc_driver.cli.generate_summaries` writes them."""

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
    "calibrate": "Measure value ranges on sample data.",
    "check": "Tell everything of a network that a chip cannot compute, and what would help.",
    "combine": "Put the networks of several compiled files into one.",
    "compare": "Show where a quantised network loses accuracy, and why.",
    "compile": "Compile a network for a chip, or for several.",
    "deploy": "Turn a TOP module into a compiled file.",
    "disasm": "Show the commands of a compiled file.",
    "doctor": "Show versions, plugins and optional packages, and say what is missing.",
    "eval": "Measure how well networks do on labelled data.",
    "extract": "Write a file for every network of a compiled file, and for every set of its shapes.",
    "matrix": "Show which ops a chip supports, per mode.",
    "new": "Write the package of a plugin, with a test: a chip, command, frontend, kernel,...",
    "npz": "Look into npz files, compare and change them.",
    "opt": "Run passes on a module.",
    "plan": "Plan the memory of networks (.mlir), or of lists of buffers (.json).",
    "plugins": "List installed plugins.",
    "profile": "Show cycles, DDR traffic and memory of a compiled file.",
    "qtable": "Find the layers to keep in float.",
    "reduce": "Take everything from a failing network that its failure does not need.",
    "regress": "Take the networks that a folder describes through their commands.",
    "report": "Write a page for a colleague about a compiled file.",
    "run": "Execute a network on inputs and say what it answers.",
    "transform": "Turn a network into a TOP module (.mlir and .npz).",
    "visual": "Show float and quantised network side by side.",
}

SECTIONS = {
    "Compile": ["check", "combine", "compile", "extract", "reduce"],
    "Step by step": ["calibrate", "deploy", "transform"],
    "Run and measure": ["npz", "profile", "regress", "report", "run"],
    "Accuracy": ["compare", "eval", "qtable", "visual"],
    "Look inside": ["disasm", "opt", "plan"],
    "Installation": ["doctor", "matrix", "new", "plugins"],
}
