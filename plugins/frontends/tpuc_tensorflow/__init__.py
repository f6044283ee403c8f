"""TensorFlow graphs: the dialects tf and tf_executor, what they mean, and a front end for GraphDef and SavedModel."""
