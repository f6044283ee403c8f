"""Language models of Hugging Face: compile them to the networks of one file, and generate text."""
