// Runs a .cvimodel once: the bytes of its inputs come from a file, its outputs go to stdout, one value a line.
#include <cstdint>
#include <cstdio>
#include <fstream>

#include <cviruntime.h>

static bool failed(const char *what, CVI_RC code) {
  if (code != CVI_RC_SUCCESS) std::fprintf(stderr, "%s gives %d\n", what, code);
  return code != CVI_RC_SUCCESS;
}

static float as_float(std::uint16_t bf16) {
  union { std::uint32_t bits; float value; } whole = {std::uint32_t(bf16) << 16};
  return whole.value;
}

static void print(CVI_TENSOR &tensor) {
  const void *data = CVI_NN_TensorPtr(&tensor);
  for (std::size_t i = 0; i < CVI_NN_TensorCount(&tensor); i++) {
    switch (tensor.fmt) {
      case CVI_FMT_FP32: std::printf("%.9g\n", static_cast<const float *>(data)[i]); break;
      case CVI_FMT_BF16: std::printf("%.9g\n", as_float(static_cast<const std::uint16_t *>(data)[i])); break;
      case CVI_FMT_INT8: std::printf("%d\n", static_cast<const std::int8_t *>(data)[i]); break;
      case CVI_FMT_UINT8: std::printf("%d\n", static_cast<const std::uint8_t *>(data)[i]); break;
      default: std::printf("values of type %d are not printed\n", tensor.fmt); return;
    }
  }
}

int main(int count, char **arguments) {
  if (count != 3) {
    std::fprintf(stderr, "usage: %s MODEL.cvimodel INPUT.bin\n", arguments[0]);
    return 2;
  }
  CVI_MODEL_HANDLE model = nullptr;
  if (failed("CVI_NN_RegisterModel", CVI_NN_RegisterModel(arguments[1], &model))) return 1;
  CVI_TENSOR *inputs = nullptr, *outputs = nullptr;
  std::int32_t input_count = 0, output_count = 0;
  if (failed("CVI_NN_GetInputOutputTensors",
             CVI_NN_GetInputOutputTensors(model, &inputs, &input_count, &outputs, &output_count))) return 1;
  std::ifstream file(arguments[2], std::ios::binary);
  for (std::int32_t i = 0; i < input_count; i++) {
    const auto size = static_cast<std::streamsize>(CVI_NN_TensorSize(&inputs[i]));
    if (!file.read(static_cast<char *>(CVI_NN_TensorPtr(&inputs[i])), size)) {
      std::fprintf(stderr, "%s ends before input %s, which takes %ld bytes\n", arguments[2],
                   CVI_NN_TensorName(&inputs[i]), static_cast<long>(size));
      return 1;
    }
  }
  if (failed("CVI_NN_Forward", CVI_NN_Forward(model, inputs, input_count, outputs, output_count))) return 1;
  for (std::int32_t i = 0; i < output_count; i++) print(outputs[i]);
  return CVI_NN_CleanupModel(model);
}
