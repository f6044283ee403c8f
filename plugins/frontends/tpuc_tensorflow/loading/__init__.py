"""Load TensorFlow files as plain graphs: GraphDef, SavedModel, checkpoints."""
