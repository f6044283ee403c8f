// RUN: tpuc opt %s --chip bm1684x --quantize int8 --pass keep-states-float --pass convert-top-to-tpu
// Squares of a spectrum need twice the bits of its parts: the magnitude is computed in f32.
module @net attributes {module.chip = "ALL", module.state = "TOP_CALIBRATED"} {
  func.func @main(%arg0: tensor<1x2x4x!quant.calibrated<f32<-1.0:1.0>>>, %arg1: tensor<1x2x4x!quant.calibrated<f32<-1.0:1.0>>>) -> tensor<1x2x4x!quant.calibrated<f32<0.0:2.0>>> {
    %0 = "top.Input"(%arg0) : (tensor<1x2x4x!quant.calibrated<f32<-1.0:1.0>>>) -> tensor<1x2x4x!quant.calibrated<f32<-1.0:1.0>>> loc("re")
    %1 = "top.Input"(%arg1) : (tensor<1x2x4x!quant.calibrated<f32<-1.0:1.0>>>) -> tensor<1x2x4x!quant.calibrated<f32<-1.0:1.0>>> loc("im")
    %2 = "top.Pow"(%0) {exponent = 2.0 : f64} : (tensor<1x2x4x!quant.calibrated<f32<-1.0:1.0>>>) -> tensor<1x2x4x!quant.calibrated<f32<0.0:1.0>>> loc("re2")
    %3 = "top.Mul"(%1, %1) : (tensor<1x2x4x!quant.calibrated<f32<-1.0:1.0>>>, tensor<1x2x4x!quant.calibrated<f32<-1.0:1.0>>>) -> tensor<1x2x4x!quant.calibrated<f32<0.0:1.0>>> loc("im2")
    %4 = "top.Add"(%2, %3) : (tensor<1x2x4x!quant.calibrated<f32<0.0:1.0>>>, tensor<1x2x4x!quant.calibrated<f32<0.0:1.0>>>) -> tensor<1x2x4x!quant.calibrated<f32<0.0:2.0>>> loc("power")
    %5 = "top.Sqrt"(%4) : (tensor<1x2x4x!quant.calibrated<f32<0.0:2.0>>>) -> tensor<1x2x4x!quant.calibrated<f32<0.0:2.0>>> loc("magnitude")
    %6 = "top.Relu"(%5) : (tensor<1x2x4x!quant.calibrated<f32<0.0:2.0>>>) -> tensor<1x2x4x!quant.calibrated<f32<0.0:2.0>>> loc("y")
    return %6 : tensor<1x2x4x!quant.calibrated<f32<0.0:2.0>>>
  }
}
// CHECK: "tpu.Active"{{.*}} -> tensor<1x2x4xf32>
// CHECK: "tpu.Mul"{{.*}} -> tensor<1x2x4xf32>
// CHECK: "tpu.Add"{{.*}} -> tensor<1x2x4xf32>
// CHECK: "tpu.Active"{{.*}} -> tensor<1x2x4xf32>
// CHECK: "tpu.Relu"{{.*}} -> tensor<1x2x4x!quant.uniform<u8
