// RUN: not tpuc opt %S/two-layers.mlir --pass split-error
// What it splits is what `tpuc compare` gives it: a quantized network and samples.
// CHECK: pass 'split-error' needs a quantized module and samples: use `tpuc compare`
