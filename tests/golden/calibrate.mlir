// RUN: tpuc opt %S/two-layers.mlir --pass calibrate{dataset=%S/two-layers.samples.npz,method=max,tune-num=0,bias-num=0} --pass import-calibration
// The samples reach -2, the first convolution 4 * 1.5 - 1 = 5 and the second one 1.25 + 0.5 * 5 + 1 = 4.75.
// CHECK: "top.Input"
// CHECK-SAME: -> tensor<1x2x2x2x!quant.calibrated<f32<-2.000000e+00:2.000000e+00>>>
// CHECK: "top.Conv"
// CHECK-SAME: -> tensor<1x2x2x2x!quant.calibrated<f32<0.000000e+00:5.000000e+00>>>
// CHECK: "top.Conv"
// CHECK-SAME: -> tensor<1x2x2x2x!quant.calibrated<f32<-4.750000e+00:4.750000e+00>>>
