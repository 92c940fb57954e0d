// The first bytes of a GGUF file, and of what people have in its place.
#include <fmt/format.h>

#include <algorithm>

#include "gguf_cursor.h"
#include "lookalikes.h"
#include "utf8.h"

namespace patchbay {
namespace {

/// Nothing but characters that a text has: no model begins so.
bool looks_like_text(std::string_view head) {
  return std::ranges::all_of(head, [](unsigned char c) { return (c >= 0x20 && c != 0x7F) || c == '\n' || c == '\r' || c == '\t'; });
}

[[noreturn]] void refuse(const GgufCursor& in, std::string_view head) {
  if (const Lookalike* known = find_lookalike(head)) {
    in.fail(0, fmt::format("{}{}", known->in_place ? "not GGUF: looks like " : "bad magic: ", known->what), "'GGUF'", std::string(known->remedy));
  }
  if (const auto start = head.substr(0, 64); head.size() >= 16 && looks_like_text(start)) {
    const bool json = start.substr(std::min(start.find_first_not_of(" \t\r\n"), start.size())).starts_with('{');
    in.fail(0, fmt::format("not GGUF: {}, which begins '{}'", json ? "JSON" : "a text", escaped(start.substr(0, 24))), "'GGUF'",
            json ? "tokenize --tokenizer reads a tokenizer.json, report a folder of results" : "give a model file");
  }
  if (head.starts_with(std::string_view("\0\0\0\0", 4))) in.fail(0, "bad magic: the file begins with zeros, as one does whose download never came", "'GGUF'", "fetch it again");
  if (head.size() > 8 && head[8] == '{') in.fail(0, "bad magic: looks like safetensors", "'GGUF'", "name it *.safetensors, or give its folder");
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
    in.fail(4, "byte order mismatch: a big-endian file", "little-endian", "convert it to little-endian GGUF");
  }
  in.fail(4, fmt::format("unsupported version {}", version), "2 or 3", version < 2 ? "convert the model again with a current tool" : "");
}

}  // namespace patchbay
