// RUN: tpuc opt %S/two-layers.mlir --chip bm1684x --quantize int8 --pass import-calibration{table=%S/two-layers.table} --pass keep-tail-float --pass convert-top-to-tpu
// The product before the output gives its sums as floats, so that its result is not rounded to bytes.
// CHECK: "tpu.Conv2D"{{.*}} -> tensor<1x2x2x2x!quant.uniform<u8:f32, 0.015686274509803921>>
// CHECK: "tpu.Conv2D"{{.*}}multiplier = []{{.*}} -> tensor<1x2x2x2xi32>
// CHECK-NEXT: "tpu.Cast"{{.*}}with_scale = false
// CHECK: "tpu.Mul"
// CHECK-NEXT: return
