// RUN: tpuc opt %s --pass canonicalize
// Of several shapes the last one counts, two orders are one, and an output keeps its name.
module @net attributes {module.chip = "ALL", module.state = "TOP_F32"} {
  func.func @main(%arg0: tensor<2x3x4x5xf32>) -> (tensor<24x5xf32>, tensor<2x3x4x5xf32>) {
    %0 = "top.Input"(%arg0) : (tensor<2x3x4x5xf32>) -> tensor<2x3x4x5xf32> loc("x")
    %1 = "top.Reshape"(%0) {shape = [6, 20]} : (tensor<2x3x4x5xf32>) -> tensor<6x20xf32> loc("a")
    %2 = "top.Flatten"(%1) {end_dim = -1 : i64, start_dim = 0 : i64} : (tensor<6x20xf32>) -> tensor<120xf32> loc("b")
    %3 = "top.Reshape"(%2) {shape = [24, -1]} : (tensor<120xf32>) -> tensor<24x5xf32> loc("c")
    %4 = "top.Softmax"(%0) {axis = 1 : si32} : (tensor<2x3x4x5xf32>) -> tensor<2x3x4x5xf32> loc("d")
    %5 = "top.Permute"(%4) {order = [0, 2, 3, 1]} : (tensor<2x3x4x5xf32>) -> tensor<2x4x5x3xf32> loc("e")
    %6 = "top.Permute"(%5) {order = [0, 3, 1, 2]} : (tensor<2x4x5x3xf32>) -> tensor<2x3x4x5xf32> loc("f")
    return %3, %6 : tensor<24x5xf32>, tensor<2x3x4x5xf32>
  }
}
// CHECK: %0 = "top.Input"
// CHECK-NEXT: %1 = "top.Reshape"(%0) {{.*}}shape = [24, 5]
// CHECK-SAME: (tensor<2x3x4x5xf32>) -> tensor<24x5xf32>
// CHECK-NEXT: %2 = "top.Softmax"(%0)
// CHECK-NEXT: return %1, %2
// CHECK-NOT: loc("d")
// CHECK: loc("f")
