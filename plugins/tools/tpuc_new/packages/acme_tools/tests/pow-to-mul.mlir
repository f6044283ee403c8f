// RUN: tpuc opt %s --pass pow-to-mul
// A square becomes a product of the same name; other exponents stay.
module @net attributes {module.chip = "ALL", module.state = "TOP_F32"} {
  func.func @main(%arg0: tensor<1x4xf32>) -> tensor<1x4xf32> {
    %0 = "top.Input"(%arg0) : (tensor<1x4xf32>) -> tensor<1x4xf32> loc("x")
    %1 = "top.Pow"(%0) {exponent = 2.0 : f64} : (tensor<1x4xf32>) -> tensor<1x4xf32> loc("square")
    %2 = "top.Pow"(%1) {exponent = 0.5 : f64} : (tensor<1x4xf32>) -> tensor<1x4xf32> loc("root")
    return %2 : tensor<1x4xf32>
  }
}
// CHECK: "top.Mul"(%0, %0)
// CHECK-NEXT: "top.Pow"(%1) {exponent = 5.000000e-01 : f64}
// CHECK: loc("square")
