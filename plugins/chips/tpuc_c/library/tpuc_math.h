/* Rounding, requantization and functions of floats that operators share. */
#ifndef TPUC_MATH_H
#define TPUC_MATH_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#endif

/* On x86-64, functions that take most of the time exist several times, and the program chooses when it runs. Nothing of
   this with -DTPUC_PORTABLE. */
#if !defined(__x86_64__) || !defined(__SSE2__) || defined(TPUC_PORTABLE)
#define TPUC_HAS_X86 0
#elif defined(__clang__)
#define TPUC_HAS_X86 (__clang_major__ >= 7)
#elif defined(__GNUC__)
#define TPUC_HAS_X86 (__GNUC__ >= 8)
#else
#define TPUC_HAS_X86 0
#endif

#if TPUC_HAS_X86
#define TPUC_AVX2 __attribute__((target("avx2")))
#define TPUC_VNNI __attribute__((target("avx2,avx512vl,avx512vnni")))
#define TPUC_INLINE static __attribute__((unused, always_inline)) inline
#elif defined(__GNUC__)
#define TPUC_INLINE static __attribute__((unused)) inline
#else
#define TPUC_INLINE static inline
#endif

#if defined(__GNUC__)
#define TPUC_FUNCTION static __attribute__((unused, noinline))
#else
#define TPUC_FUNCTION static
#endif

/* The function `name` of the code in `name_body`, whose last parameter is the processor. */
enum { TPUC_ANY_PROCESSOR, TPUC_WITH_AVX2, TPUC_WITH_VNNI };
#if TPUC_HAS_X86
#if !defined(TPUC_PROCESSOR) /* or one to be taken if it is there, for tests */
#define TPUC_PROCESSOR TPUC_WITH_VNNI
#endif
#define TPUC_HAS(name, processor) (TPUC_PROCESSOR >= (processor) && __builtin_cpu_supports(name))
#define TPUC_VARIANTS(name, parameters, ...)                                                        \
  TPUC_FUNCTION TPUC_VNNI void name##_vnni parameters { name##_body(__VA_ARGS__, TPUC_WITH_VNNI); } \
  TPUC_FUNCTION TPUC_AVX2 void name##_avx2 parameters { name##_body(__VA_ARGS__, TPUC_WITH_AVX2); } \
  TPUC_FUNCTION void name##_any parameters { name##_body(__VA_ARGS__, TPUC_ANY_PROCESSOR); }        \
  TPUC_INLINE void name parameters {                                                                \
    if (!TPUC_HAS("avx2", TPUC_WITH_AVX2)) {                                                        \
      name##_any(__VA_ARGS__);                                                                      \
    } else if (TPUC_HAS("avx512vl", TPUC_WITH_VNNI) && TPUC_HAS("avx512vnni", TPUC_WITH_VNNI)) {    \
      name##_vnni(__VA_ARGS__);                                                                     \
    } else {                                                                                        \
      name##_avx2(__VA_ARGS__);                                                                     \
    }                                                                                               \
  }
#else
#define TPUC_VARIANTS(name, parameters, ...) \
  TPUC_FUNCTION void name parameters { name##_body(__VA_ARGS__, TPUC_ANY_PROCESSOR); }
#endif

enum {
  TPUC_HALF_AWAY_FROM_ZERO,
  TPUC_HALF_UP,
  TPUC_HALF_DOWN,
  TPUC_HALF_TO_EVEN,
  TPUC_HALF_TO_ODD,
  TPUC_HALF_TOWARDS_ZERO,
  TPUC_TOWARDS_ZERO,
  TPUC_UP,
  TPUC_DOWN
};

/* v / 2**shift, rounded; magnitudes stay below 2**62, shifts within -31 and 62. */
TPUC_INLINE int64_t tpuc_shift(int64_t v, int32_t shift, int32_t rounding) {
  if (shift <= 0) return v * ((int64_t)1 << -shift);
  const int64_t half = (int64_t)1 << (shift - 1);
  switch (rounding) {
    case TPUC_HALF_UP: return (v + half) >> shift;
    case TPUC_HALF_DOWN: return (v + half - 1) >> shift;
    case TPUC_HALF_AWAY_FROM_ZERO: return (v + half - (v < 0)) >> shift;
    case TPUC_HALF_TOWARDS_ZERO: return (v + half - (v >= 0)) >> shift;
    case TPUC_HALF_TO_EVEN: return (v + half - 1 + ((v >> shift) & 1)) >> shift;
    case TPUC_HALF_TO_ODD: return (v + half - 1 + (~(v >> shift) & 1)) >> shift;
    case TPUC_TOWARDS_ZERO: return (v + (v < 0 ? 2 * half - 1 : 0)) >> shift;
    case TPUC_UP: return (v + 2 * half - 1) >> shift;
    default: return v >> shift;
  }
}

TPUC_INLINE int64_t tpuc_clamp(int64_t v, int64_t low, int64_t high) { return v < low ? low : v > high ? high : v; }

/* NaN stays. */
TPUC_INLINE float tpuc_within(float v, float low, float high) { return v < low ? low : v > high ? high : v; }

/* The nearest whole number within bounds; NaN counts as 0. */
TPUC_INLINE int32_t tpuc_round(float x, int32_t rounding, int32_t low, int32_t high) {
  double v = x != x ? 0.0 : (double)x;
  v = v < low ? low : v > high ? high : v;
  const int32_t whole = (int32_t)v;
  const double fraction = v - whole;
  switch (rounding) {
    case TPUC_HALF_UP: return whole + (fraction >= 0.5) - (fraction < -0.5);
    case TPUC_HALF_DOWN: return whole + (fraction > 0.5) - (fraction <= -0.5);
    case TPUC_HALF_AWAY_FROM_ZERO: return whole + (fraction >= 0.5) - (fraction <= -0.5);
    case TPUC_HALF_TOWARDS_ZERO: return whole + (fraction > 0.5) - (fraction < -0.5);
    case TPUC_HALF_TO_EVEN:
      return whole + (fraction > 0.5 || (fraction == 0.5 && (whole & 1))) -
             (fraction < -0.5 || (fraction == -0.5 && (whole & 1)));
    case TPUC_HALF_TO_ODD:
      return whole + (fraction > 0.5 || (fraction == 0.5 && !(whole & 1))) -
             (fraction < -0.5 || (fraction == -0.5 && !(whole & 1)));
    case TPUC_UP: return whole + (fraction > 0);
    case TPUC_DOWN: return whole - (fraction < 0);
    default: return whole;
  }
}

enum { TPUC_SUMS, TPUC_SHIFT_HALF_UP, TPUC_SHIFT_ANY, TPUC_DOUBLING, TPUC_SCALE_TO_EVEN, TPUC_SCALE_ANY };

/* What becomes of int32 sums: one bias, and one multiplier and shift or one scale, per channel. */
typedef struct {
  int32_t kind, rounding, zero_point, low, high;
  float offset;
  const int32_t* bias;
  const int32_t* multiplier;
  const int32_t* shift;
  const float* scale;
} tpuc_output;

/* (acc * multiplier / 2**31, half up, saturated) / 2**shift; a negative shift comes first. */
TPUC_INLINE int64_t tpuc_doubling(int32_t acc, int32_t multiplier, int32_t shift, int32_t rounding) {
  int64_t v = acc;
  if (shift < 0) {
    /* Beyond the bound the product saturates, within it it fits. */
    const int64_t size = multiplier < 0 ? -(int64_t)multiplier : multiplier;
    const int64_t bound = ((int64_t)1 << 62) / (size > 0 ? size : 1) + 1;
    v = tpuc_clamp(v * ((int64_t)1 << -shift), -bound, bound);
  }
  v = tpuc_clamp((v * multiplier + ((int64_t)1 << 30)) >> 31, INT32_MIN, INT32_MAX);
  return shift > 0 ? tpuc_shift(v, shift, rounding) : v;
}

TPUC_INLINE void tpuc_by_shifts(const tpuc_output* out, int32_t* acc, int32_t count, int32_t first) {
  const int64_t zero_point = out->zero_point, low = out->low, high = out->high;
  const int32_t *const bias = out->bias + first, *const multiplier = out->multiplier + first;
  const int32_t* const shift = out->shift + first;
  for (int32_t i = 0; i < count; ++i) {
    const int64_t product = (int64_t)(acc[i] + bias[i]) * multiplier[i];
    const int64_t v = ((product + ((int64_t)1 << (shift[i] - 1))) >> shift[i]) + zero_point;
    acc[i] = (int32_t)tpuc_clamp(v, low, high);
  }
}

/* Adding and taking off 1.5 * 2**23 leaves the nearest whole number, the even one of two. */
TPUC_INLINE void tpuc_by_scales(const tpuc_output* out, int32_t* acc, int32_t count, int32_t first) {
  const float magic = 12582912.0f, offset = out->offset;
  const float least = (float)(out->low - out->zero_point), most = (float)(out->high - out->zero_point);
  const int32_t zero_point = out->zero_point;
  const int32_t* const bias = out->bias + first;
  const float* const scale = out->scale + first;
  for (int32_t i = 0; i < count; ++i) {
    float v = (float)(acc[i] + bias[i]) * scale[i];
    v = v + offset;
    v = v < least ? least : v;
    v = v > most ? most : v;
    const float moved = v + magic;
    acc[i] = (int32_t)(moved - magic) + zero_point;
  }
}

/* Sums of `count` channels from `first` on become stored values, in place. */
TPUC_INLINE void tpuc_requantize(const tpuc_output* out, int32_t* acc, int32_t count, int32_t first) {
  const int32_t low = out->low, high = out->high;
  if (out->kind == TPUC_SHIFT_HALF_UP) {
    tpuc_by_shifts(out, acc, count, first);
    return;
  }
  if (out->kind == TPUC_SCALE_TO_EVEN) {
    tpuc_by_scales(out, acc, count, first);
    return;
  }
  for (int32_t i = 0; i < count; ++i) acc[i] += out->bias[first + i];
  switch (out->kind) {
    case TPUC_SHIFT_ANY:
      for (int32_t i = 0; i < count; ++i) {
        const int64_t product = (int64_t)acc[i] * out->multiplier[first + i];
        const int64_t v = tpuc_shift(product, out->shift[first + i], out->rounding);
        acc[i] = (int32_t)tpuc_clamp(v + out->zero_point, low, high);
      }
      return;
    case TPUC_DOUBLING:
      for (int32_t i = 0; i < count; ++i) {
        const int64_t v = tpuc_doubling(acc[i], out->multiplier[first + i], out->shift[first + i], out->rounding);
        acc[i] = (int32_t)tpuc_clamp(v + out->zero_point, low, high);
      }
      return;
    case TPUC_SCALE_ANY:
      for (int32_t i = 0; i < count; ++i) {
        const float v = (float)acc[i] * out->scale[first + i];
        const int32_t zero_point = out->zero_point;
        acc[i] = tpuc_round(v + out->offset, out->rounding, low - zero_point, high - zero_point) + zero_point;
      }
      return;
    default:
      for (int32_t i = 0; i < count; ++i) acc[i] = acc[i] < low ? low : acc[i] > high ? high : acc[i];
  }
}

/* The same of four channels, which the compiler can write out. */
TPUC_INLINE void tpuc_requantize_four(const tpuc_output* out, int32_t* acc, int32_t first) {
  if (out->kind == TPUC_SHIFT_HALF_UP) {
    tpuc_by_shifts(out, acc, 4, first);
  } else if (out->kind == TPUC_SCALE_TO_EVEN) {
    tpuc_by_scales(out, acc, 4, first);
  } else {
    tpuc_requantize(out, acc, 4, first);
  }
}

/* 8-bit values as 16-bit ones. */
TPUC_INLINE void tpuc_widen(const uint8_t* x, int32_t step, int32_t count, int32_t is_unsigned, int16_t* row) {
  const int8_t* const s = (const int8_t*)x;
  if (step == 1 && is_unsigned) {
    for (int32_t i = 0; i < count; ++i) row[i] = x[i];
  } else if (step == 1) {
    for (int32_t i = 0; i < count; ++i) row[i] = s[i];
  } else if (is_unsigned) {
    for (int32_t i = 0; i < count; ++i) row[i] = x[(ptrdiff_t)i * step];
  } else {
    for (int32_t i = 0; i < count; ++i) row[i] = s[(ptrdiff_t)i * step];
  }
}

TPUC_INLINE float tpuc_sigmoid(float x) {
  const float small = expf(-fabsf(x));
  return (x >= 0 ? 1.0f : small) / (1.0f + small);
}

TPUC_INLINE float tpuc_softplus(float x) { return (x > 0 ? x : 0.0f) + log1pf(expf(-fabsf(x))); }

#endif
