/* The inner loop of 8-bit products for Arm: Helium, Neon, or pairs of 16-bit elements (DSP extension). The compiler's
   flags choose. The sums are those of the portable loop, which -DTPUC_PORTABLE takes. */
#ifndef TPUC_ARM_H
#define TPUC_ARM_H

#include "tpuc_math.h"

#define TPUC_HAS_ARM 0
#if !defined(TPUC_PORTABLE) && defined(__ARM_FEATURE_MVE)
#include <arm_mve.h>
#undef TPUC_HAS_ARM
#define TPUC_HAS_ARM 1
typedef int32_t tpuc_arm_sum;
typedef int16x8_t tpuc_arm_part;
#define TPUC_ARM_PART 8
TPUC_INLINE tpuc_arm_sum tpuc_arm_zero(void) { return 0; }
TPUC_INLINE tpuc_arm_part tpuc_arm_load(const int16_t* x) { return vld1q_s16(x); }
TPUC_INLINE tpuc_arm_sum tpuc_arm_added(tpuc_arm_sum sum, tpuc_arm_part x, tpuc_arm_part w) {
  return vmladavaq_s16(sum, x, w);
}
TPUC_INLINE int32_t tpuc_arm_total(tpuc_arm_sum sum) { return sum; }
#elif !defined(TPUC_PORTABLE) && defined(__ARM_NEON)
#include <arm_neon.h>
#undef TPUC_HAS_ARM
#define TPUC_HAS_ARM 1
typedef int32x4_t tpuc_arm_sum;
typedef int16x8_t tpuc_arm_part;
#define TPUC_ARM_PART 8
TPUC_INLINE tpuc_arm_sum tpuc_arm_zero(void) { return vdupq_n_s32(0); }
TPUC_INLINE tpuc_arm_part tpuc_arm_load(const int16_t* x) { return vld1q_s16(x); }
TPUC_INLINE tpuc_arm_sum tpuc_arm_added(tpuc_arm_sum sum, tpuc_arm_part x, tpuc_arm_part w) {
  sum = vmlal_s16(sum, vget_low_s16(x), vget_low_s16(w));
  return vmlal_s16(sum, vget_high_s16(x), vget_high_s16(w));
}
TPUC_INLINE int32_t tpuc_arm_total(tpuc_arm_sum sum) {
  const int32x2_t half = vadd_s32(vget_low_s32(sum), vget_high_s32(sum));
  return vget_lane_s32(vpadd_s32(half, half), 0);
}
#elif !defined(TPUC_PORTABLE) && defined(__ARM_FEATURE_SIMD32)
#include <arm_acle.h>
#undef TPUC_HAS_ARM
#define TPUC_HAS_ARM 1
typedef int32_t tpuc_arm_sum;
typedef int16x2_t tpuc_arm_part;
#define TPUC_ARM_PART 2
TPUC_INLINE tpuc_arm_sum tpuc_arm_zero(void) { return 0; }
TPUC_INLINE tpuc_arm_part tpuc_arm_load(const int16_t* x) {
  tpuc_arm_part part;
  memcpy(&part, x, sizeof part);
  return part;
}
TPUC_INLINE tpuc_arm_sum tpuc_arm_added(tpuc_arm_sum sum, tpuc_arm_part x, tpuc_arm_part w) {
  return __smlad(x, w, sum);
}
TPUC_INLINE int32_t tpuc_arm_total(tpuc_arm_sum sum) { return sum; }
#endif

#if TPUC_HAS_ARM
/* As `tpuc_dot`. */
TPUC_INLINE void tpuc_arm_dot(const int16_t* x0, const int16_t* x1, const int16_t* w, int32_t depth, int32_t* sums0,
                              int32_t* sums1) {
  for (int32_t r = 0; r < 4; r += 2, w += 2 * (ptrdiff_t)depth) {
    tpuc_arm_sum a0 = tpuc_arm_zero(), a1 = a0, b0 = a0, b1 = a0;
    for (int32_t k = 0; k < depth; k += TPUC_ARM_PART) {
      const tpuc_arm_part f = tpuc_arm_load(w + k), g = tpuc_arm_load(w + depth + k);
      const tpuc_arm_part x = tpuc_arm_load(x0 + k), y = tpuc_arm_load(x1 + k);
      a0 = tpuc_arm_added(a0, x, f), a1 = tpuc_arm_added(a1, x, g);
      b0 = tpuc_arm_added(b0, y, f), b1 = tpuc_arm_added(b1, y, g);
    }
    sums0[r] += tpuc_arm_total(a0), sums0[r + 1] += tpuc_arm_total(a1);
    sums1[r] += tpuc_arm_total(b0), sums1[r + 1] += tpuc_arm_total(b1);
  }
}
#endif
#endif
