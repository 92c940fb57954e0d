// The first bytes of a model file, and of what people have in its place.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "gguf_cursor.h"
#include "utf8.h"

namespace patchbay {
namespace {

using namespace std::string_view_literals;

struct Lookalike { std::string_view start, problem, remedy; };

constexpr std::string_view kUnpack = "unpack it first", kConvert = "convert it to GGUF";
constexpr std::string_view kOld = "convert the model again with a current tool";

constexpr Lookalike kLookalikes[] = {
    {"version https://git-lfs", "not GGUF: a Git LFS pointer in place of the model", "fetch the file itself (git lfs pull)"},
    {"\x1f\x8b"sv, "bad magic: gzip-compressed", kUnpack},
    {"\x28\xb5\x2f\xfd"sv, "bad magic: zstd-compressed", kUnpack},
    {"\xfd""7zXZ"sv, "bad magic: xz-compressed", kUnpack},
    {"BZh", "bad magic: bzip2-compressed", kUnpack},
    {"PK\x03\x04"sv, "bad magic: a zip archive (a PyTorch checkpoint is one)", kConvert},
    {"lmgg", "bad magic: old container ggml", kOld},
    {"fmgg", "bad magic: old container ggmf", kOld},
    {"tjgg", "bad magic: old container ggjt", kOld},
    {"algg", "bad magic: old container ggla", kOld},
    {"FUGG", "bad magic: byte order mismatch", kConvert},
    {"\0\0\0\0"sv, "bad magic: the file begins with zeros, as one does whose download never came", "fetch it again"},
};

bool looks_like_html(std::string_view head) {
  std::string lower(head.substr(0, 256));
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
  const std::size_t first = lower.find_first_not_of(" \t\r\n");
  if (first == std::string::npos) return false;
  const std::string_view text = std::string_view(lower).substr(first);
  for (const char* tag : {"<!doctype html", "<html", "<head", "<?xml"}) if (text.starts_with(tag)) return true;
  return false;
}

/// Nothing but characters that a text has: no model begins so.
bool looks_like_text(std::string_view head) {
  return std::ranges::all_of(head, [](unsigned char c) { return (c >= 0x20 && c != 0x7F) || c == '\n' || c == '\r' || c == '\t'; });
}

[[noreturn]] void refuse(const GgufCursor& in, std::string_view head) {
  if (looks_like_html(head)) {
    in.fail(0, "not GGUF: looks like HTML, an error or login page in place of the model", "", "fetch the file again");
  }
  for (const Lookalike& known : kLookalikes) {
    if (head.starts_with(known.start)) in.fail(0, std::string(known.problem), "'GGUF'", std::string(known.remedy));
  }
  if (const auto start = head.substr(0, 64); head.size() >= 16 && looks_like_text(start)) {
    const bool json = start.substr(std::min(start.find_first_not_of(" \t\r\n"), start.size())).starts_with('{');
    in.fail(0, fmt::format("not GGUF: {}, which begins '{}'", json ? "JSON" : "a text", escaped(start.substr(0, 24))), "'GGUF'",
            json ? "tokenize --tokenizer reads a tokenizer.json, report a folder of results" : "give a model file");
  }
  if (head.size() > 8 && head[8] == '{') in.fail(0, "bad magic: looks like safetensors", "'GGUF'", std::string(kConvert));
  in.fail(0, fmt::format("bad magic '{}'", escaped(head.substr(0, 4))), "'GGUF'");
}

}  // namespace

std::uint32_t read_magic_and_version(GgufCursor& in) {
  const std::string_view head(reinterpret_cast<const char*>(in.at(0)), in.size());
  if (head.empty()) in.fail(0, "truncated header: the file is empty");
  constexpr std::string_view kMagic = "GGUF";
  if (!head.starts_with(kMagic) && !kMagic.starts_with(head)) refuse(in, head);
  in.number<std::uint32_t>("truncated header");
  const auto version = in.number<std::uint32_t>("truncated header");
  if (version == 2 || version == 3) return version;
  if ((version & 0x00FFFFFFu) == 0 && version != 0) {
    in.fail(4, "byte order mismatch: a big-endian file", "little-endian", std::string(kConvert));
  }
  in.fail(4, fmt::format("unsupported version {}", version), "2 or 3", version < 2 ? std::string(kOld) : std::string());
}

}  // namespace patchbay
