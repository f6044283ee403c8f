// RUN: tpuc opt %s --chip cv183x --quantize int8 --pass unroll-recurrences{table=%S/unroll-recurrences.table}
// The table has ranges of values inside, and the chip has no int8 lowering of the layer: its two steps take its place.
module @net attributes {module.chip = "ALL", module.state = "TOP_F32", module.weight_file = "unroll-recurrences.npz"} {
  func.func @main(%arg0: tensor<2x1x1xf32>) -> tensor<2x1x1x1xf32> {
    %0 = "top.None"() : () -> none loc("none")
    %1 = "top.Input"(%arg0) : (tensor<2x1x1xf32>) -> tensor<2x1x1xf32> loc("x")
    %2 = "top.Weight"() : () -> tensor<1x1x1xf32> loc("w")
    %3 = "top.Weight"() : () -> tensor<1x1x1xf32> loc("r")
    %4:2 = "top.RNN"(%1, %2, %3, %0, %0) {activation = "Tanh", batch_first = false, bidirectional = false, hidden_size = 1 : i64} : (tensor<2x1x1xf32>, tensor<1x1x1xf32>, tensor<1x1x1xf32>, none, none) -> (tensor<2x1x1x1xf32>, tensor<1x1x1xf32>) loc(fused["y", "h"])
    return %4#0 : tensor<2x1x1x1xf32>
  }
}
// CHECK-NOT: top.RNN
// CHECK: "top.MatMul"
// CHECK: "top.Tanh"
// CHECK: "top.MatMul"
// CHECK-NEXT: "top.Add"
// CHECK-NEXT: "top.Tanh"
// CHECK: "top.Concat"
// CHECK-NOT: top.RNN
