/* Convolutions and matrix products of 8-bit integers with exact 32-bit sums. */
#ifndef TPUC_PRODUCTS_H
#define TPUC_PRODUCTS_H

#include "tpuc_math.h"

#define TPUC_PIXELS 16

#include "tpuc_arm.h"
#include "tpuc_x86.h"

/* Extents, distances in elements between neighbors, the window; `depth` is a filter's length in memory, `pixels` how
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

#if TPUC_HAS_X86
/* The same as bytes without sign: signed ones are moved by 128. */
TPUC_INLINE void tpuc_gather_bytes(const tpuc_conv* c, const uint8_t* x, int32_t channels, int32_t pixel,
                                   uint8_t* row) {
  const int32_t y0 = pixel / c->out_w * c->stride_h - c->pad_h, x0 = pixel % c->out_w * c->stride_w - c->pad_w;
  const uint8_t flip = c->x_unsigned ? 0 : 0x80;
  const uint64_t flips = c->x_unsigned ? 0 : UINT64_C(0x8080808080808080);
  for (int32_t ky = 0; ky < c->kernel_h; ++ky) {
    const int32_t iy = y0 + ky * c->dilation_h;
    for (int32_t kx = 0; kx < c->kernel_w; ++kx, row += channels) {
      const int32_t ix = x0 + kx * c->dilation_w;
      const uint8_t* const from = x + (ptrdiff_t)iy * c->x_h + (ptrdiff_t)ix * c->x_w;
      if (iy < 0 || iy >= c->in_h || ix < 0 || ix >= c->in_w) {
        memset(row, (uint8_t)c->fill ^ flip, (size_t)channels);
      } else if (c->x_c == 1) {
        int32_t i = 0;
        for (; i + 8 <= channels; i += 8) {
          uint64_t eight;
          memcpy(&eight, from + i, sizeof eight);
          eight ^= flips;
          memcpy(row + i, &eight, sizeof eight);
        }
        for (; i < channels; ++i) row[i] = from[i] ^ flip;
      } else {
        for (int32_t i = 0; i < channels; ++i) row[i] = from[(ptrdiff_t)i * c->x_c] ^ flip;
      }
    }
  }
}
#endif

/* Two rows with four filters: eight sums are added to. `depth` is a multiple of 8. */
TPUC_FUNCTION void tpuc_dot(const int16_t* x0, const int16_t* x1, const int16_t* w, int32_t depth, int32_t* sums0,
                            int32_t* sums1) {
#if TPUC_HAS_ARM
  tpuc_arm_dot(x0, x1, w, depth, sums0, sums1);
#else
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
#endif
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

#define TPUC_DEPTH 128
#define TPUC_FILTERS 32

/* Products of some gathered windows with `length` elements of four filters, which are widened into `rows` first, are
   added to the windows' sums. */
TPUC_INLINE void tpuc_add_products(const tpuc_conv* c, const int16_t* panel, const int8_t* w, int32_t pixels,
                                   int32_t length, int16_t* rows, int32_t* sums) {
  const int32_t depth = c->depth, offset = c->filter_offset;
  for (int32_t r = 0; r < 4; ++r) {
    for (int32_t k = 0; k < length; k += 8) {
      const int8_t* const from = w + 4 * k + 8 * r;
      int16_t* const to = rows + r * length + k;
      for (int32_t i = 0; i < 8; ++i) to[i] = (int16_t)(from[i] + offset);
    }
  }
  int32_t beyond[4] = {0};
  for (int32_t p = 0; p < pixels; p += 2, sums += 2 * TPUC_FILTERS, panel += 2 * (ptrdiff_t)depth) {
    const int32_t both = p + 1 < pixels;
    tpuc_dot(panel, both ? panel + depth : panel, rows, length, sums, both ? sums + TPUC_FILTERS : beyond);
  }
}

/* Some windows from `first` on, as rows. */
TPUC_INLINE void tpuc_panel(const tpuc_conv* c, const uint8_t* image, int32_t channels, int32_t first, int32_t some,
                            int16_t* panel, int32_t processor) {
  for (int32_t p = 0; p < some; ++p) {
#if TPUC_HAS_X86
    if (processor == TPUC_WITH_VNNI) {
      tpuc_gather_bytes(c, image, channels, first + p, (uint8_t*)panel + (ptrdiff_t)p * c->depth);
      continue;
    }
#endif
    (void)processor;
    tpuc_gather(c, image, channels, first + p, panel + (ptrdiff_t)p * c->depth);
  }
}

/* Products of some gathered windows with `here` filters, a row of sums for each window. */
TPUC_INLINE void tpuc_sums(const tpuc_conv* c, const int16_t* panel, const int8_t* w, int32_t pixels, int32_t here,
                           int16_t* rows, int32_t* sums, int32_t processor) {
  const int32_t depth = c->depth;
#if TPUC_HAS_X86
  if (processor == TPUC_WITH_VNNI) {
    const int32_t real = c->in_c / c->groups * c->kernel_h * c->kernel_w;
    const tpuc_vnni_panel bytes = {(const uint8_t*)panel, depth, pixels, real, c->filter_offset, c->x_unsigned};
    tpuc_vnni_products(&bytes, w, here, sums, TPUC_FILTERS);
    return;
  }
  if (processor == TPUC_WITH_AVX2) {
    tpuc_avx2_products(panel, w, depth, pixels, here, c->filter_offset, sums, TPUC_FILTERS);
    return;
  }
#endif
  (void)processor;
  memset(sums, 0, (size_t)pixels * TPUC_FILTERS * sizeof *sums);
  for (int32_t r = 0; r < here; r += 4, w += 4 * (ptrdiff_t)depth) {
    for (int32_t k = 0; k < depth; k += TPUC_DEPTH) {
      const int32_t length = depth - k < TPUC_DEPTH ? depth - k : TPUC_DEPTH;
      tpuc_add_products(c, panel + k, w + 4 * (ptrdiff_t)k, pixels, length, rows, sums + r);
    }
  }
}

/* Rows of sums of `here` channels from `first` on become stored values at `places`. */
TPUC_INLINE void tpuc_finish(const tpuc_conv* c, const tpuc_output* out, int32_t* sums, int32_t rows, int32_t here,
                             int32_t first, void* y, const ptrdiff_t* places, int32_t processor) {
  int32_t done = 0;
#if TPUC_HAS_X86
  if (processor != TPUC_ANY_PROCESSOR && c->y_bytes == 1 && c->y_c == 1 && tpuc_is_quick(out)) {
    done = tpuc_avx2_rows(out, sums, rows, TPUC_FILTERS, here, first, (uint8_t*)y + first, places);
    if (done == here) return;
  }
#endif
  (void)processor;
  for (int32_t p = 0; p < rows; ++p) {
    int32_t* const values = sums + p * TPUC_FILTERS + done;
    tpuc_requantize(out, values, here - done, first + done);
    tpuc_store(c, y, places[p] + (ptrdiff_t)(first + done) * c->y_c, values, here - done);
  }
}

#if TPUC_HAS_X86
/* How many windows are gathered, and where: there may be room for more on the stack. */
TPUC_INLINE int32_t tpuc_room(const tpuc_conv* c, int16_t** panel, int16_t* own, int32_t item) {
  const int32_t room = TPUC_OWN_BYTES / (c->depth * item), most = room < TPUC_PIXELS ? room : TPUC_PIXELS;
  if (most <= c->pixels) return c->pixels;
  *panel = own;
  return most;
}
#endif

/* Filters lie as [group][filters / 4, rounded up][depth / 8][4 filters][8]. `panel` has room for `pixels` rows, `rows`
   for parts of four filters. What stands behind a filter meets zeros, and sums of filters that are not there are not
   stored. */
TPUC_INLINE void tpuc_conv_int8_body(const tpuc_conv* c, const tpuc_output* out, const uint8_t* x,
                                     const int8_t* filters, void* y, int16_t* panel, int16_t* rows, int32_t processor) {
  const int32_t channels = c->in_c / c->groups, count = c->out_c / c->groups, area = c->out_h * c->out_w;
  const int32_t depth = c->depth, padded = (count + 3) & ~3;
  int32_t pixels = c->pixels, item = (int32_t)sizeof *panel;
#if TPUC_HAS_X86
  int16_t own[TPUC_OWN_BYTES / 2];
  if (processor == TPUC_WITH_VNNI) item = 1;
  if (processor != TPUC_ANY_PROCESSOR) pixels = tpuc_room(c, &panel, own, item);
#endif
  memset(panel, 0, (size_t)pixels * (size_t)(depth * item));
  for (int32_t n = 0; n < c->batch; ++n) {
    for (int32_t g = 0; g < c->groups; ++g) {
      const uint8_t* const image = x + (ptrdiff_t)n * c->x_n + (ptrdiff_t)(g * channels) * c->x_c;
      for (int32_t first = 0; first < area; first += pixels) {
        const int32_t some = area - first < pixels ? area - first : pixels;
        ptrdiff_t places[TPUC_PIXELS];
        for (int32_t p = 0; p < some; ++p) places[p] = tpuc_place(c, n, first + p);
        tpuc_panel(c, image, channels, first, some, panel, processor);
        for (int32_t o = 0; o < count; o += TPUC_FILTERS) {
          const int32_t here = count - o < TPUC_FILTERS ? count - o : TPUC_FILTERS;
          int32_t sums[TPUC_PIXELS * TPUC_FILTERS];
          tpuc_sums(c, panel, filters + (ptrdiff_t)(g * padded + o) * depth, some, here, rows, sums, processor);
          tpuc_finish(c, out, sums, some, here, g * count + o, y, places, processor);
        }
      }
    }
  }
}

TPUC_VARIANTS(tpuc_conv_int8,
              (const tpuc_conv* c, const tpuc_output* out, const uint8_t* x, const int8_t* filters, void* y,
               int16_t* panel, int16_t* rows),
              c, out, x, filters, y, panel, rows)

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

/* Where the taps of a window lie, those outside of the image at `border`. */
TPUC_INLINE void tpuc_find_taps(const tpuc_conv* c, const uint8_t* x, int32_t pixel, const uint8_t* border,
                                const uint8_t** tap) {
  const int32_t y0 = pixel / c->out_w * c->stride_h - c->pad_h, x0 = pixel % c->out_w * c->stride_w - c->pad_w;
  const int32_t within = x0 >= 0 && x0 + (c->kernel_w - 1) * c->dilation_w < c->in_w;
  for (int32_t ky = 0; ky < c->kernel_h; ++ky, tap += c->kernel_w) {
    const int32_t iy = y0 + ky * c->dilation_h;
    const int32_t row = iy >= 0 && iy < c->in_h;
    for (int32_t kx = 0; kx < c->kernel_w; ++kx) {
      const int32_t ix = x0 + kx * c->dilation_w;
      const int32_t inside = row && (within || (ix >= 0 && ix < c->in_w));
      tap[kx] = inside ? x + (ptrdiff_t)iy * c->x_h + (ptrdiff_t)ix * c->x_w : border;
    }
  }
}

/* One filter per channel, as 16-bit rows [taps rounded up to 3][channels]; channels are neighbors in the input.
   `border` has room for a row of channels, `taps` for all taps of a window. */
TPUC_INLINE void tpuc_depthwise_int8_body(const tpuc_conv* c, const tpuc_output* out, const uint8_t* x,
                                          const int16_t* w, void* y, uint8_t* border, const uint8_t** taps,
                                          int32_t processor) {
  const int32_t count = (c->kernel_h * c->kernel_w + 2) / 3 * 3, area = c->out_h * c->out_w;
  memset(border, c->fill, (size_t)c->in_c);
  for (int32_t t = 0; t < count; ++t) taps[t] = border;
  for (int32_t n = 0; n < c->batch; ++n) {
    for (int32_t pixel = 0; pixel < area; ++pixel) {
      tpuc_find_taps(c, x + (ptrdiff_t)n * c->x_n, pixel, border, taps);
      const ptrdiff_t place = tpuc_place(c, n, pixel);
      int32_t done = 0;
#if TPUC_HAS_X86
      if (processor != TPUC_ANY_PROCESSOR && c->y_bytes == 1 && c->y_c == 1 && tpuc_is_quick(out)) {
        uint8_t* const to = (uint8_t*)y + place;
        done = tpuc_avx2_depthwise(taps, c->kernel_h * c->kernel_w, w, c->in_c, c->x_unsigned, out, to);
      }
#endif
      (void)processor;
      for (int32_t first = done; first < c->in_c; first += TPUC_CHANNELS) {
        const int32_t some = c->in_c - first < TPUC_CHANNELS ? c->in_c - first : TPUC_CHANNELS;
        int32_t sums[TPUC_CHANNELS] = {0};
        for (int32_t t = 0; t < count; t += 3) {
          const uint8_t* const three[3] = {taps[t] + first, taps[t + 1] + first, taps[t + 2] + first};
          tpuc_taps(sums, three, w + (ptrdiff_t)t * c->in_c + first, c->in_c, some, c->x_unsigned);
        }
        tpuc_requantize(out, sums, some, first);
        tpuc_store(c, y, place + (ptrdiff_t)first * c->y_c, sums, some);
      }
    }
  }
}

TPUC_VARIANTS(tpuc_depthwise_int8,
              (const tpuc_conv* c, const tpuc_output* out, const uint8_t* x, const int16_t* w, void* y,
               uint8_t* border, const uint8_t** taps),
              c, out, x, w, y, border, taps)

#endif
