// What examples/milk_v_duo/run.cpp uses of the runtime's interface. The vendor's environment has the library alone.
#pragma once
#include <cstddef>
#include <cstdint>

typedef int CVI_RC;
typedef void *CVI_MODEL_HANDLE;
enum { CVI_RC_SUCCESS = 0 };
enum CVI_FMT { CVI_FMT_FP32 = 0, CVI_FMT_BF16 = 3, CVI_FMT_INT8 = 6, CVI_FMT_UINT8 = 7 };

struct CVI_TENSOR {
  char *name;
  std::int32_t dim[6];
  std::size_t dim_size;
  CVI_FMT fmt;
  std::size_t count, mem_size;
  std::uint8_t *sys_mem;
  std::uint64_t paddr;
  int mem_type;
  float qscale;
  int zero_point, pixel_format;
  bool aligned;
  float mean[3], scale[3];
  void *owner;
  char reserved[32];
};

extern "C" {
CVI_RC CVI_NN_RegisterModel(const char *path, CVI_MODEL_HANDLE *model);
CVI_RC CVI_NN_GetInputOutputTensors(CVI_MODEL_HANDLE model, CVI_TENSOR **inputs, std::int32_t *input_count,
                                    CVI_TENSOR **outputs, std::int32_t *output_count);
CVI_RC CVI_NN_Forward(CVI_MODEL_HANDLE model, CVI_TENSOR *inputs, std::int32_t input_count, CVI_TENSOR *outputs,
                      std::int32_t output_count);
CVI_RC CVI_NN_CleanupModel(CVI_MODEL_HANDLE model);
char *CVI_NN_TensorName(CVI_TENSOR *tensor);
void *CVI_NN_TensorPtr(CVI_TENSOR *tensor);
std::size_t CVI_NN_TensorSize(CVI_TENSOR *tensor);
std::size_t CVI_NN_TensorCount(CVI_TENSOR *tensor);
}
