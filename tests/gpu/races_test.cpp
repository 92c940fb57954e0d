// Races to the byte, whatever the sizes of the accesses: random ones, judged beside the definition.
#include <catch2/catch.hpp>
#include <random>

#include "gpu/primitives/primitives.h"
#include "patchbay/gpu/device_array.h"
#include "patchbay/gpu/emulator.h"
#include "support.h"

namespace {

using namespace patchbay;
using gpu::DeviceArray;

std::vector<ByteAccess> random_accesses(std::mt19937& random) {
  std::vector<ByteAccess> accesses(3 + random() % 8);
  for (ByteAccess& access : accesses) {
    const int bytes = 1 << random() % 4;
    access = {static_cast<int>(random() % 3), static_cast<int>(random() % (16 / bytes)) * bytes, bytes, random() % 2 == 0, random() % 4 == 0};
  }
  return accesses;
}

/// Two accesses by different threads to one byte, one of which writes, with no barrier between.
bool has_race(const std::vector<ByteAccess>& accesses) {
  for (std::size_t i = 0; i < accesses.size(); ++i) {
    const ByteAccess& a = accesses[i];
    for (std::size_t j = i + 1; j < accesses.size() && !accesses[j].after_barrier; ++j) {
      const ByteAccess& b = accesses[j];
      if (a.thread != b.thread && (a.write || b.write) && a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes) return true;
    }
  }
  return false;
}

std::string report_of(const std::vector<ByteAccess>& accesses, char* bytes, bool shared) {
  const DeviceArray<ByteAccess> there(accesses);
  const DeviceArray<unsigned> out(3);
  return test::message_of([&] {
    gpu::pick(gpu_launchers::byte_accesses, gpu::World::simt_checked)(there.data(), static_cast<int>(accesses.size()), bytes, shared, out.data(), {});
    gpu::device_synchronize();
  });
}

}  // namespace

TEST_CASE("a race is found to the byte, and nothing else is one, whatever the sizes of the accesses", "[emulator]") {
  std::mt19937 random(11);
  const DeviceArray<char> bytes(16, "bytes");  // kept, so that what earlier launches left in the shadow is met too
  int races = 0;
  constexpr int kCases = 300;
  for (int i = 0; i < kCases; ++i) {
    const auto accesses = random_accesses(random);
    const bool shared = random() % 2 == 0, expected = has_race(accesses);
    std::string text = shared ? "shared:" : "global:";
    for (const ByteAccess& a : accesses)
      text += (a.after_barrier ? " | " : " ") + std::to_string(a.thread) + (a.write ? " writes " : " reads ") + std::to_string(a.bytes) + " at " + std::to_string(a.offset);
    gpu::for_each_schedule(4, [&] {
      INFO(text << ", schedule " << gpu::schedule_name());
      const std::string report = report_of(accesses, bytes.data(), shared);
      if (expected) CHECK(report.find("race on ") != std::string::npos);
      else CHECK(report == "no error");
    });
    races += expected;
  }
  CHECK(races > kCases / 5);
  CHECK(races < kCases * 4 / 5);
}
