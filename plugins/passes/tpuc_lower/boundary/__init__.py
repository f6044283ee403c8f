"""What a lowered network does with data at its inputs and outputs."""
