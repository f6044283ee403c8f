/* Inner loops of 8-bit products for x86-64 with AVX2; the sums are those of the portable loops. */
#ifndef TPUC_X86_H
#define TPUC_X86_H

#include "tpuc_math.h"

#if TPUC_HAS_X86
#include <immintrin.h>

/* Of the stack, for windows. */
#define TPUC_OWN_BYTES 16384

TPUC_AVX2 TPUC_INLINE __m256i tpuc_avx2_load(const int32_t* x) {
  return _mm256_loadu_si256((const __m256i*)(const void*)x);
}

/* As `tpuc_by_scales`. */
TPUC_AVX2 TPUC_INLINE __m256i tpuc_avx2_scaled(const tpuc_output* out, __m256i sums, int32_t first) {
  const __m256 magic = _mm256_set1_ps(12582912.0f), offset = _mm256_set1_ps(out->offset);
  const __m256 least = _mm256_set1_ps((float)(out->low - out->zero_point));
  const __m256 most = _mm256_set1_ps((float)(out->high - out->zero_point));
  __m256 v = _mm256_add_ps(_mm256_mul_ps(_mm256_cvtepi32_ps(sums), _mm256_loadu_ps(out->scale + first)), offset);
  v = _mm256_min_ps(_mm256_max_ps(v, least), most);
  v = _mm256_sub_ps(_mm256_add_ps(v, magic), magic);
  return _mm256_add_epi32(_mm256_cvttps_epi32(v), _mm256_set1_epi32(out->zero_point));
}

/* As `tpuc_by_shifts` of the four sums in the lower halves of 64 bits. */
TPUC_AVX2 TPUC_INLINE __m256i tpuc_avx2_four_shifted(const tpuc_output* out, __m256i sums, __m256i multiplier,
                                                     __m256i shift) {
  const __m256i one = _mm256_set1_epi64x(1), sign = _mm256_set1_epi64x(INT64_MIN);
  const __m256i low = _mm256_set1_epi64x(out->low), high = _mm256_set1_epi64x(out->high);
  const __m256i half = _mm256_sllv_epi64(one, _mm256_sub_epi64(shift, one));
  __m256i v = _mm256_add_epi64(_mm256_mul_epi32(sums, multiplier), half);
  v = _mm256_sub_epi64(_mm256_srlv_epi64(_mm256_xor_si256(v, sign), shift), _mm256_srlv_epi64(sign, shift));
  v = _mm256_add_epi64(v, _mm256_set1_epi64x(out->zero_point));
  v = _mm256_blendv_epi8(v, low, _mm256_cmpgt_epi64(low, v));
  return _mm256_blendv_epi8(v, high, _mm256_cmpgt_epi64(v, high));
}

TPUC_AVX2 TPUC_INLINE __m256i tpuc_avx2_shifted(const tpuc_output* out, __m256i sums, int32_t first) {
  const __m256i multiplier = tpuc_avx2_load(out->multiplier + first), shift = tpuc_avx2_load(out->shift + first);
  const __m256i lower = _mm256_set1_epi64x(0xFFFFFFFF);
  const __m256i even = tpuc_avx2_four_shifted(out, sums, multiplier, _mm256_and_si256(shift, lower));
  const __m256i odd = tpuc_avx2_four_shifted(out, _mm256_srli_epi64(sums, 32), _mm256_srli_epi64(multiplier, 32),
                                             _mm256_srli_epi64(shift, 32));
  return _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xAA);
}

/* Are sums finished by the functions below? */
TPUC_INLINE int32_t tpuc_is_quick(const tpuc_output* out) {
  return out->kind == TPUC_SCALE_TO_EVEN || out->kind == TPUC_SHIFT_HALF_UP;
}

/* Sums of eight channels from `first` on become bytes. */
TPUC_AVX2 TPUC_INLINE void tpuc_avx2_finish(const tpuc_output* out, __m256i v, int32_t first, uint8_t* y) {
  v = _mm256_add_epi32(v, tpuc_avx2_load(out->bias + first));
  v = out->kind == TPUC_SCALE_TO_EVEN ? tpuc_avx2_scaled(out, v, first) : tpuc_avx2_shifted(out, v, first);
  v = _mm256_and_si256(v, _mm256_set1_epi32(0xFF));
  const __m128i words = _mm_packus_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  _mm_storel_epi64((__m128i*)(void*)y, _mm_packus_epi16(words, words));
}

/* Rows of `count` sums, `step` apart, become bytes at `places`, eight at a time; the result is how many of a row. */
TPUC_AVX2 TPUC_FUNCTION int32_t tpuc_avx2_rows(const tpuc_output* out, const int32_t* sums, int32_t rows, int32_t step,
                                               int32_t count, int32_t first, uint8_t* y, const ptrdiff_t* places) {
  const tpuc_output known = *out; /* which bytes cannot overwrite */
  int32_t i = 0;
  for (; i + 8 <= count; i += 8) {
    for (int32_t p = 0; p < rows; ++p) {
      tpuc_avx2_finish(&known, tpuc_avx2_load(sums + p * step + i), first + i, y + places[p] + i);
    }
  }
  return i;
}

TPUC_AVX2 TPUC_INLINE __m256i tpuc_avx2_added(__m256i sum, __m256i x, __m256i w) {
  return _mm256_add_epi32(sum, _mm256_madd_epi16(x, w));
}

/* Eight elements of a window, repeated for the two filters that lie beside one another. */
TPUC_AVX2 TPUC_INLINE __m256i tpuc_avx2_repeated(const int16_t* x) {
  return _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i*)(const void*)x));
}

/* Eight elements of two filters as 16-bit ones. */
TPUC_AVX2 TPUC_INLINE __m256i tpuc_avx2_filters(const int8_t* w, __m256i offset) {
  return _mm256_add_epi16(_mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i*)(const void*)w)), offset);
}

/* Four parts of the sums of filters 0 and 1, and of 2 and 3, are added up. */
TPUC_AVX2 TPUC_INLINE void tpuc_avx2_join(__m256i first, __m256i second, int32_t* sums) {
  const __m256i halves = _mm256_hadd_epi32(first, second);
  const __m128i all = _mm_hadd_epi32(_mm256_castsi256_si128(halves), _mm256_extracti128_si256(halves, 1));
  _mm_storeu_si128((__m128i*)(void*)sums, _mm_shuffle_epi32(all, 0xD8));
}

/* `pixels` windows, which lie `depth` apart, with four filters; rows of sums lie `step` apart. */
TPUC_AVX2 TPUC_INLINE void tpuc_avx2_four(const int16_t* x, const int8_t* w, int32_t depth, int32_t pixels,
                                          __m256i offset, int32_t* sums, int32_t step) {
  int32_t p = 0;
  for (; p + 4 <= pixels; p += 4, x += 4 * (ptrdiff_t)depth, sums += 4 * step) {
    const int16_t *const x1 = x + depth, *const x2 = x1 + depth, *const x3 = x2 + depth;
    __m256i a0 = _mm256_setzero_si256(), a1 = a0, a2 = a0, a3 = a0, b0 = a0, b1 = a0, b2 = a0, b3 = a0;
    for (ptrdiff_t k = 0; k < depth; k += 8) {
      const __m256i f = tpuc_avx2_filters(w + 4 * k, offset), g = tpuc_avx2_filters(w + 4 * k + 16, offset);
      __m256i row = tpuc_avx2_repeated(x + k);
      a0 = tpuc_avx2_added(a0, row, f), b0 = tpuc_avx2_added(b0, row, g);
      row = tpuc_avx2_repeated(x1 + k);
      a1 = tpuc_avx2_added(a1, row, f), b1 = tpuc_avx2_added(b1, row, g);
      row = tpuc_avx2_repeated(x2 + k);
      a2 = tpuc_avx2_added(a2, row, f), b2 = tpuc_avx2_added(b2, row, g);
      row = tpuc_avx2_repeated(x3 + k);
      a3 = tpuc_avx2_added(a3, row, f), b3 = tpuc_avx2_added(b3, row, g);
    }
    tpuc_avx2_join(a0, b0, sums);
    tpuc_avx2_join(a1, b1, sums + step);
    tpuc_avx2_join(a2, b2, sums + 2 * step);
    tpuc_avx2_join(a3, b3, sums + 3 * step);
  }
  for (; p < pixels; ++p, x += depth, sums += step) {
    __m256i a = _mm256_setzero_si256(), b = a;
    for (ptrdiff_t k = 0; k < depth; k += 8) {
      const __m256i row = tpuc_avx2_repeated(x + k);
      a = tpuc_avx2_added(a, row, tpuc_avx2_filters(w + 4 * k, offset));
      b = tpuc_avx2_added(b, row, tpuc_avx2_filters(w + 4 * k + 16, offset));
    }
    tpuc_avx2_join(a, b, sums);
  }
}

/* The same with `count` filters. */
TPUC_AVX2 TPUC_FUNCTION void tpuc_avx2_products(const int16_t* x, const int8_t* w, int32_t depth, int32_t pixels,
                                                int32_t count, int32_t offset, int32_t* sums, int32_t step) {
  const __m256i moved = _mm256_set1_epi16((short)offset);
  for (int32_t r = 0; r < count; r += 4) {
    tpuc_avx2_four(x, w + (ptrdiff_t)r * depth, depth, pixels, moved, sums + r, step);
  }
}

/* Windows of bytes without sign, which lie `depth` apart and have `real` elements. Signed ones are 128 more than they
   are, and filters `offset` less. */
typedef struct {
  const uint8_t* rows;
  int32_t depth, pixels, real, offset, is_unsigned;
} tpuc_vnni_panel;

TPUC_VNNI TPUC_INLINE __m256i tpuc_vnni_repeated(const uint8_t* x) {
  long long eight;
  memcpy(&eight, x, sizeof eight);
  return _mm256_set1_epi64x(eight);
}

/* What lacks to the sums of a window since filters are less than they should be. */
TPUC_VNNI TPUC_INLINE int32_t tpuc_vnni_lack(const tpuc_vnni_panel* c, const uint8_t* x) {
  const __m128i ones = _mm_set1_epi8(1);
  __m128i sum = _mm_setzero_si128();
  if (c->offset == 0) return 0;
  for (ptrdiff_t k = 0; k < c->depth; k += 8) {
    sum = _mm_dpbusd_epi32(sum, _mm_loadl_epi64((const __m128i*)(const void*)(x + k)), ones);
  }
  return c->offset * (_mm_cvtsi128_si32(sum) + _mm_extract_epi32(sum, 1) - (c->is_unsigned ? 0 : 128 * c->real));
}

/* Both parts of the sums of four filters are added up, of two rows. */
TPUC_VNNI TPUC_INLINE __m256i tpuc_vnni_joined(__m256i first, __m256i second) {
  return _mm256_permute4x64_epi64(_mm256_hadd_epi32(first, second), 0xD8);
}

/* The sums of a window with eight filters, without what is there too much and with what lacks. */
TPUC_VNNI TPUC_INLINE void tpuc_vnni_store(__m256i a, __m256i b, __m256i excess, int32_t lack, int32_t* sums) {
  const __m256i all = _mm256_sub_epi32(tpuc_vnni_joined(a, b), excess);
  _mm256_storeu_si256((__m256i*)(void*)sums, _mm256_add_epi32(all, _mm256_set1_epi32(lack)));
}

/* All windows with four filters each at `w` and `v`; rows of sums lie `step` apart. */
TPUC_VNNI TPUC_INLINE void tpuc_vnni_eight(const tpuc_vnni_panel* c, const int8_t* w, const int8_t* v,
                                           const int32_t* lacks, int32_t* sums, int32_t step) {
  const __m256i zero = _mm256_setzero_si256(), moved = _mm256_set1_epi8(c->is_unsigned ? 0 : -128);
  const ptrdiff_t depth = c->depth;
  const uint8_t* x = c->rows;
  int32_t p = 0;
  for (; p + 4 <= c->pixels; p += 4, x += 4 * depth, sums += 4 * step, lacks += 4) {
    const uint8_t *const x1 = x + depth, *const x2 = x1 + depth, *const x3 = x2 + depth;
    __m256i a0 = zero, a1 = zero, a2 = zero, a3 = zero, a4 = zero;
    __m256i b0 = zero, b1 = zero, b2 = zero, b3 = zero, b4 = zero;
    for (ptrdiff_t k = 0; k < depth; k += 8) {
      const __m256i f = _mm256_loadu_si256((const __m256i*)(const void*)(w + 4 * k));
      const __m256i g = _mm256_loadu_si256((const __m256i*)(const void*)(v + 4 * k));
      __m256i row = tpuc_vnni_repeated(x + k);
      a0 = _mm256_dpbusd_epi32(a0, row, f), b0 = _mm256_dpbusd_epi32(b0, row, g);
      row = tpuc_vnni_repeated(x1 + k);
      a1 = _mm256_dpbusd_epi32(a1, row, f), b1 = _mm256_dpbusd_epi32(b1, row, g);
      row = tpuc_vnni_repeated(x2 + k);
      a2 = _mm256_dpbusd_epi32(a2, row, f), b2 = _mm256_dpbusd_epi32(b2, row, g);
      row = tpuc_vnni_repeated(x3 + k);
      a3 = _mm256_dpbusd_epi32(a3, row, f), b3 = _mm256_dpbusd_epi32(b3, row, g);
      a4 = _mm256_dpbusd_epi32(a4, moved, f), b4 = _mm256_dpbusd_epi32(b4, moved, g);
    }
    const __m256i excess = tpuc_vnni_joined(a4, b4);
    tpuc_vnni_store(a0, b0, excess, lacks[0], sums);
    tpuc_vnni_store(a1, b1, excess, lacks[1], sums + step);
    tpuc_vnni_store(a2, b2, excess, lacks[2], sums + 2 * step);
    tpuc_vnni_store(a3, b3, excess, lacks[3], sums + 3 * step);
  }
  for (; p < c->pixels; ++p, x += depth, sums += step, ++lacks) {
    __m256i a0 = zero, b0 = zero, a4 = zero, b4 = zero;
    for (ptrdiff_t k = 0; k < depth; k += 8) {
      const __m256i f = _mm256_loadu_si256((const __m256i*)(const void*)(w + 4 * k));
      const __m256i g = _mm256_loadu_si256((const __m256i*)(const void*)(v + 4 * k));
      const __m256i row = tpuc_vnni_repeated(x + k);
      a0 = _mm256_dpbusd_epi32(a0, row, f), b0 = _mm256_dpbusd_epi32(b0, row, g);
      a4 = _mm256_dpbusd_epi32(a4, moved, f), b4 = _mm256_dpbusd_epi32(b4, moved, g);
    }
    tpuc_vnni_store(a0, b0, tpuc_vnni_joined(a4, b4), *lacks, sums);
  }
}

/* The same with `count` filters; the last four alone are taken twice. */
TPUC_VNNI TPUC_FUNCTION void tpuc_vnni_products(const tpuc_vnni_panel* c, const int8_t* w, int32_t count, int32_t* sums,
                                                int32_t step) {
  int32_t lacks[TPUC_PIXELS];
  for (int32_t p = 0; p < c->pixels; ++p) lacks[p] = tpuc_vnni_lack(c, c->rows + (ptrdiff_t)p * c->depth);
  for (int32_t r = 0; r < count; r += 8, w += 8 * (ptrdiff_t)c->depth) {
    tpuc_vnni_eight(c, w, r + 4 < count ? w + 4 * (ptrdiff_t)c->depth : w, lacks, sums + r, step);
  }
}

/* Sixteen bytes as 16-bit integers. */
TPUC_AVX2 TPUC_INLINE __m256i tpuc_avx2_wide(const uint8_t* x, int32_t is_unsigned) {
  const __m128i bytes = _mm_loadu_si128((const __m128i*)(const void*)x);
  return is_unsigned ? _mm256_cvtepu8_epi16(bytes) : _mm256_cvtepi8_epi16(bytes);
}

/* All taps of sixteen channels, two at a time; filters lie `stride` apart. */
TPUC_AVX2 TPUC_INLINE void tpuc_avx2_taps(const uint8_t* const* taps, int32_t count, int32_t first, const int16_t* w,
                                          int32_t stride, int32_t is_unsigned, const tpuc_output* out, uint8_t* y) {
  __m256i low = _mm256_setzero_si256(), high = low;
  w += first;
  for (int32_t t = 0; t < count; t += 2, w += 2 * (ptrdiff_t)stride) {
    const __m256i f = _mm256_loadu_si256((const __m256i*)(const void*)w);
    const __m256i x = tpuc_avx2_wide(taps[t] + first, is_unsigned);
    __m256i g = _mm256_setzero_si256(), z = g;
    if (t + 1 < count) {
      g = _mm256_loadu_si256((const __m256i*)(const void*)(w + stride));
      z = tpuc_avx2_wide(taps[t + 1] + first, is_unsigned);
    }
    low = tpuc_avx2_added(low, _mm256_unpacklo_epi16(x, z), _mm256_unpacklo_epi16(f, g));
    high = tpuc_avx2_added(high, _mm256_unpackhi_epi16(x, z), _mm256_unpackhi_epi16(f, g));
  }
  tpuc_avx2_finish(out, _mm256_permute2x128_si256(low, high, 0x20), first, y + first);
  tpuc_avx2_finish(out, _mm256_permute2x128_si256(low, high, 0x31), first + 8, y + first + 8);
}

/* A window of a depthwise convolution, sixteen channels at a time; the result is how many. */
TPUC_AVX2 TPUC_FUNCTION int32_t tpuc_avx2_depthwise(const uint8_t* const* taps, int32_t count, const int16_t* w,
                                                    int32_t channels, int32_t is_unsigned, const tpuc_output* out,
                                                    uint8_t* y) {
  const tpuc_output known = *out; /* which bytes cannot overwrite */
  int32_t done = 0;
  for (; done + 16 <= channels; done += 16) {
    if (is_unsigned) {
      tpuc_avx2_taps(taps, count, done, w, channels, 1, &known, y);
    } else {
      tpuc_avx2_taps(taps, count, done, w, channels, 0, &known, y);
    }
  }
  return done;
}

#endif
#endif
