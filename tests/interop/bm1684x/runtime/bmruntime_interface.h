// What the programs of a deployment folder use of the runtime's interface. The vendor's environment has the library alone.
#pragma once

typedef struct bm_context *bm_handle_t;
typedef enum { BM_SUCCESS = 0 } bm_status_t;
typedef struct {
  int num_dims;
  int dims[8];
} bm_shape_t;

extern "C" {
bm_status_t bm_dev_request(bm_handle_t *handle, int device);
void bm_dev_free(bm_handle_t handle);
void *bmrt_create(bm_handle_t handle);
void bmrt_destroy(void *runtime);
bool bmrt_load_bmodel(void *runtime, const char *path);
void bmrt_get_network_names(void *runtime, const char ***names);
bool bmrt_launch_data(void *runtime, const char *network, void *const inputs[], const bm_shape_t input_shapes[],
                      int input_count, void *outputs[], bm_shape_t output_shapes[], int output_count, bool own_memory);
}
