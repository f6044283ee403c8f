/* Convolutions and matrix products of 8-bit integers with exact 32-bit sums. */
#ifndef TPUC_PRODUCTS_H
#define TPUC_PRODUCTS_H

#include "tpuc_math.h"

/* Extents, distances in elements between neighbours, the window; `depth` is a filter's length in memory, `pixels` how
   many windows are gathered at once, `fill` stands in the padding, `filter_offset` is added to what filters store. */
typedef struct {
  int32_t batch, in_h, in_w, in_c, x_n, x_h, x_w, x_c;
  int32_t out_h, out_w, out_c, y_n, y_h, y_w, y_c;
  int32_t kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w;
  int32_t groups, depth, pixels, fill, x_unsigned, filter_offset, y_bytes;
} tpuc_conv;

/* What lies under one window, as a row in the order of the filter. */
TPUC_INLINE void tpuc_gather(const tpuc_conv* c, const uint8_t* x, int32_t channels, int32_t pixel, int16_t* row) {
  const int32_t y0 = pixel / c->out_w * c->stride_h - c->pad_h, x0 = pixel % c->out_w * c->stride_w - c->pad_w;
  for (int32_t ky = 0; ky < c->kernel_h; ++ky) {
    const int32_t iy = y0 + ky * c->dilation_h;
    for (int32_t kx = 0; kx < c->kernel_w; ++kx, row += channels) {
      const int32_t ix = x0 + kx * c->dilation_w;
      if (iy < 0 || iy >= c->in_h || ix < 0 || ix >= c->in_w) {
        for (int32_t i = 0; i < channels; ++i) row[i] = (int16_t)c->fill;
      } else {
        tpuc_widen(x + (ptrdiff_t)iy * c->x_h + (ptrdiff_t)ix * c->x_w, c->x_c, channels, c->x_unsigned, row);
      }
    }
  }
}

/* Two rows with four filters: eight sums are added to. `depth` is a multiple of 8. */
TPUC_FUNCTION void tpuc_dot(const int16_t* x0, const int16_t* x1, const int16_t* w, int32_t depth, int32_t* sums0,
                            int32_t* sums1) {
  const int16_t *w0 = w, *w1 = w + depth, *w2 = w + 2 * depth, *w3 = w + 3 * depth;
  int32_t a0 = 0, a1 = 0, a2 = 0, a3 = 0, b0 = 0, b1 = 0, b2 = 0, b3 = 0;
  for (int32_t k = 0; k < (depth & ~7); ++k) {
    a0 += x0[k] * w0[k];
    a1 += x0[k] * w1[k];
    a2 += x0[k] * w2[k];
    a3 += x0[k] * w3[k];
    b0 += x1[k] * w0[k];
    b1 += x1[k] * w1[k];
    b2 += x1[k] * w2[k];
    b3 += x1[k] * w3[k];
  }
  sums0[0] += a0, sums0[1] += a1, sums0[2] += a2, sums0[3] += a3;
  sums1[0] += b0, sums1[1] += b1, sums1[2] += b2, sums1[3] += b3;
}

TPUC_INLINE void tpuc_store(const tpuc_conv* c, void* y, ptrdiff_t at, const int32_t* values, int32_t count) {
  if (c->y_bytes == 1 && c->y_c == 1) {
    uint8_t* const bytes = (uint8_t*)y + at;
    for (int32_t i = 0; i < count; ++i) bytes[i] = (uint8_t)values[i];
  } else if (c->y_bytes == 1) {
    uint8_t* const bytes = (uint8_t*)y + at;
    for (int32_t i = 0; i < count; ++i) bytes[(ptrdiff_t)i * c->y_c] = (uint8_t)values[i];
  } else {
    int32_t* const words = (int32_t*)y + at;
    for (int32_t i = 0; i < count; ++i) words[(ptrdiff_t)i * c->y_c] = values[i];
  }
}

TPUC_INLINE ptrdiff_t tpuc_place(const tpuc_conv* c, int32_t n, int32_t pixel) {
  return (ptrdiff_t)n * c->y_n + (ptrdiff_t)(pixel / c->out_w) * c->y_h + (ptrdiff_t)(pixel % c->out_w) * c->y_w;
}

#define TPUC_PIXELS 16
#define TPUC_DEPTH 128
#define TPUC_FILTERS 32

/* Products of some gathered windows with `length` elements of four filters, which are widened into `rows` first, are
   added to the windows' sums. */
TPUC_INLINE void tpuc_add_products(const tpuc_conv* c, const int16_t* panel, const int8_t* w, int32_t pixels,
                                   int32_t length, int16_t* rows, int32_t* sums) {
  const int32_t depth = c->depth, offset = c->filter_offset;
  for (int32_t r = 0; r < 4; ++r) {
    const int8_t* const from = w + (ptrdiff_t)r * depth;
    int16_t* const to = rows + r * length;
    for (int32_t i = 0; i < length; ++i) to[i] = (int16_t)(from[i] + offset);
  }
  int32_t beyond[4] = {0};
  for (int32_t p = 0; p < pixels; p += 2, sums += 2 * TPUC_FILTERS, panel += 2 * (ptrdiff_t)depth) {
    const int32_t both = p + 1 < pixels;
    tpuc_dot(panel, both ? panel + depth : panel, rows, length, sums, both ? sums + TPUC_FILTERS : beyond);
  }
}

/* Filters lie as [group][filters rounded up to 4][depth]. `panel` has room for `pixels` rows, `rows` for parts of four
   filters. What stands behind a filter meets zeros, and sums of filters that are not there are not stored. */
TPUC_FUNCTION void tpuc_conv_int8(const tpuc_conv* c, const tpuc_output* out, const uint8_t* x, const int8_t* filters,
                                  void* y, int16_t* panel, int16_t* rows) {
  const int32_t channels = c->in_c / c->groups, count = c->out_c / c->groups, area = c->out_h * c->out_w;
  const int32_t depth = c->depth, padded = (count + 3) & ~3;
  memset(panel, 0, (size_t)c->pixels * (size_t)depth * sizeof *panel);
  for (int32_t n = 0; n < c->batch; ++n) {
    for (int32_t g = 0; g < c->groups; ++g) {
      const uint8_t* const image = x + (ptrdiff_t)n * c->x_n + (ptrdiff_t)(g * channels) * c->x_c;
      for (int32_t first = 0; first < area; first += c->pixels) {
        const int32_t some = area - first < c->pixels ? area - first : c->pixels;
        for (int32_t p = 0; p < some; ++p) {
          tpuc_gather(c, image, channels, first + p, panel + (ptrdiff_t)p * depth);
        }
        for (int32_t o = 0; o < count; o += TPUC_FILTERS) {
          const int32_t here = count - o < TPUC_FILTERS ? count - o : TPUC_FILTERS, channel = g * count + o;
          int32_t sums[TPUC_PIXELS * TPUC_FILTERS] = {0};
          for (int32_t r = 0; r < here; r += 4) {
            const int8_t* const w = filters + (ptrdiff_t)(g * padded + o + r) * depth;
            for (int32_t k = 0; k < depth; k += TPUC_DEPTH) {
              const int32_t length = depth - k < TPUC_DEPTH ? depth - k : TPUC_DEPTH;
              tpuc_add_products(c, panel + k, w + k, some, length, rows, sums + r);
            }
          }
          for (int32_t p = 0; p < some; ++p) {
            int32_t* const values = sums + p * TPUC_FILTERS;
            tpuc_requantise(out, values, here, channel);
            tpuc_store(c, y, tpuc_place(c, n, first + p) + (ptrdiff_t)channel * c->y_c, values, here);
          }
        }
      }
    }
  }
}

#define TPUC_CHANNELS 32

/* Three taps of some channels; a tap is a row of bytes. */
TPUC_INLINE void tpuc_taps(int32_t* sums, const uint8_t* const* taps, const int16_t* w, int32_t stride, int32_t count,
                           int32_t is_unsigned) {
  const int16_t *w0 = w, *w1 = w + stride, *w2 = w + 2 * (ptrdiff_t)stride;
  if (is_unsigned) {
    const uint8_t *a = taps[0], *b = taps[1], *d = taps[2];
    for (int32_t i = 0; i < count; ++i) {
      sums[i] += (int16_t)a[i] * w0[i] + (int16_t)b[i] * w1[i] + (int16_t)d[i] * w2[i];
    }
  } else {
    const int8_t *a = (const int8_t*)taps[0], *b = (const int8_t*)taps[1], *d = (const int8_t*)taps[2];
    for (int32_t i = 0; i < count; ++i) {
      sums[i] += (int16_t)a[i] * w0[i] + (int16_t)b[i] * w1[i] + (int16_t)d[i] * w2[i];
    }
  }
}

/* One filter per channel, as 16-bit rows [taps rounded up to 3][channels]; channels are neighbours in the input.
   `border` has room for a row of channels, `taps` for all taps of a window. */
TPUC_FUNCTION void tpuc_depthwise_int8(const tpuc_conv* c, const tpuc_output* out, const uint8_t* x, const int16_t* w,
                                       void* y, uint8_t* border, const uint8_t** taps) {
  const int32_t count = (c->kernel_h * c->kernel_w + 2) / 3 * 3, area = c->out_h * c->out_w;
  memset(border, c->fill, (size_t)c->in_c);
  for (int32_t t = 0; t < count; ++t) taps[t] = border;
  for (int32_t n = 0; n < c->batch; ++n) {
    for (int32_t pixel = 0; pixel < area; ++pixel) {
      const int32_t y0 = pixel / c->out_w * c->stride_h - c->pad_h, x0 = pixel % c->out_w * c->stride_w - c->pad_w;
      const uint8_t** tap = taps;
      for (int32_t ky = 0; ky < c->kernel_h; ++ky) {
        const int32_t iy = y0 + ky * c->dilation_h;
        for (int32_t kx = 0; kx < c->kernel_w; ++kx, ++tap) {
          const int32_t ix = x0 + kx * c->dilation_w;
          const int32_t inside = iy >= 0 && iy < c->in_h && ix >= 0 && ix < c->in_w;
          *tap = inside ? x + (ptrdiff_t)n * c->x_n + (ptrdiff_t)iy * c->x_h + (ptrdiff_t)ix * c->x_w : border;
        }
      }
      const ptrdiff_t place = tpuc_place(c, n, pixel);
      for (int32_t first = 0; first < c->in_c; first += TPUC_CHANNELS) {
        const int32_t some = c->in_c - first < TPUC_CHANNELS ? c->in_c - first : TPUC_CHANNELS;
        int32_t sums[TPUC_CHANNELS] = {0};
        for (int32_t t = 0; t < count; t += 3) {
          const uint8_t* const three[3] = {taps[t] + first, taps[t + 1] + first, taps[t + 2] + first};
          tpuc_taps(sums, three, w + (ptrdiff_t)t * c->in_c + first, c->in_c, some, c->x_unsigned);
        }
        tpuc_requantise(out, sums, some, first);
        tpuc_store(c, y, place + (ptrdiff_t)first * c->y_c, sums, some);
      }
    }
  }
}

#endif
