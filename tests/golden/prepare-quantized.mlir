// RUN: tpuc opt %s --chip bm1684x --quantize int8 --pass prepare-quantized
// On a chip with zero points bytes count from -128 on: 100 becomes -28. Inputs are floats that are quantized first.
module @net attributes {module.chip = "ALL", module.state = "TOP_F32"} {
  func.func @main(%arg0: tensor<1x2x4x4x!quant.uniform<u8:f32, 0.5:100>>) -> tensor<1x2x2x2x!quant.uniform<u8:f32, 0.5:100>> {
    %0 = "top.Input"(%arg0) : (tensor<1x2x4x4x!quant.uniform<u8:f32, 0.5:100>>) -> tensor<1x2x4x4x!quant.uniform<u8:f32, 0.5:100>> loc("x")
    %1 = "top.MaxPool"(%0) {kernel_shape = [2, 2], strides = [2, 2]} : (tensor<1x2x4x4x!quant.uniform<u8:f32, 0.5:100>>) -> tensor<1x2x2x2x!quant.uniform<u8:f32, 0.5:100>> loc("p")
    return %1 : tensor<1x2x2x2x!quant.uniform<u8:f32, 0.5:100>>
  }
}
// CHECK: "top.Input"{{.*}} -> tensor<1x2x4x4xf32>
// CHECK-NEXT: "quant.qcast"(%0) : (tensor<1x2x4x4xf32>) -> tensor<1x2x4x4x!quant.uniform<i8:f32, 5.000000e-01:-28>>
// CHECK-NEXT: "top.MaxPool"(%1){{.*}} -> tensor<1x2x2x2x!quant.uniform<i8:f32, 5.000000e-01:-28>>
