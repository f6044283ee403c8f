/* Transposed convolutions, and products of two computed matrices. */
#ifndef TPUC_TRANSPOSED_H
#define TPUC_TRANSPOSED_H

#include "tpuc_math.h"

typedef struct {
  int32_t batch, in_h, in_w, in_c, x_n, x_h, x_w, x_c;
  int32_t out_h, out_w, out_c, y_n, y_h, y_w, y_c;
  int32_t kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w;
  int32_t groups;
} tpuc_transposed;

/* The row or column of the input that a tap brings to a place of the output; -1 where there is none. */
TPUC_INLINE int32_t tpuc_origin(int32_t at, int32_t tap, int32_t stride, int32_t pad, int32_t dilation, int32_t count) {
  const int32_t place = at + pad - tap * dilation;
  return place < 0 || place % stride || place / stride >= count ? -1 : place / stride;
}

/* Filters lie as [out_c][kernel_h][kernel_w][in_c / groups]. */
#define TPUC_TRANSPOSED(NAME, VALUE, FILTER, SUM)                                                                      \
  TPUC_INLINE SUM NAME(const tpuc_transposed* t, const VALUE* image, const FILTER* filters, int32_t o, int32_t oy,     \
                       int32_t ox) {                                                                                   \
    const int32_t channels = t->in_c / t->groups, first = o / (t->out_c / t->groups) * channels;                       \
    SUM total = 0;                                                                                                     \
    for (int32_t ky = 0; ky < t->kernel_h; ++ky) {                                                                     \
      const int32_t iy = tpuc_origin(oy, ky, t->stride_h, t->pad_h, t->dilation_h, t->in_h);                           \
      for (int32_t kx = 0; iy >= 0 && kx < t->kernel_w; ++kx) {                                                        \
        const int32_t ix = tpuc_origin(ox, kx, t->stride_w, t->pad_w, t->dilation_w, t->in_w);                         \
        if (ix < 0) continue;                                                                                          \
        const VALUE* const x = image + (ptrdiff_t)iy * t->x_h + (ptrdiff_t)ix * t->x_w + (ptrdiff_t)first * t->x_c;    \
        const FILTER* const w = filters + (((ptrdiff_t)o * t->kernel_h + ky) * t->kernel_w + kx) * channels;           \
        SUM part = 0;                                                                                                  \
        for (int32_t c = 0; c < channels; ++c) part += (SUM)x[(ptrdiff_t)c * t->x_c] * w[c];                           \
        total += part;                                                                                                 \
      }                                                                                                                \
    }                                                                                                                  \
    return total;                                                                                                      \
  }

TPUC_TRANSPOSED(tpuc_transposed_float, float, float, float)
TPUC_TRANSPOSED(tpuc_transposed_int8, int8_t, int16_t, int32_t)
TPUC_TRANSPOSED(tpuc_transposed_uint8, uint8_t, int16_t, int32_t)

#endif
