"""From TOP to TPU: legalization, lowering, casts at the border, preprocessing fused into the network."""
