// RUN: tpuc opt %s
// What is read without a pass is printed in the form that the vendor's tools write.
module @net attributes {module.state = "TOP_F32", module.chip = "ALL"} {
  func.func @main(%x: tensor<1x4xf32>) -> tensor<1x4xf32> {
    %limited = "foreign.Clip"(%x) <{min = 0.0 : f64}> {max = 0.7 : f64} : (tensor<1x4xf32>) -> tensor<1x4xf32> loc("y")
    return %limited : tensor<1x4xf32>
  }
}
// CHECK: #loc = loc(unknown)
// CHECK-NEXT: module @net attributes {module.chip = "ALL", module.state = "TOP_F32"} {
// CHECK: func.func @main(%arg0: tensor<1x4xf32> loc(unknown)) -> tensor<1x4xf32> {
// CHECK-NEXT: %0 = "foreign.Clip"(%arg0) {max = 0.69999999999999996 : f64, min = 0.000000e+00 : f64}
// CHECK-SAME: : (tensor<1x4xf32>) -> tensor<1x4xf32> loc(#loc{{[0-9]+}})
// CHECK-NEXT: return %0
// CHECK-NOT: %limited
// CHECK: #loc{{[0-9]+}} = loc("y")
