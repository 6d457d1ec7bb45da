// Gradients of the log-likelihood of many small networks at once, for paper/reference/forces.py.
//
// A block per network; each of its warps takes 16 rows at a time and goes over the values of z
// twice, first for log p(y | x, W), then for its gradient. The products are those of the tensor
// units (TF32, mma.m16n8k8): a thread owns two rows and six units of each layer, so that nothing
// between the layers leaves the registers. Only the gradient of the second layer's kernel, a sum
// over rows, goes through shared memory.
#include <cstdint>
#ifndef EMULATE
#include "xla/ffi/api/ffi.h"
#endif

constexpr int UNITS = 20, ROOM = 24, BLOCKS = 3, TILE = 16, WARPS = 4;
constexpr int W1X = 0, W1Z = 20, B1 = 40, W2 = 60, B2 = 460, W3M = 480, W3G = 500, B3M = 520,
              B3G = 521, SKIP = 522, BASE = 523, ODDS = 524, SIZE = 525;
constexpr float LOG_WIDE = 2.302585093f, SHRUNK = 0.99f, LOG_TWO_PI = 1.837877066f;
constexpr float LOWEST = -16.0f, HIGHEST = 8.0f;
constexpr unsigned ALL = 0xffffffffu;

#ifndef EMULATE
__device__ __forceinline__ uint32_t tf32(float v) {
  uint32_t r;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(v));
  return r;
}
__device__ __forceinline__ float fast_tanh(float v) {
  float r;
  asm("tanh.approx.f32 %0, %1;" : "=f"(r) : "f"(v));
  return r;
}
__device__ __forceinline__ void mma(float* c, const uint32_t* a, const uint32_t* b) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
#endif

template <bool TANH>
__device__ __forceinline__ float activate(float v) {
  return TANH ? fast_tanh(v) : fmaxf(v, 0.0f);
}
template <bool TANH>
__device__ __forceinline__ float slope(float h) {
  return TANH ? 1.0f - h * h : (h > 0.0f ? 1.0f : 0.0f);
}
__device__ __forceinline__ float sigmoid(float v) { return 1.0f / (1.0f + __expf(-v)); }
__device__ __forceinline__ float softplus(float v) {
  return fmaxf(v, 0.0f) + __logf(1.0f + __expf(-fabsf(v)));
}
__device__ __forceinline__ float over_quad(float v) {
  v += __shfl_xor_sync(ALL, v, 1);
  return v + __shfl_xor_sync(ALL, v, 2);
}
__device__ __forceinline__ float over_rows(float v) {
  v += __shfl_xor_sync(ALL, v, 4);
  v += __shfl_xor_sync(ALL, v, 8);
  return v + __shfl_xor_sync(ALL, v, 16);
}

struct Term {
  float value, mean, change, base, odds;  // log-density and its slopes
};

struct Noise {
  float base, odds, wide, narrow;  // log Σ, the log-odds of π, π, and −log(1 − π)
};

// Of y given the network's outputs, as model/density.py has it.
template <bool VARYING>
__device__ __forceinline__ Term log_density(float y, float m, float g, const Noise& noise) {
  float raw = VARYING ? noise.base + 2.0f * g : noise.base;
  float v = VARYING ? fminf(fmaxf(raw, LOWEST), HIGHEST) : raw;
  float precision = __expf(-v), distance = y - m, square = distance * distance * precision;
  Term t;
  t.value = -0.5f * (square + v + LOG_TWO_PI);
  float wide = 0.0f;
  t.odds = 0.0f;
  if (VARYING) {
    float lifted = noise.odds + 0.5f * SHRUNK * square - LOG_WIDE;
    wide = sigmoid(lifted);
    t.value += softplus(lifted) - noise.narrow;
    t.odds = wide - noise.wide;
  }
  float shrink = 1.0f - SHRUNK * wide;
  t.mean = distance * precision * shrink;
  float level = 0.5f * (square * shrink - 1.0f);
  t.base = (!VARYING || v == raw) ? level : 0.0f;
  t.change = VARYING ? 2.0f * t.base : 0.0f;
  return t;
}

template <bool TANH, bool VARYING>
__global__ void __launch_bounds__(32 * WARPS, 2)
    forces(const float* networks, const float* xs, const float* ys, const int* sets,
           const float* nodes, const float* log_weights, int rows, int count, float* gradients,
           float* values) {
  __shared__ float staged[WARPS][2][TILE * ROOM];
  __shared__ float sums[WARPS][SIZE + 1];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const float* p = networks + (size_t)blockIdx.x * SIZE;
  const float *x = xs + (size_t)sets[blockIdx.x] * rows, *y = ys + (size_t)sets[blockIdx.x] * rows;
  const float skip = p[SKIP], b3m = p[B3M], b3g = p[B3G];
  const Noise noise = {p[BASE], p[ODDS], sigmoid(p[ODDS]), softplus(p[ODDS])};

  auto vector = [&](int place, int b, int e) {
    int unit = 8 * b + 2 * t + e;
    return unit < UNITS ? p[place + unit] : 0.0f;
  };
  auto entry = [&](int j, int i) {
    return tf32(j < UNITS && i < UNITS ? p[W2 + j * UNITS + i] : 0.0f);
  };
  float w1x[BLOCKS][2], w1z[BLOCKS][2], b1[BLOCKS][2], b2[BLOCKS][2], w3m[BLOCKS][2], w3g[BLOCKS][2];
  uint32_t forth[BLOCKS][BLOCKS][2], back[BLOCKS][BLOCKS][2];
#pragma unroll
  for (int b = 0; b < BLOCKS; b++)
#pragma unroll
    for (int e = 0; e < 2; e++) {
      w1x[b][e] = vector(W1X, b, e), w1z[b][e] = vector(W1Z, b, e), b1[b][e] = vector(B1, b, e);
      b2[b][e] = vector(B2, b, e), w3m[b][e] = vector(W3M, b, e), w3g[b][e] = vector(W3G, b, e);
      for (int n = 0; n < BLOCKS; n++) {
        forth[b][n][e] = entry(8 * n + g, 8 * b + 2 * t + e);
        back[b][n][e] = entry(8 * b + 2 * t + e, 8 * n + g);
      }
    }
  float a1x[BLOCKS][2] = {}, a1z[BLOCKS][2] = {}, ab1[BLOCKS][2] = {}, ab2[BLOCKS][2] = {};
  float a3m[BLOCKS][2] = {}, a3g[BLOCKS][2] = {}, a2[2][BLOCKS][4] = {};
  float am = 0, ag = 0, askip = 0, abase = 0, aodds = 0, total = 0;

  for (int tile = warp; tile * TILE < rows; tile += WARPS) {
    float px[2], py[2];
    bool real[2];
    for (int r = 0; r < 2; r++) {
      int row = tile * TILE + g + 8 * r;
      real[r] = row < rows;
      px[r] = real[r] ? x[row] : 0.0f;
      py[r] = real[r] ? y[row] : 0.0f;
    }
    float h1[2][BLOCKS][2], h2[2][BLOCKS][2], mean[2], change[2];
    uint32_t a[4];
    auto forward = [&](float z) {
      float c[BLOCKS][4];
#pragma unroll
      for (int b = 0; b < BLOCKS; b++)
        c[b][0] = c[b][2] = b2[b][0], c[b][1] = c[b][3] = b2[b][1];
#pragma unroll
      for (int b = 0; b < BLOCKS; b++) {
#pragma unroll
        for (int e = 0; e < 2; e++) {
          float shared = b1[b][e] + w1z[b][e] * z;
#pragma unroll
          for (int r = 0; r < 2; r++) {
            h1[r][b][e] = activate<TANH>(shared + w1x[b][e] * px[r]);
            a[2 * e + r] = tf32(h1[r][b][e]);
          }
        }
#pragma unroll
        for (int n = 0; n < BLOCKS; n++) mma(c[n], a, forth[b][n]);
      }
#pragma unroll
      for (int r = 0; r < 2; r++) {
        float m = 0.0f, k = 0.0f;
#pragma unroll
        for (int b = 0; b < BLOCKS; b++)
#pragma unroll
          for (int e = 0; e < 2; e++) {
            h2[r][b][e] = activate<TANH>(c[b][2 * r + e]);
            m += w3m[b][e] * h2[r][b][e];
            if (VARYING) k += w3g[b][e] * h2[r][b][e];
          }
        mean[r] = over_quad(m) + b3m + skip * px[r];
        change[r] = VARYING ? over_quad(k) + b3g : 0.0f;
      }
    };

    float most[2] = {-1e30f, -1e30f}, sum[2] = {0.0f, 0.0f};
    for (int q = 0; q < count; q++) {
      forward(nodes[q]);
      for (int r = 0; r < 2; r++) {
        float v = log_weights[q] + log_density<VARYING>(py[r], mean[r], change[r], noise).value;
        float top = fmaxf(most[r], v);
        sum[r] = sum[r] * __expf(most[r] - top) + __expf(v - top);
        most[r] = top;
      }
    }
    float whole[2];
    for (int r = 0; r < 2; r++) {
      whole[r] = most[r] + __logf(sum[r]);
      total += real[r] && t == 0 ? whole[r] : 0.0f;
    }

    for (int q = 0; q < count; q++) {
      const float z = nodes[q];
      forward(z);
      float d[2][BLOCKS][2], dm[2], dg[2];
      for (int r = 0; r < 2; r++) {
        Term term = log_density<VARYING>(py[r], mean[r], change[r], noise);
        float share = real[r] ? __expf(log_weights[q] + term.value - whole[r]) : 0.0f;
        dm[r] = share * term.mean, dg[r] = share * term.change;
        am += dm[r], ag += dg[r], askip += dm[r] * px[r];
        abase += share * term.base, aodds += share * term.odds;
      }
      float c[BLOCKS][4] = {};
#pragma unroll
      for (int b = 0; b < BLOCKS; b++) {
#pragma unroll
        for (int e = 0; e < 2; e++) {
#pragma unroll
          for (int r = 0; r < 2; r++) {
            float h = h2[r][b][e];
            a3m[b][e] += dm[r] * h;
            if (VARYING) a3g[b][e] += dg[r] * h;
            float back_flow = dm[r] * w3m[b][e] + (VARYING ? dg[r] * w3g[b][e] : 0.0f);
            d[r][b][e] = back_flow * slope<TANH>(h);
            ab2[b][e] += d[r][b][e];
            a[2 * e + r] = tf32(d[r][b][e]);
          }
        }
#pragma unroll
        for (int r = 0; r < 2; r++) {
          int place = (g + 8 * r) * ROOM + 8 * b + 2 * t;
          for (int e = 0; e < 2; e++) {
            staged[warp][0][place + e] = __uint_as_float(a[2 * e + r]);
            staged[warp][1][place + e] = __uint_as_float(tf32(h1[r][b][e]));
          }
        }
#pragma unroll
        for (int n = 0; n < BLOCKS; n++) mma(c[n], a, back[b][n]);
      }
#pragma unroll
      for (int b = 0; b < BLOCKS; b++)
#pragma unroll
        for (int e = 0; e < 2; e++)
#pragma unroll
          for (int r = 0; r < 2; r++) {
            float v = c[b][2 * r + e] * slope<TANH>(h1[r][b][e]);
            ab1[b][e] += v, a1x[b][e] += v * px[r], a1z[b][e] += v * z;
          }
      __syncwarp();
#pragma unroll
      for (int k = 0; k < 2; k++) {
        auto at = [&](int which, int row, int unit) {
          return __float_as_uint(staged[warp][which][(8 * k + row) * ROOM + unit]);
        };
        uint32_t first[4] = {at(0, t, g), at(0, t, g + 8), at(0, t + 4, g), at(0, t + 4, g + 8)};
        uint32_t second[4] = {at(0, t, g + 16), 0u, at(0, t + 4, g + 16), 0u};
#pragma unroll
        for (int n = 0; n < BLOCKS; n++) {
          uint32_t h[2] = {at(1, t, 8 * n + g), at(1, t + 4, 8 * n + g)};
          mma(a2[0][n], first, h);
          mma(a2[1][n], second, h);
        }
      }
      __syncwarp();
    }
  }

  float* own = sums[warp];
  for (int b = 0; b < BLOCKS; b++)
    for (int e = 0; e < 2; e++) {
      const float found[6] = {over_rows(a1x[b][e]), over_rows(a1z[b][e]), over_rows(ab1[b][e]),
                              over_rows(ab2[b][e]), over_rows(a3m[b][e]), over_rows(a3g[b][e])};
      const int places[6] = {W1X, W1Z, B1, B2, W3M, W3G}, unit = 8 * b + 2 * t + e;
      for (int k = 0; k < 6; k++)
        if (g == 0 && unit < UNITS) own[places[k] + unit] = found[k];
    }
  for (int m = 0; m < 2; m++)
    for (int n = 0; n < BLOCKS; n++)
      for (int k = 0; k < 4; k++) {
        int j = 16 * m + g + 8 * (k / 2), i = 8 * n + 2 * t + k % 2;
        if (j < UNITS && i < UNITS) own[W2 + j * UNITS + i] = a2[m][n][k];
      }
  const float scalars[6] = {over_rows(am), over_rows(ag), over_rows(askip), over_rows(abase),
                            over_rows(aodds), over_rows(total)};
  if (lane == 0)
    for (int k = 0; k < 6; k++) own[B3M + k] = scalars[k];
  __syncthreads();
  for (int i = threadIdx.x; i <= SIZE; i += 32 * WARPS) {
    float v = 0.0f;
    for (int w = 0; w < WARPS; w++) v += sums[w][i];
    if (i < SIZE) gradients[(size_t)blockIdx.x * SIZE + i] = v;
    else values[blockIdx.x] = v;
  }
}

#ifndef EMULATE
namespace ffi = xla::ffi;
using Floats = ffi::Buffer<ffi::F32>;
using Result = ffi::ResultBuffer<ffi::F32>;

ffi::Error launch(cudaStream_t stream, Floats networks, Floats x, Floats y,
                  ffi::Buffer<ffi::S32> sets, Floats nodes, Floats log_weights, bool tanh,
                  bool varying, Result gradients, Result values) {
  auto kernel = tanh ? (varying ? forces<true, true> : forces<true, false>)
                     : (varying ? forces<false, true> : forces<false, false>);
  kernel<<<networks.dimensions()[0], 32 * WARPS, 0, stream>>>(
      networks.typed_data(), x.typed_data(), y.typed_data(), sets.typed_data(), nodes.typed_data(),
      log_weights.typed_data(), x.dimensions()[1], nodes.dimensions()[0], gradients->typed_data(),
      values->typed_data());
  if (cudaGetLastError() != cudaSuccess) return ffi::Error::Internal("the kernel did not start");
  return ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(Forces, launch,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::PlatformStream<cudaStream_t>>()
                                  .Arg<Floats>()
                                  .Arg<Floats>()
                                  .Arg<Floats>()
                                  .Arg<ffi::Buffer<ffi::S32>>()
                                  .Arg<Floats>()
                                  .Arg<Floats>()
                                  .Attr<bool>("tanh")
                                  .Attr<bool>("varying")
                                  .Ret<Floats>()
                                  .Ret<Floats>());
#endif
