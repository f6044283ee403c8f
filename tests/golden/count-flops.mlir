// RUN: tpuc opt %s --pass count-flops
// By hand: 64 * 84 * 69 * (2 * 3 * 7 * 7 + 1).
module @net attributes {module.FLOPs = 1 : i64, module.chip = "ALL", module.state = "TOP_F32"} {
  func.func @main(%arg0: tensor<1x3x173x141xf32>, %arg1: tensor<64x3x7x7xf32>, %arg2: tensor<64xf32>) -> tensor<1x64x84x69xf32> {
    %0 = "top.Input"(%arg0) : (tensor<1x3x173x141xf32>) -> tensor<1x3x173x141xf32> loc("x")
    %3 = "top.Conv"(%0, %arg1, %arg2) {kernel_shape = [7, 7], pads = [0, 1, 0, 1], strides = [2, 2]} : (tensor<1x3x173x141xf32>, tensor<64x3x7x7xf32>, tensor<64xf32>) -> tensor<1x64x84x69xf32> loc("c")
    return %3 : tensor<1x64x84x69xf32>
  }
}
// CHECK: module.FLOPs = 109428480 : i64
