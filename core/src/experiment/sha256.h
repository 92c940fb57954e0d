/// @file sha256.h
/// SHA-256 (FIPS 180-4): what names runs, texts and model files.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "patchbay/error.h"

namespace patchbay {

class PATCHBAY_API Sha256 {
 public:
  void update(std::string_view bytes);
  /// 64 lower-case hexadecimal digits. The object is spent afterwards.
  std::string hex();

 private:
  void block(const unsigned char* bytes);
  std::array<std::uint32_t, 8> state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::string pending_;
  std::uint64_t bytes_ = 0;
};

PATCHBAY_API std::string sha256(std::string_view bytes);
/// Of a file's bytes. Remembered in the user's cache folder under the file's path, size, inode and time of last change, so that a
/// model of many gigabytes is read once.
PATCHBAY_API std::string sha256_of_file(const std::string& path);
/// Of a model's files: of one, that of its bytes; of several parts, that of their hashes one after the other.
PATCHBAY_API std::string sha256_of_files(const std::vector<std::string>& paths);

}  // namespace patchbay
