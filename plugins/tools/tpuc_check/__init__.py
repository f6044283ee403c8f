"""What a chip cannot compute of a network, all at once; and the smallest network that still fails."""
