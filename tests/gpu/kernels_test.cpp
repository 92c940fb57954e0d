// Four kernels of the usual kinds against plain loops, in every world, under several schedules.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "gpu/kernels/kernels.h"
#include "gpu/test_device.h"
#include "patchbay/gpu/emulator.h"

namespace {

using namespace patchbay;
using test::DeviceArray;

constexpr int kSchedules = 8;
std::mt19937 generator(1);

template <class T> std::vector<T> random_values(std::size_t count) {
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<T> values(count);
  for (auto& value : values) value = T(uniform(generator));
  return values;
}
void require_close(const std::vector<float>& got, const std::vector<float>& wanted, float tolerance) {
  REQUIRE(got.size() == wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const bool close = std::fabs(got[i] - wanted[i]) <= tolerance * (1 + std::fabs(wanted[i]));
    if (!close) FAIL("element " << i << " under schedule " << gpu::schedule_name() << ": got " << got[i] << ", wanted " << wanted[i]);
  }
}
template <class T> std::vector<float> plain_gemm(const std::vector<T>& A, const std::vector<T>& B, int M, int N, int K) {
  std::vector<float> C(static_cast<std::size_t>(M) * N);
  for (int m = 0; m < M; ++m)
    for (int n = 0; n < N; ++n) {
      double sum = 0;
      for (int k = 0; k < K; ++k) sum += static_cast<double>(static_cast<float>(A[m * K + k])) * static_cast<float>(B[k * N + n]);
      C[m * N + n] = static_cast<float>(sum);
    }
  return C;
}
/// Runs `body(world)` in both worlds under all schedules.
template <class Body> void everywhere(Body body) {
  for (const gpu::World world : test::test_worlds()) test::for_each_schedule(kSchedules, [&] { body(world); });
}

template <class T, class Launcher> void check_gemm_mma(const Launcher& launcher) {
  const int M = 128, N = 64, K = 96;
  const auto A = random_values<T>(M * K), B = random_values<T>(K * N);
  const auto wanted = plain_gemm(A, B, M, N, K);
  everywhere([&](gpu::World world) {
    const DeviceArray<T> a(A, "A"), b(B, "B");
    const DeviceArray<float> c(M * N, "C");
    gpu::pick(launcher, world)(a.data(), b.data(), c.data(), M, N, K, {});
    require_close(c.host(), wanted, 1e-3f);
  });
}

}  // namespace

TEST_CASE("emulated: tiled GEMM with tails") {
  const int M = 50, N = 45, K = 33;
  const auto A = random_values<float>(M * K), B = random_values<float>(K * N);
  const auto wanted = plain_gemm(A, B, M, N, K);
  everywhere([&](gpu::World world) {
    const DeviceArray<float> a(A, "A"), b(B, "B"), c(M * N, "C");
    gpu::pick(gpu_launchers::gemm_tiled, world)(a.data(), b.data(), c.data(), M, N, K, {});
    require_close(c.host(), wanted, 1e-4f);
  });
}

TEST_CASE("emulated: 4-bit GEMV, a warp per row") {
  const int N = 10, K = 512, G = 64;
  std::vector<std::uint32_t> W(N * K / 8);
  for (auto& word : W) word = static_cast<std::uint32_t>(generator());
  const auto scales = random_values<__half>(N * K / G), x = random_values<__half>(K);
  std::vector<float> wanted(N);
  for (int n = 0; n < N; ++n) {
    double sum = 0;
    for (int k = 0; k < K; ++k)
      sum += (static_cast<int>(W[(n * K + k) / 8] >> (k % 8 * 4) & 15) - 8) * static_cast<double>(float(scales[n * (K / G) + k / G])) * float(x[k]);
    wanted[n] = static_cast<float>(sum);
  }
  everywhere([&](gpu::World world) {
    const DeviceArray<std::uint32_t> w(W, "W");
    const DeviceArray<__half> s(scales, "scales"), xs(x, "x");
    const DeviceArray<float> y(N, "y");
    gpu::pick(gpu_launchers::gemv_int4, world)(w.data(), s.data(), xs.data(), y.data(), N, K, G, {});
    require_close(y.host(), wanted, 1e-4f);
  });
}

TEST_CASE("emulated: decode attention over a paged cache, NaN in unused slots") {
  constexpr int D = 64, kPage = 16, seqs = 4, kv_heads = 2, group = 4, max_pages = 6, pages = seqs * max_pages + 3;
  const std::vector<int> len = {1, 70, 64, 0};
  std::vector<int> table(seqs * max_pages, -1), order(pages);
  for (int i = 0; i < pages; ++i) order[i] = i;
  std::shuffle(order.begin(), order.end(), generator);
  for (int s = 0, next = 0; s < seqs; ++s)
    for (int i = 0; i * kPage < len[s]; ++i) table[s * max_pages + i] = order[next++];
  const auto q = random_values<__half>(seqs * kv_heads * group * D);
  std::vector<__half> k(static_cast<std::size_t>(pages) * kv_heads * kPage * D, __half(NAN)), v = k;
  const auto row = [&](int s, int head, int token) {
    return ((static_cast<std::size_t>(table[s * max_pages + token / kPage]) * kv_heads + head) * kPage + token % kPage) * D;
  };
  for (int s = 0; s < seqs; ++s)
    for (int head = 0; head < kv_heads; ++head)
      for (int t = 0; t < len[s]; ++t) {
        const auto fresh = random_values<__half>(2 * D);
        std::copy(fresh.begin(), fresh.begin() + D, k.begin() + static_cast<std::ptrdiff_t>(row(s, head, t)));
        std::copy(fresh.begin() + D, fresh.end(), v.begin() + static_cast<std::ptrdiff_t>(row(s, head, t)));
      }
  std::vector<float> wanted(q.size(), 0.0f);
  for (int s = 0; s < seqs; ++s)
    for (int h = 0; h < kv_heads * group; ++h) {
      std::vector<double> p(len[s]);
      double largest = -1e30, total = 0;
      for (int t = 0; t < len[s]; ++t) {
        for (int d = 0; d < D; ++d) p[t] += static_cast<double>(float(q[(s * kv_heads * group + h) * D + d])) * float(k[row(s, h / group, t) + d]) / 8.0;
        largest = std::max(largest, p[t]);
      }
      for (auto& weight : p) total += weight = std::exp(weight - largest);
      for (int d = 0; d < D && len[s]; ++d) {
        double sum = 0;
        for (int t = 0; t < len[s]; ++t) sum += p[t] * float(v[row(s, h / group, t) + d]);
        wanted[(s * kv_heads * group + h) * D + d] = static_cast<float>(sum / total);
      }
    }
  everywhere([&](gpu::World world) {
    const DeviceArray<__half> dq(q, "q"), dk(k, "k"), dv(v, "v");
    const DeviceArray<int> dtable(table, "table"), dlen(len, "len");
    const DeviceArray<float> out(q.size(), "out");
    gpu::pick(gpu_launchers::attn_decode, world)(dq.data(), dk.data(), dv.data(), dtable.data(), dlen.data(), out.data(), seqs, kv_heads, group, max_pages, {});
    require_close(out.host(), wanted, 1e-4f);
  });
}

TEST_CASE("emulated: tensor-core GEMM, fp16 and bf16") {
  check_gemm_mma<__half>(gpu_launchers::gemm_f16);
  check_gemm_mma<__nv_bfloat16>(gpu_launchers::gemm_bf16);
}
