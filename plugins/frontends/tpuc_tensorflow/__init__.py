"""TensorFlow graphs: the dialects tf and tf_executor, their evaluation, and a front end for GraphDef and SavedModel."""
