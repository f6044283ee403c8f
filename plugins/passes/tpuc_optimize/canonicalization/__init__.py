"""The patterns that bring TOP into its simplest form, by subject."""
