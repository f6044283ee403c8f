"""What plugin authors test with: conformance classes, golden texts, strategies."""
