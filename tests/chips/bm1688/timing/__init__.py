"""The timing model of the second generation beside the vendor's clock."""
