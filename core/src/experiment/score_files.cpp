// The two binary files of an evaluation: scores per token, and the baseline's hidden states. Little-endian, as docs/measuring.md says.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "experiment/score_files.h"

#include "experiment/evaluation.h"
#include "files.h"

namespace patchbay {
namespace {

struct ScoresHeader {
  char magic[8] = {'p', 'b', 's', 'c', 'o', 'r', 'e', '1'};
  std::uint32_t windows = 0, per_window = 0;
  std::uint32_t has_kl = 0, reserved = 0;
};
static_assert(sizeof(ScoresHeader) == 24);

template <class T>
void append_bytes(std::string& out, const std::vector<T>& values) {
  out.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

template <class T>
void take_bytes(const std::string& in, std::size_t& at, std::vector<T>& values) {
  if (!values.empty()) std::memcpy(values.data(), in.data() + at, values.size() * sizeof(T));
  at += values.size() * sizeof(T);
}

/// Bytes of the whole file.
std::uint64_t file_bytes(const ScoresHeader& header) {
  const auto n = std::uint64_t{header.windows} * header.per_window, each = std::uint64_t{header.has_kl ? 9u : 5u};
  return n > UINT64_MAX / 16 ? UINT64_MAX : sizeof header + n * each;
}

bool has_magic(const ScoresHeader& header) { return std::memcmp(header.magic, ScoresHeader{}.magic, sizeof header.magic) == 0; }

constexpr const char* kMakeAgain = "run the experiment again with --resume: scores that are missing or damaged are made again, and so is their record";

}  // namespace

bool scores_are_whole(const std::string& path) {
  std::error_code code;
  const auto bytes = std::filesystem::file_size(path, code);
  ScoresHeader header;
  std::ifstream file(path, std::ios::binary);
  if (code || !file.read(reinterpret_cast<char*>(&header), sizeof header)) return false;
  return has_magic(header) && header.has_kl <= 1 && bytes == file_bytes(header);
}

void write_scores(const std::string& path, const TokenScores& scores) {
  ScoresHeader header;
  header.windows = static_cast<std::uint32_t>(scores.windows);
  header.per_window = static_cast<std::uint32_t>(scores.per_window);
  header.has_kl = scores.kl.empty() ? 0 : 1;
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
  append_bytes(bytes, scores.nll);
  append_bytes(bytes, scores.kl);
  append_bytes(bytes, scores.top1);
  write_file_atomically(path, bytes);
}

TokenScores read_scores(const std::string& path) {
  if (!std::filesystem::exists(path)) throw Error(path, "the token scores are not here", {}, kMakeAgain);
  const auto bytes = read_whole_file(path);
  ScoresHeader header;
  std::memcpy(&header, bytes.data(), std::min(bytes.size(), sizeof header));
  if (bytes.size() < sizeof header || !has_magic(header)) throw Error(path, "is not a file of token scores", {}, kMakeAgain);
  if (header.has_kl > 1 || bytes.size() != file_bytes(header)) throw Error(path, "token scores are cut or damaged", {}, kMakeAgain);
  const auto n = std::size_t{header.windows} * header.per_window;
  TokenScores scores{header.windows, header.per_window, std::vector<float>(n), std::vector<float>(header.has_kl ? n : 0),
                     std::vector<std::uint8_t>(n)};
  std::size_t at = sizeof header;
  take_bytes(bytes, at, scores.nll);
  take_bytes(bytes, at, scores.kl);
  take_bytes(bytes, at, scores.top1);
  return scores;
}

struct HiddenFile::Impl {
  std::string path, beside;  ///< beside: where it is written until finish(); "" for reading
  std::int64_t hidden_size = 0;
  mutable std::fstream file;
};

HiddenFile::HiddenFile() : impl_(std::make_unique<Impl>()) {}
HiddenFile::HiddenFile(HiddenFile&&) noexcept = default;
HiddenFile::~HiddenFile() {
  std::error_code ignored;
  if (impl_ && !impl_->beside.empty()) std::filesystem::remove(impl_->beside, ignored);
}

HiddenFile HiddenFile::create(const std::string& path, std::int64_t hidden_size) {
  HiddenFile file;
  file.impl_->path = path;
  file.impl_->beside = path + ".part" + std::to_string(::getpid());
  file.impl_->hidden_size = hidden_size;
  file.impl_->file.open(file.impl_->beside, std::ios::binary | std::ios::out | std::ios::trunc);
  if (!file.impl_->file) throw Error(path, "cannot be written");
  return file;
}

HiddenFile HiddenFile::open(const std::string& path, std::int64_t hidden_size) {
  HiddenFile file;
  file.impl_->path = path;
  file.impl_->hidden_size = hidden_size;
  file.impl_->file.open(path, std::ios::binary | std::ios::in);
  if (!file.impl_->file) throw Error(path, "cannot be read");
  return file;
}

void HiddenFile::append(View<const float, 2> rows) {
  if (!rows.contiguous() || rows.shape[1] != impl_->hidden_size) throw Error(impl_->path, "rows of another size");
  impl_->file.write(reinterpret_cast<const char*>(rows.data), rows.size() * static_cast<std::int64_t>(sizeof(float)));
  if (!impl_->file) throw Error(impl_->path, "writing failed", {}, "make room, then go on with --resume");
}

void HiddenFile::finish() {
  impl_->file.close();
  if (!impl_->file) throw Error(impl_->path, "writing failed", {}, "make room, then go on with --resume");
  std::error_code code;
  std::filesystem::rename(impl_->beside, impl_->path, code);
  if (code) throw Error(impl_->path, "renaming failed: " + code.message(), {}, "see to the folder, then go on with --resume");
  impl_->beside.clear();
}

void HiddenFile::read(std::int64_t first_row, View<float, 2> rows) const {
  const auto row_bytes = impl_->hidden_size * static_cast<std::int64_t>(sizeof(float));
  impl_->file.clear();
  impl_->file.seekg(first_row * row_bytes);
  impl_->file.read(reinterpret_cast<char*>(rows.data), rows.shape[0] * row_bytes);
  if (!impl_->file) throw Error(impl_->path, "hidden states are cut", {}, "delete the file, then go on with --resume");
}

}  // namespace patchbay
