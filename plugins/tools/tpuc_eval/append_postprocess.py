"""The pass that appends post-processing to a network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tpuc.api import Module, Pass, PassContext, UsageError

if TYPE_CHECKING:
    from tpuc_eval.protocols import Postprocess
    from tpuc_eval.tail import Tail

GROUP = "tpuc.postprocess"
ANY, CLASSES = "auto", "classes"


@dataclass(frozen=True)
class AppendPostprocess(Pass):
    """Append post-processing as TOP ops to the outputs: decode and select boxes, or select the most likely classes.
    `post` is a post-processing with options; `auto`, or a prefix such as `yolo`, means the only one that fits the
    outputs. Without it, the session's setting applies, which may be none.

    The rows then become the only output, and the module records the post-processing.
    """

    name = "append-postprocess"
    post: str = ""

    def run(self, module: Module, context: PassContext) -> bool:
        """See Pass; raises UsageError if the post-processing does not fit the network or cannot be appended."""
        from tpuc.api import POSTPROCESS
        from tpuc.api.boundary import FusedPostprocess, fused_postprocess, state_fused_postprocess

        text = self.post or context.find(POSTPROCESS, "")
        if not text:
            return False
        from tpuc_eval.tail import Tail, text_of

        known = fused_postprocess(module)
        if known is not None:
            raise UsageError(f"{module.name}: '{known.made_by}' is already in the network; leave out --post {text}.")
        tail = Tail(module)
        chosen = _chosen(context, text, tail).recognized(tail)
        reader = chosen.append(tail)
        state_fused_postprocess(module, FusedPostprocess(text_of(chosen), text_of(reader)))
        return True


def _chosen(context: PassContext, text: str, tail: Tail) -> Postprocess:
    """Return the named post-processing, or the only one that fits."""
    from tpuc_eval.options import configured

    name, brace, options = text.strip().partition("{")
    known = sorted(context.registry.names(GROUP))
    typed = name.strip().lower().replace("_", "-")
    if typed in known:
        return configured(context.registry, GROUP, text)
    candidates = [name for name, kind in context.registry.usable(GROUP) if kind.finds_objects or name == CLASSES]
    candidates = candidates if typed == ANY else [one for one in candidates if typed and one.startswith(typed)]
    if not candidates:
        return configured(context.registry, GROUP, text)  # says which there are
    made = [configured(context.registry, GROUP, f"{one}{brace}{options}") for one in candidates]
    found = [one for one in made if one.ends(tail)]
    if len(found) == 1:
        return found[0]
    listed = " and ".join(one.name for one in found) if found else f"none of {', '.join(candidates)}"
    verb = "fit" if len(found) > 1 else "fits"
    raise UsageError(f"--post {text}: {listed} {verb} the outputs ({tail.listed}); choose the post-processing.")
