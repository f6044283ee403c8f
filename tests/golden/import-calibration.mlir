// RUN: tpuc opt %S/two-layers.mlir --chip bm1684x --quantize int8 --pass import-calibration{table=%S/two-layers.table}
// Thresholds of the table become ranges: of both signs, and from 0 on where the value is never negative.
// CHECK: module.state = "TOP_CALIBRATED"
// CHECK: "top.Input"
// CHECK-SAME: -> tensor<1x2x2x2x!quant.calibrated<f32<-2.000000e+00:2.000000e+00>>>
// CHECK: "top.Conv"
// CHECK-SAME: -> tensor<1x2x2x2x!quant.calibrated<f32<0.000000e+00:4.000000e+00>>>
// CHECK: "top.Conv"
// CHECK-SAME: -> tensor<1x2x2x2x!quant.calibrated<f32<-8.000000e+00:8.000000e+00>>>
