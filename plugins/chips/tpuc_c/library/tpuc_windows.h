/* Maxima and averages under sliding windows. */
#ifndef TPUC_WINDOWS_H
#define TPUC_WINDOWS_H

#include "tpuc_math.h"

/* `end_h` and `end_w` are where the padding behind the input ends. */
typedef struct {
  int32_t batch, in_h, in_w, channels, x_n, x_h, x_w, x_c;
  int32_t out_h, out_w, y_n, y_h, y_w, y_c;
  int32_t kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w, end_h, end_w;
} tpuc_window;

/* The part of a window that begins at `start` and lies within [from, to). */
TPUC_INLINE void tpuc_part(int32_t start, int32_t extent, int32_t from, int32_t to, int32_t* first, int32_t* last) {
  *first = start < from ? from : start;
  *last = start + extent > to ? to : start + extent;
  if (*last < *first) *last = *first;
}

#define TPUC_MAXIMA(name, type, lowest)                                                                             \
  TPUC_FUNCTION void name(const tpuc_window* c, const type* x, type* y, type low, type high) {                      \
    for (int32_t n = 0; n < c->batch; ++n) {                                                                        \
      for (int32_t pixel = 0; pixel < c->out_h * c->out_w; ++pixel) {                                               \
        const int32_t oy = pixel / c->out_w, ox = pixel % c->out_w;                                                 \
        int32_t top, bottom, left, right;                                                                           \
        tpuc_part(oy * c->stride_h - c->pad_h, c->kernel_h, 0, c->in_h, &top, &bottom);                             \
        tpuc_part(ox * c->stride_w - c->pad_w, c->kernel_w, 0, c->in_w, &left, &right);                             \
        type* const to = y + (ptrdiff_t)n * c->y_n + (ptrdiff_t)oy * c->y_h + (ptrdiff_t)ox * c->y_w;               \
        for (int32_t i = 0; i < c->channels; ++i) to[(ptrdiff_t)i * c->y_c] = lowest;                               \
        for (int32_t iy = top; iy < bottom; ++iy) {                                                                 \
          for (int32_t ix = left; ix < right; ++ix) {                                                               \
            const type* const from =                                                                                \
                x + (ptrdiff_t)n * c->x_n + (ptrdiff_t)iy * c->x_h + (ptrdiff_t)ix * c->x_w;                        \
            for (int32_t i = 0; i < c->channels; ++i) {                                                             \
              const type v = from[(ptrdiff_t)i * c->x_c], known = to[(ptrdiff_t)i * c->y_c];                        \
              to[(ptrdiff_t)i * c->y_c] = v > known ? v : known;                                                    \
            }                                                                                                       \
          }                                                                                                         \
        }                                                                                                           \
        for (int32_t i = 0; i < c->channels; ++i) {                                                                 \
          const type v = to[(ptrdiff_t)i * c->y_c];                                                                 \
          to[(ptrdiff_t)i * c->y_c] = v < low ? low : v > high ? high : v;                                          \
        }                                                                                                           \
      }                                                                                                             \
    }                                                                                                               \
  }

TPUC_MAXIMA(tpuc_maxima_int8, int8_t, INT8_MIN)
TPUC_MAXIMA(tpuc_maxima_uint8, uint8_t, 0)
TPUC_MAXIMA(tpuc_maxima_float, float, -INFINITY)

/* Sums of bytes, requantized; padding holds `fill`. `sums` has room for a row of channels. */
TPUC_FUNCTION void tpuc_averages_int8(const tpuc_window* c, const tpuc_output* out, const uint8_t* x, uint8_t* y,
                                      int32_t fill, int32_t is_unsigned, int32_t* sums) {
  for (int32_t n = 0; n < c->batch; ++n) {
    for (int32_t pixel = 0; pixel < c->out_h * c->out_w; ++pixel) {
      const int32_t oy = pixel / c->out_w, ox = pixel % c->out_w;
      int32_t top, bottom, left, right, upper, lower, first, last;
      tpuc_part(oy * c->stride_h - c->pad_h, c->kernel_h, 0, c->in_h, &top, &bottom);
      tpuc_part(ox * c->stride_w - c->pad_w, c->kernel_w, 0, c->in_w, &left, &right);
      tpuc_part(oy * c->stride_h - c->pad_h, c->kernel_h, -c->pad_h, c->end_h, &upper, &lower);
      tpuc_part(ox * c->stride_w - c->pad_w, c->kernel_w, -c->pad_w, c->end_w, &first, &last);
      const int32_t padding = (lower - upper) * (last - first) - (bottom - top) * (right - left);
      for (int32_t i = 0; i < c->channels; ++i) sums[i] = padding * fill;
      for (int32_t iy = top; iy < bottom; ++iy) {
        for (int32_t ix = left; ix < right; ++ix) {
          const uint8_t* const from =
              x + (ptrdiff_t)n * c->x_n + (ptrdiff_t)iy * c->x_h + (ptrdiff_t)ix * c->x_w;
          if (is_unsigned) {
            for (int32_t i = 0; i < c->channels; ++i) sums[i] += from[(ptrdiff_t)i * c->x_c];
          } else {
            for (int32_t i = 0; i < c->channels; ++i) sums[i] += ((const int8_t*)from)[(ptrdiff_t)i * c->x_c];
          }
        }
      }
      uint8_t* const to = y + (ptrdiff_t)n * c->y_n + (ptrdiff_t)oy * c->y_h + (ptrdiff_t)ox * c->y_w;
      for (int32_t i = 0; i < c->channels; ++i) {
        tpuc_requantize(out, sums + i, 1, 0);
        to[(ptrdiff_t)i * c->y_c] = (uint8_t)sums[i];
      }
    }
  }
}

/* Means of floats; padding holds `fill` and counts only with `counts_padding`. `sums` has room for a row of channels. */
TPUC_FUNCTION void tpuc_averages_float(const tpuc_window* c, const float* x, float* y, float fill,
                                       int32_t counts_padding, float low, float high, float* sums) {
  for (int32_t n = 0; n < c->batch; ++n) {
    for (int32_t pixel = 0; pixel < c->out_h * c->out_w; ++pixel) {
      const int32_t oy = pixel / c->out_w, ox = pixel % c->out_w;
      int32_t top, bottom, left, right, upper, lower, first, last;
      tpuc_part(oy * c->stride_h - c->pad_h, c->kernel_h, 0, c->in_h, &top, &bottom);
      tpuc_part(ox * c->stride_w - c->pad_w, c->kernel_w, 0, c->in_w, &left, &right);
      tpuc_part(oy * c->stride_h - c->pad_h, c->kernel_h, -c->pad_h, c->end_h, &upper, &lower);
      tpuc_part(ox * c->stride_w - c->pad_w, c->kernel_w, -c->pad_w, c->end_w, &first, &last);
      const int32_t inside = (bottom - top) * (right - left), all = (lower - upper) * (last - first);
      const float count = (float)(counts_padding ? all : inside);
      for (int32_t i = 0; i < c->channels; ++i) sums[i] = (float)(all - inside) * fill;
      for (int32_t iy = top; iy < bottom; ++iy) {
        for (int32_t ix = left; ix < right; ++ix) {
          const float* const from = x + (ptrdiff_t)n * c->x_n + (ptrdiff_t)iy * c->x_h + (ptrdiff_t)ix * c->x_w;
          for (int32_t i = 0; i < c->channels; ++i) sums[i] += from[(ptrdiff_t)i * c->x_c];
        }
      }
      float* const to = y + (ptrdiff_t)n * c->y_n + (ptrdiff_t)oy * c->y_h + (ptrdiff_t)ox * c->y_w;
      for (int32_t i = 0; i < c->channels; ++i) {
        const float v = sums[i] / count;
        to[(ptrdiff_t)i * c->y_c] = v < low ? low : v > high ? high : v;
      }
    }
  }
}

#endif
