// RUN: not tpuc opt %S/two-layers.mlir --pass check-decisions
// What it checks is what calibration or compilation give it: samples, and a table or a quantized network.
// CHECK: pass 'check-decisions' needs samples: use `tpuc calibrate` or `tpuc compile --dataset`
