"""From TOP to TPU: legalization, lowering, casts at the boundary, fused preprocessing."""
