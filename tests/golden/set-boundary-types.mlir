// RUN: tpuc opt %S/two-layers.mlir --chip bm1684x --quantize f16 --pass convert-top-to-tpu --pass set-boundary-types{inputs=f16,outputs=bf16}
// The network takes and gives numbers of 16 bits; the cast to f16 is the input itself.
// CHECK: @main(%arg0: tensor<1x2x2x2xf16>
// CHECK-SAME: -> tensor<1x2x2x2xbf16>
// CHECK: "tpu.Conv2D"
