// RUN: tpuc opt %S/two-layers.mlir --chip bm1684x --quantize int8 --pass import-calibration{table=%S/two-layers.table} --pass convert-top-to-tpu
// Scales are 2 / 128, 4 / 255 (without a sign) and 8 / 128. Filters scale with their rows' largest value over 127:
// (1 / 127) * (2 / 128) / (4 / 255) * 2**37 = 1077969154 for the first row.
// CHECK: module.state = "TPU_LOWERED"
// CHECK: "top.Input"
// CHECK-NEXT: "tpu.Cast"
// CHECK-SAME: -> tensor<1x2x2x2x!quant.uniform<i8:f32, 1.562500e-02>>
// CHECK: "tpu.Conv2D"{{.*}}do_relu = true{{.*}}multiplier = [1077969154, {{[0-9]+}}]{{.*}}rshift = [37, {{[0-9]+}}]
// CHECK-SAME: -> tensor<1x2x2x2x!quant.uniform<u8:f32, 0.015686274509803921>>
// CHECK: "tpu.Conv2D"{{.*}} -> tensor<1x2x2x2x!quant.uniform<i8:f32, 6.250000e-02>>
// CHECK-NEXT: "tpu.Cast"
// CHECK-NEXT: return
