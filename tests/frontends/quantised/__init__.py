"""Networks that a quantiser wrote."""
