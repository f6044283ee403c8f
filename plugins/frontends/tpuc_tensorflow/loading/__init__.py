"""Files of TensorFlow as plain graphs: GraphDef, SavedModel, checkpoints."""
