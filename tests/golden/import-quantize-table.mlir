// RUN: tpuc opt %S/two-layers.mlir --chip bm1684x --quantize int8 --pass import-calibration{table=%S/two-layers.table} --pass import-quantize-table{table=%S/import-quantize-table.table} --pass convert-top-to-tpu
// The first convolution is float, as the table says; what it gives is quantized for the second one.
// CHECK: "top.Input"
// CHECK-NOT: "tpu.Cast"
// CHECK: "tpu.Conv2D"{{.*}} -> tensor<1x2x2x2xf32>
// CHECK: "tpu.Cast"{{.*}} -> tensor<1x2x2x2x!quant.uniform<u8:f32, 0.015686274509803921>>
// CHECK: "tpu.Conv2D"{{.*}} -> tensor<1x2x2x2x!quant.uniform<i8:f32, 6.250000e-02>>
