// RUN: tpuc opt %s --pass requantize-symmetric
// Bytes from 0 to 255 with zero point 100 and scale 0.5 span -100 * 0.5 to 155 * 0.5, which inputs are clipped to.
module @net attributes {module.chip = "ALL", module.state = "TOP_F32"} {
  func.func @main(%arg0: tensor<1x2x4x4x!quant.uniform<u8:f32, 0.5:100>>) -> tensor<1x2x2x2x!quant.uniform<u8:f32, 0.5:100>> {
    %0 = "top.Input"(%arg0) : (tensor<1x2x4x4x!quant.uniform<u8:f32, 0.5:100>>) -> tensor<1x2x4x4x!quant.uniform<u8:f32, 0.5:100>> loc("x")
    %1 = "top.MaxPool"(%0) {kernel_shape = [2, 2], strides = [2, 2]} : (tensor<1x2x4x4x!quant.uniform<u8:f32, 0.5:100>>) -> tensor<1x2x2x2x!quant.uniform<u8:f32, 0.5:100>> loc("p")
    return %1 : tensor<1x2x2x2x!quant.uniform<u8:f32, 0.5:100>>
  }
}
// CHECK: "top.Input"{{.*}} -> tensor<1x2x4x4x!quant.calibrated<f32<-5.000000e+01:7.750000e+01>>>
// CHECK-NEXT: "top.Clip"(%0) {max = 7.750000e+01 : f64, min = -5.000000e+01 : f64}
// CHECK-NEXT: "top.MaxPool"{{.*}} -> tensor<1x2x2x2x!quant.calibrated<f32<-5.000000e+01:7.750000e+01>>>
