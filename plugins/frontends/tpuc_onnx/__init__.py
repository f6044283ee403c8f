"""The ONNX front end: reads a file, folds its constants, and builds TOP through importer tables."""
