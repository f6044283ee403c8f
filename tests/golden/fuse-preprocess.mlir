// RUN: tpuc opt %s --chip bm1684x --pass convert-top-to-tpu --pass fuse-preprocess{customization-format=BGR_PACKED}
// Packed bytes in the order blue, green, red: channels come first and change places, then means and scales are applied.
module @net attributes {module.chip = "ALL", module.state = "TOP_F32"} {
  func.func @main(%arg0: tensor<1x3x4x4xf32>) -> tensor<1x3x2x2xf32> {
    %0 = "top.Input"(%arg0) {channel_format = "nchw", do_preprocess = true, keep_aspect_ratio = false, keep_ratio_mode = "letterbox", mean = [10.0, 20.0, 30.0], pad_type = "center", pad_value = 0 : i64, pixel_format = "rgb", resize_dims = [4, 4], scale = [0.5, 0.5, 0.25]} : (tensor<1x3x4x4xf32>) -> tensor<1x3x4x4xf32> loc("x")
    %1 = "top.MaxPool"(%0) {kernel_shape = [2, 2], strides = [2, 2]} : (tensor<1x3x4x4xf32>) -> tensor<1x3x2x2xf32> loc("p")
    return %1 : tensor<1x3x2x2xf32>
  }
}
// CHECK: @main(%arg0: tensor<1x4x4x3xui8> loc("x_raw"))
// CHECK: "top.Input"{{.*}}customization_format = "BGR_PACKED"
// CHECK-NEXT: "tpu.Permute"(%1{{.*}}order = [0, 3, 1, 2]
// CHECK-NEXT: "tpu.Slice"(%2{{.*}}offset = [0, 2, 0, 0], steps = [1, -1, 1, 1]
// CHECK-NEXT: "tpu.Cast"(%3){{.*}} -> tensor<1x3x4x4xf32>
// CHECK: "tpu.Sub"(%4
// CHECK: "tpu.Mul"(%6
// CHECK-NEXT: "tpu.Pool2D"(%8)
