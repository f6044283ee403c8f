/* Places of elements: borders, rows by index, order, and whole numbers in floats. */
#ifndef TPUC_MOVES_H
#define TPUC_MOVES_H

#include "tpuc_math.h"

/* Where the element at `at` comes from when a dimension of `count` is continued by mirroring, or by its ends. */
TPUC_INLINE int32_t tpuc_mirrored(int32_t at, int32_t count) {
  const int32_t period = count > 1 ? 2 * (count - 1) : 1;
  int32_t rest = at % period;
  rest = rest < 0 ? rest + period : rest;
  return rest < count ? rest : period - rest;
}

TPUC_INLINE int32_t tpuc_nearest(int32_t at, int32_t count) { return at < 0 ? 0 : at < count ? at : count - 1; }

/* Cut towards 0; NaN counts as 0. */
TPUC_INLINE int64_t tpuc_whole(double x) {
  return x != x ? 0 : x <= INT32_MIN ? INT32_MIN : x >= INT32_MAX ? INT32_MAX : (int64_t)x;
}

TPUC_INLINE int64_t tpuc_shift_left(int64_t x, int64_t by) {
  return by < 0 || by > 31 ? 0 : (int32_t)(uint32_t)((uint64_t)x << by);
}

TPUC_INLINE int64_t tpuc_shift_right(int64_t x, int64_t by) { return x >> (by < 0 || by > 31 ? 31 : by); }

/* The low bits of a whole number; of 32 bits and more the nearest number that there is. */
TPUC_INLINE float tpuc_low_bits(float x, int32_t bits, int32_t is_unsigned) {
  const double span = ldexp(1.0, bits);
  if (!isfinite(x)) return 0.0f;
  const double whole = trunc((double)x);
  if (bits >= 32) {
    const double low = is_unsigned ? 0.0 : -span / 2;
    return (float)(whole < low ? low : whole > low + span - 1 ? low + span - 1 : whole);
  }
  double rest = fmod(whole, span);
  rest = rest < 0 ? rest + span : rest;
  return (float)(!is_unsigned && rest >= span / 2 ? rest - span : rest);
}

/* The remainder has the sign of the divisor. */
TPUC_INLINE float tpuc_modulo(float x, float y) {
  const float rest = fmodf(x, y);
  if (rest == 0.0f) return copysignf(0.0f, y);
  return (rest < 0.0f) != (y < 0.0f) ? rest + y : rest;
}

TPUC_INLINE int32_t tpuc_before(const double* keys, int32_t one, int32_t other, double sign) {
  const double a = sign * keys[one], b = sign * keys[other];
  return a < b || (a == a && b != b) || (!(b < a || (b == b && a != a)) && one < other);
}

/* Indices of keys in order, equal ones as they are; `order` has room for twice as many. Returns where they are. */
TPUC_FUNCTION const int32_t* tpuc_sorted(const double* keys, int32_t count, double sign, int32_t* order) {
  int32_t* from = order;
  int32_t* to = order + count;
  for (int32_t i = 0; i < count; ++i) from[i] = i;
  for (int32_t width = 1; width < count; width *= 2) {
    for (int32_t start = 0; start < count; start += 2 * width) {
      const int32_t middle = start + width < count ? start + width : count;
      const int32_t end = start + 2 * width < count ? start + 2 * width : count;
      int32_t left = start, right = middle;
      for (int32_t i = start; i < end; ++i) {
        const int32_t take = right >= end || (left < middle && tpuc_before(keys, from[left], from[right], sign));
        to[i] = take ? from[left++] : from[right++];
      }
    }
    int32_t* const other = from;
    from = to;
    to = other;
  }
  return from;
}

#endif
