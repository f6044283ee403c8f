// RUN: tpuc opt %S/two-layers.mlir --chip bm1684x --pass convert-top-to-tpu --pass group-layers --pass pack-weights --pass assign-addresses
// Constants begin where the chip's memory does, at 2**32; activations lie behind their 24576 bytes. The output takes the
// place of the input, which nothing reads any more; what stays in local memory has no address.
// CHECK: module.coeff_addr = 4294967296 : i64, module.coeff_size = 24576 : i64
// CHECK-SAME: module.neuron_addr = 4294991872 : i64, module.neuron_size = 4096 : i64
// CHECK: "top.Input"{{.*}} -> tensor<1x2x2x2xf32, 4294991872 : i64>
// CHECK: "tpu.Conv2D"{{.*}}packed_addr = 4294967296 : i64{{.*}} -> tensor<1x2x2x2xf32> loc
// CHECK: "tpu.Conv2D"{{.*}}packed_addr = 4294979584 : i64{{.*}} -> tensor<1x2x2x2xf32, 4294991872 : i64> loc
