// RUN: tpuc opt %s --pass append-postprocess{post=classes{keep=2}}
// The two best of three classes become rows; the module says what is in it, and what reads them.
module @net attributes {module.chip = "ALL", module.state = "TOP_F32"} {
  func.func @main(%arg0: tensor<1x3xf32>) -> tensor<1x3xf32> {
    %0 = "top.Input"(%arg0) : (tensor<1x3xf32>) -> tensor<1x3xf32> loc("x")
    %1 = "top.Softmax"(%0) {axis = 1 : si32} : (tensor<1x3xf32>) -> tensor<1x3xf32> loc("p")
    return %1 : tensor<1x3xf32>
  }
}
// CHECK: module.outputs_read_by = "class-rows{classes=3}"
// CHECK-SAME: module.postprocess = "classes{keep=2}"
// CHECK: "top.Reshape"({{.*}}postprocess = true
// CHECK: "top.DetectionOutput"
// CHECK-SAME: keep_top_k = 2
// CHECK-SAME: postprocess = true
// CHECK-SAME: -> tensor<1x1x2x7xf32>
