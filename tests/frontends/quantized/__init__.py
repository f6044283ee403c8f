"""Networks that a quantizer wrote."""
