"""Region proposals of a region proposal network."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpuc_cv18.functions.common import TopFunction

if TYPE_CHECKING:
    from tpuc_ops import top


class ProposalFunction(TopFunction["top.Proposal"]):
    """`proposal`: as its op defines it."""

    function = "proposal"

    def definition(self) -> type[top.Proposal]:
        from tpuc_ops import top

        return top.Proposal


FUNCTION = ProposalFunction()
