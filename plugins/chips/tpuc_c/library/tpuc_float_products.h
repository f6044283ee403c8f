/* Convolutions and matrix products of floats. */
#ifndef TPUC_FLOAT_PRODUCTS_H
#define TPUC_FLOAT_PRODUCTS_H

#include "tpuc_math.h"

typedef struct {
  int32_t batch, in_h, in_w, in_c, x_n, x_h, x_w, x_c;
  int32_t out_h, out_w, out_c, y_n, y_h, y_w, y_c;
  int32_t kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w;
  int32_t groups, pixels;
  float low, high;
} tpuc_float_conv;

/* What lies under one window, as a row in the order of the filter. */
TPUC_INLINE void tpuc_float_gather(const tpuc_float_conv* c, const float* x, int32_t channels, int32_t pixel,
                                   float* row) {
  const int32_t y0 = pixel / c->out_w * c->stride_h - c->pad_h, x0 = pixel % c->out_w * c->stride_w - c->pad_w;
  for (int32_t ky = 0; ky < c->kernel_h; ++ky) {
    const int32_t iy = y0 + ky * c->dilation_h;
    for (int32_t kx = 0; kx < c->kernel_w; ++kx, row += channels) {
      const int32_t ix = x0 + kx * c->dilation_w;
      const int32_t inside = iy >= 0 && iy < c->in_h && ix >= 0 && ix < c->in_w;
      const float* const from = inside ? x + (ptrdiff_t)iy * c->x_h + (ptrdiff_t)ix * c->x_w : NULL;
      for (int32_t i = 0; i < channels; ++i) row[i] = inside ? from[(ptrdiff_t)i * c->x_c] : 0.0f;
    }
  }
}

TPUC_INLINE ptrdiff_t tpuc_float_place(const tpuc_float_conv* c, int32_t n, int32_t pixel) {
  return (ptrdiff_t)n * c->y_n + (ptrdiff_t)(pixel / c->out_w) * c->y_h + (ptrdiff_t)(pixel % c->out_w) * c->y_w;
}

/* Sums of so many products are added up: fewer roundings lie on one another than in one long sum. */
#define TPUC_SPAN 32

/* Four rows from `first` on with eight filters, which lie as [depth][8], are added to 32 sums. */
TPUC_FUNCTION void tpuc_float_dot(const float* const* x, int32_t first, const float* w, int32_t depth, float* sums) {
  float a[8] = {0}, b[8] = {0}, c[8] = {0}, d[8] = {0};
  for (int32_t k = first; k < first + depth; ++k, w += 8) {
    const float xa = x[0][k], xb = x[1][k], xc = x[2][k], xd = x[3][k];
    for (int32_t j = 0; j < 8; ++j) a[j] += xa * w[j];
    for (int32_t j = 0; j < 8; ++j) b[j] += xb * w[j];
    for (int32_t j = 0; j < 8; ++j) c[j] += xc * w[j];
    for (int32_t j = 0; j < 8; ++j) d[j] += xd * w[j];
  }
  for (int32_t j = 0; j < 8; ++j) sums[j] += a[j];
  for (int32_t j = 0; j < 8; ++j) sums[8 + j] += b[j];
  for (int32_t j = 0; j < 8; ++j) sums[16 + j] += c[j];
  for (int32_t j = 0; j < 8; ++j) sums[24 + j] += d[j];
}

/* Filters lie as [group][filters / 8, rounded up][depth][8]. `panel` has room for `pixels` rows. */
TPUC_FUNCTION void tpuc_conv_float(const tpuc_float_conv* c, const float* x, const float* filters, const float* bias,
                                   float* y, float* panel) {
  const int32_t channels = c->in_c / c->groups, count = c->out_c / c->groups, area = c->out_h * c->out_w;
  const int32_t depth = channels * c->kernel_h * c->kernel_w, padded = (count + 7) & ~7;
  for (int32_t n = 0; n < c->batch; ++n) {
    for (int32_t g = 0; g < c->groups; ++g) {
      const float* const image = x + (ptrdiff_t)n * c->x_n + (ptrdiff_t)(g * channels) * c->x_c;
      for (int32_t first = 0; first < area; first += c->pixels) {
        const int32_t some = area - first < c->pixels ? area - first : c->pixels;
        for (int32_t p = 0; p < some; ++p) {
          tpuc_float_gather(c, image, channels, first + p, panel + (ptrdiff_t)p * depth);
        }
        for (int32_t o = 0; o < count; o += 8) {
          const float* const w = filters + (ptrdiff_t)(g * padded + o) * depth;
          for (int32_t p = 0; p < some; p += 4) {
            const float* rows[4];
            float sums[32] = {0};
            for (int32_t i = 0; i < 4; ++i) rows[i] = panel + (ptrdiff_t)(p + i < some ? p + i : p) * depth;
            for (int32_t k = 0; k < depth; k += TPUC_SPAN) {
              const int32_t length = depth - k < TPUC_SPAN ? depth - k : TPUC_SPAN;
              tpuc_float_dot(rows, k, w + (ptrdiff_t)k * 8, length, sums);
            }
            for (int32_t i = 0; i < 4 && p + i < some; ++i) {
              float* const to = y + tpuc_float_place(c, n, first + p + i);
              for (int32_t j = 0; j < 8 && o + j < count; ++j) {
                const int32_t channel = g * count + o + j;
                to[(ptrdiff_t)channel * c->y_c] = tpuc_within(sums[8 * i + j] + bias[channel], c->low, c->high);
              }
            }
          }
        }
      }
    }
  }
}

/* One filter per channel, as rows [taps][channels]. */
TPUC_FUNCTION void tpuc_depthwise_float(const tpuc_float_conv* c, const float* x, const float* w, const float* bias,
                                        float* y, float* sums) {
  const int32_t area = c->out_h * c->out_w, channels = c->in_c;
  for (int32_t n = 0; n < c->batch; ++n) {
    for (int32_t pixel = 0; pixel < area; ++pixel) {
      const int32_t y0 = pixel / c->out_w * c->stride_h - c->pad_h, x0 = pixel % c->out_w * c->stride_w - c->pad_w;
      const float* tap = w;
      for (int32_t i = 0; i < channels; ++i) sums[i] = 0.0f;
      for (int32_t ky = 0; ky < c->kernel_h; ++ky) {
        const int32_t iy = y0 + ky * c->dilation_h;
        for (int32_t kx = 0; kx < c->kernel_w; ++kx, tap += channels) {
          const int32_t ix = x0 + kx * c->dilation_w;
          if (iy < 0 || iy >= c->in_h || ix < 0 || ix >= c->in_w) continue;
          const float* const from = x + (ptrdiff_t)n * c->x_n + (ptrdiff_t)iy * c->x_h + (ptrdiff_t)ix * c->x_w;
          if (c->x_c == 1) {
            for (int32_t i = 0; i < channels; ++i) sums[i] += from[i] * tap[i];
          } else {
            for (int32_t i = 0; i < channels; ++i) sums[i] += from[(ptrdiff_t)i * c->x_c] * tap[i];
          }
        }
      }
      float* const to = y + tpuc_float_place(c, n, pixel);
      for (int32_t i = 0; i < channels; ++i) {
        to[(ptrdiff_t)i * c->y_c] = tpuc_within(sums[i] + bias[i], c->low, c->high);
      }
    }
  }
}

#endif
