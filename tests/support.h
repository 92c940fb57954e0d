// Shared by all tests: where things are, and how a test that lacks its input says so.
#pragma once
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>
#include <vector>

#include "patchbay/error.h"

namespace patchbay::test {

inline std::string source_path(const std::string& path) { return std::string(PATCHBAY_SOURCE_DIR) + "/" + path; }
/// A file of ../shared, or "" when it is not there (the project works without it).
inline std::string shared_path(const std::string& path) {
  const char* folder = std::getenv("PATCHBAY_SHARED");
  const std::string full = (folder ? std::string(folder) : source_path("../shared")) + "/" + path;
  return std::filesystem::exists(full) ? full : "";
}
/// A model file that scripts/fetch_model.sh keeps, or "".
inline std::string model_path(const std::string& name) {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  const std::string folder = cache && *cache ? cache : std::string(home ? home : "") + "/.cache";
  const std::string full = folder + "/patchbay/models/" + name;
  return std::filesystem::exists(full) ? full : "";
}
inline std::string smollm2_path() { return model_path("SmolLM2-135M-Instruct.Q4_1.gguf"); }
inline std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
/// A folder that goes away with the test.
struct TemporaryFolder {
  std::string path;
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "patchbay_test_XXXXXX").string();
    if (!mkdtemp(name.data())) throw std::filesystem::filesystem_error("mkdtemp", name, std::error_code(errno, std::generic_category()));
    path = name;
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() { std::filesystem::remove_all(path); }
  std::string operator/(const std::string& name) const { return path + "/" + name; }
};

/// What a call's patchbay::Error says; "no error" when it throws none.
template <class Call>
std::string message_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

/// Floats written as the hexadecimal digits of their bytes, as the goldens' generators do.
inline std::vector<float> floats_of_hex(const std::string& hex) {
  std::vector<float> values(hex.size() / 8);
  for (std::size_t i = 0; i < 4 * values.size(); ++i) {
    const auto byte = static_cast<std::uint8_t>(std::stoi(hex.substr(2 * i, 2), nullptr, 16));
    std::memcpy(reinterpret_cast<std::byte*>(values.data()) + i, &byte, 1);
  }
  return values;
}

int& skipped_cases();  // in test_main.cpp

}  // namespace patchbay::test

/// Ends the test case, with a message, when `path` is "". A program all of whose cases were skipped exits with 77.
#define PATCHBAY_NEEDS(path, what)                                              \
  do {                                                                          \
    if ((path).empty()) {                                                       \
      std::fprintf(stderr, "skipped: %s is not here\n", what);                  \
      ++::patchbay::test::skipped_cases();                                      \
      return;                                                                   \
    }                                                                           \
  } while (false)
