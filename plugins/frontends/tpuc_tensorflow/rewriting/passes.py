"""The rewrites as passes for `tpuc opt`."""

from __future__ import annotations

from dataclasses import dataclass

from tpuc.api import Module, Pass, PassContext

from tpuc_tensorflow.rewriting.executing import to_executor
from tpuc_tensorflow.rewriting.functional import to_functional
from tpuc_tensorflow.rewriting.islands import coarsen, fold, graphs_of, prune


@dataclass(frozen=True)
class Functional(Pass):
    """Replace executor graphs by operations in program order with functional control flow."""

    name = "tf-to-functional"

    def run(self, module: Module, context: PassContext) -> bool:
        return to_functional(module)


@dataclass(frozen=True)
class Executor(Pass):
    """Put the body of every function, with its control flow, into an executor graph."""

    name = "tf-to-executor"

    def run(self, module: Module, context: PassContext) -> bool:
        return to_executor(module)


@dataclass(frozen=True)
class Prune(Pass):
    """Remove what no fetch needs, by data or by control."""

    name = "tf-prune"

    def run(self, module: Module, context: PassContext) -> bool:
        return sum(map(prune, graphs_of(module))) > 0


@dataclass(frozen=True)
class CoarsenIslands(Pass):
    """Merge islands that are dead together."""

    name = "tf-coarsen-islands"

    def run(self, module: Module, context: PassContext) -> bool:
        return sum(map(coarsen, graphs_of(module))) > 0


@dataclass(frozen=True)
class FoldIslands(Pass):
    """Fold constants within islands, which stay dead where they were."""

    name = "tf-fold-islands"

    def run(self, module: Module, context: PassContext) -> bool:
        return sum(fold(graph, module) for graph in graphs_of(module)) > 0
