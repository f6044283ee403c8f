// RUN: tpuc opt %s --pass propagate-calibration
// A pool takes the range of its result, and a reshape gives that of its operand: neither rounds anything.
module @net attributes {module.chip = "ALL", module.state = "TOP_CALIBRATED"} {
  func.func @main(%arg0: tensor<1x2x4x4xf32>) -> tensor<8x!quant.calibrated<f32<-9.0:9.0>>> {
    %0 = "top.Input"(%arg0) : (tensor<1x2x4x4xf32>) -> tensor<1x2x4x4x!quant.calibrated<f32<-2.0:2.0>>> loc("x")
    %1 = "top.MaxPool"(%0) {kernel_shape = [2, 2], strides = [2, 2]} : (tensor<1x2x4x4x!quant.calibrated<f32<-2.0:2.0>>>) -> tensor<1x2x2x2x!quant.calibrated<f32<-1.5:1.5>>> loc("p")
    %2 = "top.Reshape"(%1) {shape = [8]} : (tensor<1x2x2x2x!quant.calibrated<f32<-1.5:1.5>>>) -> tensor<8x!quant.calibrated<f32<-9.0:9.0>>> loc("r")
    return %2 : tensor<8x!quant.calibrated<f32<-9.0:9.0>>>
  }
}
// CHECK: "top.Input"{{.*}} -> tensor<1x2x4x4x!quant.calibrated<f32<-1.500000e+00:1.500000e+00>>>
// CHECK: "top.MaxPool"{{.*}} -> tensor<1x2x2x2x!quant.calibrated<f32<-1.500000e+00:1.500000e+00>>>
// CHECK: "top.Reshape"{{.*}} -> tensor<8x!quant.calibrated<f32<-1.500000e+00:1.500000e+00>>>
