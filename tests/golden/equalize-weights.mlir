// RUN: tpuc opt %S/two-layers.mlir --pass equalize-weights -o %t.mlir
// RUN: tpuc npz dump %t_weight.npz w1_1
// RUN: tpuc npz dump %t_weight.npz b1_1
// RUN: tpuc npz dump %t_weight.npz w2_1
// Filters of channel 1 reach 4 before and 1 behind the relu, so it is divided by sqrt(4 / 1) and multiplied back.
// CHECK: [[[[ 1. ]]
// CHECK: [[ 0.5]]]
// CHECK: [[[-1. ]]
// CHECK: [[ 2. ]]]]
// CHECK: [ 0.5 -0.5]
// CHECK: [[[[ 0.25]]
// CHECK: [[-2. ]]]
// CHECK: [[[ 1. ]]
// CHECK: [[ 1. ]]]]
