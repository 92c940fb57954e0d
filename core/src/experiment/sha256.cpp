#include "experiment/sha256.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <bit>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "files.h"
#include "resources.h"

namespace patchbay {
namespace {

/// The first 32 bits of the fractional parts of the cube roots of the first 64 primes.
constexpr std::uint32_t kRound[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be,
    0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa,
    0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85,
    0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3,
    0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f,
    0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

std::string read_and_hash(const std::string& path) {
  refuse_special_file(path);
  std::ifstream in(path, std::ios::binary);
  if (!in) throw Error(path, "cannot be read");
  Sha256 hash;
  std::string piece(1 << 20, '\0');
  while (in.read(piece.data(), static_cast<std::streamsize>(piece.size())) || in.gcount() > 0)
    hash.update(std::string_view(piece.data(), static_cast<std::size_t>(in.gcount())));
  if (in.bad()) throw Error(path, "reading failed");
  return hash.hex();
}

/// Where the hash of `path` is remembered; "" when the user has no cache folder.
std::string memory_of(const std::string& path) {
  const auto folder = user_cache_folder();
  return folder.empty() ? "" : folder / "sha256" / sha256(path);
}

}  // namespace

void Sha256::block(const unsigned char* bytes) {
  std::uint32_t w[64];
  for (int i = 0; i < 16; ++i)
    w[i] = std::uint32_t{bytes[4 * i]} << 24 | bytes[4 * i + 1] << 16 | bytes[4 * i + 2] << 8 | bytes[4 * i + 3];
  for (int i = 16; i < 64; ++i) {
    const auto s0 = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ (w[i - 15] >> 3);
    const auto s1 = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ (w[i - 2] >> 10);
    w[i] = w[i - 16] + s0 + w[i - 7] + s1;
  }
  auto [a, b, c, d, e, f, g, h] = state_;
  for (int i = 0; i < 64; ++i) {
    const auto t1 = h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) + ((e & f) ^ (~e & g)) + kRound[i] + w[i];
    const auto t2 = (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    h = g; g = f; f = e; e = d + t1;
    d = c; c = b; b = a; a = t1 + t2;
  }
  const std::uint32_t worked[8] = {a, b, c, d, e, f, g, h};
  for (int i = 0; i < 8; ++i) state_[i] += worked[i];
}

void Sha256::update(std::string_view bytes) {
  bytes_ += bytes.size();
  if (!pending_.empty()) {
    const auto taken = std::min<std::size_t>(64 - pending_.size(), bytes.size());
    pending_.append(bytes.substr(0, taken));
    bytes.remove_prefix(taken);
    if (pending_.size() < 64) return;
    block(reinterpret_cast<const unsigned char*>(pending_.data()));
    pending_.clear();
  }
  for (; bytes.size() >= 64; bytes.remove_prefix(64)) block(reinterpret_cast<const unsigned char*>(bytes.data()));
  pending_.assign(bytes);
}

std::string Sha256::hex() {
  const std::uint64_t bits = bytes_ * 8;
  std::string padding(1, '\x80');
  padding.append((119 - bytes_ % 64) % 64, '\0');
  for (int i = 7; i >= 0; --i) padding.push_back(static_cast<char>(bits >> (8 * i)));
  update(padding);
  std::string text;
  for (const auto word : state_) text += fmt::format("{:08x}", word);
  return text;
}

std::string sha256(std::string_view bytes) {
  Sha256 hash;
  hash.update(bytes);
  return hash.hex();
}

std::string sha256_of_file(const std::string& path) {
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0) throw Error(path, std::string("cannot be read: ") + std::strerror(errno));
  const auto full = std::filesystem::absolute(path).lexically_normal().string();
  const auto key = fmt::format("{} {} {}.{} ", info.st_size, info.st_ino, info.st_ctim.tv_sec, info.st_ctim.tv_nsec);
  const auto memory = memory_of(full);
  if (!memory.empty()) {
    std::ifstream in(memory);
    std::string line;
    if (std::getline(in, line) && line.size() == key.size() + 64 && line.starts_with(key)) return line.substr(key.size());
  }
  const auto hash = read_and_hash(path);
  if (!memory.empty()) {
    try {
      std::filesystem::create_directories(std::filesystem::path(memory).parent_path());
      write_file_atomically(memory, key + hash + "\n");
    } catch (const std::exception&) {
      // A hash that can't be remembered is computed again next time; nothing else is lost.
    }
  }
  return hash;
}

std::string sha256_of_files(const std::vector<std::string>& paths) {
  if (paths.size() == 1) return sha256_of_file(paths[0]);
  Sha256 hash;
  for (const std::string& path : paths) hash.update(sha256_of_file(path));
  return hash.hex();
}

}  // namespace patchbay
