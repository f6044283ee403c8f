// RUN: tpuc opt %S/two-layers.mlir --chip bm1684x --quantize int8 --pass import-calibration{table=%S/two-layers.table} --pass convert-top-to-tpu --pass strip-casts{quant-input,quant-output}
// The network takes and gives integers.
// CHECK: @main(%arg0: tensor<1x2x2x2x!quant.uniform<i8:f32, 1.562500e-02>>
// CHECK-SAME: -> tensor<1x2x2x2x!quant.uniform<i8:f32, 6.250000e-02>>
// CHECK-NOT: tpu.Cast
