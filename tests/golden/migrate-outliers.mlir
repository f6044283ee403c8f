// RUN: tpuc opt %S/two-layers.mlir --pass migrate-outliers{dataset=%S/two-layers.samples.npz} -o %t.mlir
// RUN: tpuc npz dump %t_weight.npz b1_1
// RUN: tpuc npz dump %t_weight.npz w2_1
// On the samples channels reach 2.5 and 5, and the filters behind them 1 each. The factors differ by sqrt(2), and their
// geometric mean is 1: 2**-0.25 = 0.841 and 2**0.25 = 1.189.
// CHECK: [ 0.5946{{[0-9]*}} -0.8408{{[0-9]*}} ]
// CHECK: [[[[ 0.2102{{[0-9]*}} ]]
// CHECK: [[-1.1892{{[0-9]*}} ]]]
// CHECK: [[[ 0.8408{{[0-9]*}} ]]
// CHECK: [[ 0.5946{{[0-9]*}}]]]]
