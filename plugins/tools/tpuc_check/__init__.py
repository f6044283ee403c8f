"""Report every op that a chip cannot compute, and reduce failing networks."""
