// RUN: tpuc opt %s --chip bm1684x --pass legalize
// A chip without a lowering for sums of products takes three products of a row and a column.
module @net attributes {module.chip = "ALL", module.state = "TOP_F32"} {
  func.func @main(%arg0: tensor<2x3xf32>, %arg1: tensor<2x3xf32>) -> tensor<3xf32> {
    %0 = "top.Input"(%arg0) : (tensor<2x3xf32>) -> tensor<2x3xf32> loc("x")
    %1 = "top.Input"(%arg1) : (tensor<2x3xf32>) -> tensor<2x3xf32> loc("z")
    %2 = "top.Einsum"(%0, %1) {mode = "ij,ij->j"} : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<3xf32> loc("y")
    return %2 : tensor<3xf32>
  }
}
// CHECK: "top.Permute"(%0) {order = [1, 0]}
// CHECK-NEXT: "top.Reshape"(%2) {{.*}}shape = [3, 1, 2]
// CHECK-NEXT: "top.Permute"(%1) {order = [1, 0]}
// CHECK-NEXT: "top.Reshape"(%4) {{.*}}shape = [3, 2, 1]
// CHECK: "top.MatMul"(%3, %5
// CHECK-SAME: -> tensor<3x1x1xf32>
// CHECK-NEXT: "top.Reshape"(%7) {{.*}}shape = [3]
// CHECK-NOT: top.Einsum
// CHECK: loc("y")
