/* Recurrent layers in one direction. */
#ifndef TPUC_RECURRENT_H
#define TPUC_RECURRENT_H

#include "tpuc_math.h"

enum { TPUC_LSTM, TPUC_GRU, TPUC_RNN };

/* Of tensors that begin with the units: distances of rows and columns. */
typedef struct {
  int32_t kind, gates, padded, hidden, steps, count, reverse, before_reset, relu;
  int32_t x_row, x_column, y_row, y_column, h_row, h_column, c_row, c_column;
} tpuc_recurrent;

TPUC_INLINE void tpuc_of_state(const tpuc_recurrent* r, const float* matrix, const float* bias, const float* h,
                               int32_t first, int32_t last, float* sums) {
  for (int32_t g = first; g < last; ++g) {
    for (int32_t u = 0; u < r->hidden; ++u) {
      const float* const row = matrix + (ptrdiff_t)(g * r->padded + u) * r->hidden;
      float total = 0.0f;
      for (int32_t k = 0; k < r->hidden; ++k) total += row[k] * h[k];
      sums[g * r->hidden + u] = total + (bias ? bias[g * r->padded + u] : 0.0f);
    }
  }
}

/* `room` holds h, c, r * h, and the sums of all gates; h0 and c0 may be NULL. */
TPUC_FUNCTION void tpuc_recur(const tpuc_recurrent* r, const float* x, const float* matrix, const float* bias,
                              const float* h0, const float* c0, float* y, float* room) {
  const int32_t hidden = r->hidden;
  float *const h = room, *const c = room + hidden, *const part = room + 2 * hidden, *const of = room + 3 * hidden;
  for (int32_t n = 0; n < r->count; ++n) {
    for (int32_t u = 0; u < hidden; ++u) {
      h[u] = h0 ? h0[(ptrdiff_t)u * r->h_row + (ptrdiff_t)n * r->h_column] : 0.0f;
      c[u] = c0 ? c0[(ptrdiff_t)u * r->c_row + (ptrdiff_t)n * r->c_column] : 0.0f;
    }
    for (int32_t i = 0; i < r->steps; ++i) {
      const int32_t column = (r->reverse ? r->steps - 1 - i : i) * r->count + n;
      const float* const at = x + (ptrdiff_t)column * r->x_column;
      const ptrdiff_t gate = (ptrdiff_t)r->padded * r->x_row;
      tpuc_of_state(r, matrix, bias, h, 0, r->gates, of);
      if (r->kind == TPUC_GRU && !r->before_reset) {
        for (int32_t u = 0; u < hidden; ++u)
          part[u] = h[u] * tpuc_sigmoid(at[gate + (ptrdiff_t)u * r->x_row] + of[hidden + u]);
        tpuc_of_state(r, matrix, NULL, part, 2, 3, of);
      }
      for (int32_t u = 0; u < hidden; ++u) {
        const float* const in = at + (ptrdiff_t)u * r->x_row;
        if (r->kind == TPUC_LSTM) {
          const float forget = tpuc_sigmoid(in[2 * gate] + of[2 * hidden + u]);
          c[u] = forget * c[u] + tpuc_sigmoid(in[0] + of[u]) * tanhf(in[3 * gate] + of[3 * hidden + u]);
          h[u] = tpuc_sigmoid(in[gate] + of[hidden + u]) * tanhf(c[u]);
        } else if (r->kind == TPUC_RNN) {
          const float total = in[0] + of[u];
          h[u] = !r->relu ? tanhf(total) : total > 0.0f ? total : 0.0f;
        } else {
          const float z = tpuc_sigmoid(in[0] + of[u]), reset = tpuc_sigmoid(in[gate] + of[hidden + u]);
          const float own = r->before_reset ? reset * of[2 * hidden + u] : of[2 * hidden + u];
          const float candidate = tanhf(in[2 * gate] + own);
          h[u] = candidate + z * (h[u] - candidate);
        }
        y[(ptrdiff_t)u * r->y_row + (ptrdiff_t)column * r->y_column] = h[u];
      }
    }
    if (r->kind == TPUC_LSTM) {
      for (int32_t u = 0; u < hidden; ++u)
        y[(ptrdiff_t)u * r->y_row + (ptrdiff_t)(r->steps * r->count + n) * r->y_column] = c[u];
    }
  }
}

#endif
