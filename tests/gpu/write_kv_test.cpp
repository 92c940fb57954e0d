// Keys and values written into the cache by kernels: the bytes that the host's formats write, under 8 schedules.
#include <catch2/catch.hpp>

#include "cuda_ops.h"
#include "gpu/device_tensor.h"
#include "patchbay/gpu/emulator.h"
#include "patchbay/kv_rows.h"
#include "patchbay/plugin.h"
#include "support.h"

namespace patchbay::test {
namespace {

const auto kWorld = test_world();

/// A step of three sequences in slabs of `tokens` tokens, of 2 layers, and the host's copy of the slabs.
struct Cache {
  static constexpr int kHeads = 2, kLayer = 1;
  static constexpr std::int64_t kCommitted[] = {0, 5, 13}, kRows[] = {3, 1, 3}, kTotal = 7, kSlabs = 4;

  Cache(const KvFormat& format, std::int64_t size, std::int64_t tokens)
      : slab(format, {.layers = 2, .kv_heads = kHeads, .head_size = static_cast<int>(size), .max_tokens = 20}, tokens),
        bytes(3 * kSlabs * 2 * slab.bytes(), std::byte{0xFF}),
        device(bytes) {
    step.rows = kTotal;
    step.sequences = 3;
    step.shape = slab.shape();
    step.slabs_per_sequence = kSlabs;
    for (int s = 0; s < 3; ++s) {
      for (int i = 0; i < kSlabs; ++i)
        places.push_back(((s * kSlabs + i) * 5 % (3 * kSlabs)) * 2 * slab.bytes());  // out of order
      for (int i = 0; i < kRows[s]; ++i) {
        sequence.push_back(s);
        slot.push_back(static_cast<std::int32_t>(kCommitted[s] + i));
      }
    }
    std::vector<std::byte*> table;
    for (const std::int64_t place : places) table.push_back(device.data() + place);
    tables = std::make_unique<DeviceArray<std::byte*>>(table);
    sequences = std::make_unique<DeviceArray<std::int32_t>>(sequence);
    slots = std::make_unique<DeviceArray<std::int32_t>>(slot);
    step.slabs = tables->data();
    step.row_sequence = sequences->data();
    step.row_slot = slots->data();
  }
  /// The host's bytes after it stored k, v (T,G,D).
  std::vector<std::byte> stored(std::vector<float>& k, std::vector<float>& v, std::int64_t size) {
    std::vector<std::byte> result = bytes;
    for (std::int64_t row = 0; row < kTotal; ++row) {
      std::byte* const at = &result[places[sequence[row] * kSlabs + slot[row] / slab.tokens()] + kLayer * step.shape.layer_bytes];
      slab.store(at, slot[row] % slab.tokens(), View<const float, 2>(&k[row * kHeads * size], {kHeads, size}),
                 View<const float, 2>(&v[row * kHeads * size], {kHeads, size}));
    }
    return result;
  }

  KvSlab slab;
  std::vector<std::byte> bytes;
  DeviceArray<std::byte> device;
  GpuStep step;
  std::vector<std::int64_t> places;
  std::vector<std::int32_t> sequence, slot;
  std::unique_ptr<DeviceArray<std::byte*>> tables;
  std::unique_ptr<DeviceArray<std::int32_t>> sequences, slots;
};

std::size_t differences(const std::vector<std::byte>& a, const std::vector<std::byte>& b) {
  std::size_t count = a.size() != b.size();
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) count += a[i] != b[i];
  return count;
}

void for_each_format(const std::function<void(const KvFormat&)>& check) {
  for (const char* name : {"fp32", "fp16", "int8", "fp8_e4m3", "fp8_e5m2"}) {
    INFO(name);
    check(*make<KvFormat>(PluginSpec{name, nullptr}));
  }
}

TEST_CASE("cuda write_kv: the host's bytes, and no others") {
  std::mt19937 random(1);
  for_each_format([&](const KvFormat& format) {
    for (const DType type : {DType::f32, DType::f16, DType::bf16}) {
      for (const auto& [size, tokens] : {std::pair<std::int64_t, std::int64_t>{64, 20}, {80, 16}, {5, 7}}) {
        INFO(name_of(type) << " D " << size << " slabs of " << tokens);
        auto k = rounded(type, random_values(random, 7 * 2 * size)), v = rounded(type, random_values(random, 7 * 2 * size));
        std::fill_n(k.begin() + 2 * size, size, 0.0f);      // a row of zeros
        if (format.layout().scaled) v[3 * size + 1] = NAN;  // one with NaN: all of it reads back as NaN
        std::fill_n(v.begin() + 5 * size, size, 1e-30f);    // one whose scale is 0 in fp16
        v = rounded(type, v);
        const DeviceTensor keys(type, {7, 2, size}, k, 3), values(type, {7, 2, size}, v, 3);
        Cache cache(format, size, tokens);
        const auto expected = cache.stored(k, v, size);
        for_each_schedule(8, [&] {
          for (const Version version : {Version::naive, Version::fast}) {
            cache.device.upload(cache.bytes);
            gpu::pick(gpu_launchers::write_kv, kWorld)(version, keys.ref(), values.ref(), cache.step, Cache::kLayer, {});
            CHECK(differences(cache.device.host(), expected) == 0);
          }
        });
      }
    }
  });
}

TEST_CASE("cuda rope_write_kv: the bytes of rope and write_kv") {
  std::mt19937 random(2);
  int turn = 0;
  for_each_format([&](const KvFormat& format) {
    for (const DType type : {DType::f32, DType::f16, DType::bf16}) {
      for (const auto& [size, dims] : {std::pair<std::int64_t, std::int64_t>{64, 64}, {80, 32}}) {
        for (const bool interleaved : {false, true}) {
          const DeviceTensor angles(DType::f32, {9, dims}, random_values(random, 9 * dims)),
              at(DType::i32, {7}, {0, 1, 2, 5, 8, 3, 4});
          const RopeSpec spec{static_cast<int>(dims), interleaved, angles.ref()};
          const std::int64_t heads = std::array{2, 6, 16}[turn++ % 3];  // 1, 3 or 8 share a key/value head
          const auto q = random_values(random, 7 * heads * size), k = random_values(random, 7 * 2 * size);
          const DeviceTensor values(type, {7, 2, size}, random_values(random, 7 * 2 * size)), queries(type, {7, heads, size}, q, 3);
          const DeviceTensor keys(type, {7, 2, size}, k, 3);
          Cache cache(format, size, 16);
          gpu::pick(gpu_launchers::rope, kWorld)(Version::naive, queries.ref(), at.ref(), spec, {});
          gpu::pick(gpu_launchers::rope, kWorld)(Version::naive, keys.ref(), at.ref(), spec, {});
          gpu::pick(gpu_launchers::write_kv, kWorld)(Version::fast, keys.ref(), values.ref(), cache.step, Cache::kLayer, {});
          const auto expected = cache.device.host();
          for_each_schedule(8, [&] {
            const DeviceTensor fused(type, {7, heads, size}, q, 3), raw(type, {7, 2, size}, k, 3);
            cache.device.upload(cache.bytes);
            gpu::pick(gpu_launchers::rope_write_kv, kWorld)(fused.ref(), raw.ref(), values.ref(), at.ref(), spec, cache.step,
                                                            Cache::kLayer, {});
            CHECK(fused.values() == queries.values());
            CHECK(differences(cache.device.host(), expected) == 0);
            CHECK(raw.values() == rounded(type, k));
          });
        }
      }
    }
  });
}

TEST_CASE("cuda write_kv: a layout that no kernel writes is an error") {
  Cache cache(*make<KvFormat>(PluginSpec{"fp16", nullptr}), 64, 16);
  cache.step.shape.layout = {DType::i8, false};
  const DeviceTensor rows(DType::f16, {7, 2, 64});
  const auto write = [&] {
    gpu::pick(gpu_launchers::write_kv, kWorld)(Version::fast, rows.ref(), rows.ref(), cache.step, 0, {});
  };
  CHECK(message_of(write).find("no kernel writes rows of i8") != std::string::npos);
}

}  // namespace
}  // namespace patchbay::test
