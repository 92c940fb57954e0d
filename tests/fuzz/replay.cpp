// The fuzz targets without libFuzzer: each file of the given folders, then mutations of them drawn from a seed.
//   fuzz_gguf FOLDER [MUTATIONS PER FILE]
// An input that ends the process is left in crash.input, in the current folder.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <vector>

#include "fuzz.h"

namespace {

using Bytes = std::vector<std::uint8_t>;

Bytes read(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// One to four small changes: a byte, a bit, a number at an edge, a piece gone, doubled, or taken from another file.
Bytes mutated(Bytes bytes, const Bytes& other, std::mt19937_64& random) {
  const auto below = [&](std::size_t n) { return n == 0 ? 0 : static_cast<std::size_t>(random() % n); };
  for (std::size_t changes = 1 + below(4); changes > 0 && !bytes.empty(); --changes) {
    const std::size_t at = below(bytes.size()), length = std::min(bytes.size() - at, 1 + below(16));
    const auto begin = bytes.begin() + static_cast<std::ptrdiff_t>(at), end = begin + static_cast<std::ptrdiff_t>(length);
    switch (below(6)) {
      case 0: *begin = static_cast<std::uint8_t>(random()); break;
      case 1: *begin ^= static_cast<std::uint8_t>(1u << below(8)); break;
      case 2: std::fill(begin, end, below(2) != 0 ? 0xFF : 0x00); break;
      case 3: bytes.erase(begin, end); break;
      case 4: {
        const Bytes piece(begin, end);
        bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(below(bytes.size())), piece.begin(), piece.end());
        break;
      }
      default: {
        const std::size_t from = below(other.size()), count = std::min(other.size() - from, 1 + below(64));
        const auto first = other.begin() + static_cast<std::ptrdiff_t>(from);
        bytes.insert(begin, first, first + static_cast<std::ptrdiff_t>(count));
      }
    }
  }
  return bytes;
}

void run(const Bytes& bytes) {
  // Written before it is tried: what ends the process cannot be written after.
  std::ofstream("crash.input", std::ios::binary).write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return std::fprintf(stderr, "usage: %s FOLDER [MUTATIONS PER FILE]\n", argv[0]), 2;
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(argv[1])) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  std::vector<Bytes> corpus;
  for (const auto& file : files) corpus.push_back(read(file));
  for (const Bytes& bytes : corpus) run(bytes);
  const int mutations = argc > 2 ? std::atoi(argv[2]) : 0;
  std::mt19937_64 random(20261130);
  for (const Bytes& bytes : corpus) {
    for (int i = 0; i < mutations; ++i) run(mutated(bytes, corpus[random() % corpus.size()], random));
  }
  std::filesystem::remove("crash.input");
  std::printf("%zu files, %zu mutations: no finding\n", corpus.size(), corpus.size() * static_cast<std::size_t>(mutations));
  return corpus.empty() ? 1 : 0;
}
