"""Quantisation: integer arithmetic shared by every op, lowering and simulator, and the `quant` dialect."""
