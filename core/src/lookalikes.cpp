#include "lookalikes.h"

#include <algorithm>
#include <cctype>
#include <string>

namespace patchbay {
namespace {

using namespace std::string_view_literals;

constexpr std::string_view kUnpack = "unpack it first", kConvert = "convert it first";
constexpr std::string_view kOld = "convert the model again with a current tool";

constexpr Lookalike kLookalikes[] = {
    {"version https://git-lfs", "a Git LFS pointer in place of the file", "fetch the file itself (git lfs pull)", true},
    {"\x1f\x8b"sv, "gzip-compressed data", kUnpack},
    {"\x28\xb5\x2f\xfd"sv, "zstd-compressed data", kUnpack},
    {"\xfd""7zXZ"sv, "xz-compressed data", kUnpack},
    {"BZh", "bzip2-compressed data", kUnpack},
    {"PK\x03\x04"sv, "a zip/pickle archive (a PyTorch checkpoint is one)", kConvert},
    {"GGUF", "GGUF", "name it *.gguf"},
    {"lmgg", "old container ggml", kOld},
    {"fmgg", "old container ggmf", kOld},
    {"tjgg", "old container ggjt", kOld},
    {"algg", "old container ggla", kOld},
    {"FUGG", "byte order mismatch", kConvert},
};
constexpr Lookalike kHtml = {"", "HTML, an error or login page in place of the file", "fetch the file again", true};

bool looks_like_html(std::string_view head) {
  std::string lower(head.substr(0, 256));
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
  const std::size_t first = lower.find_first_not_of(" \t\r\n");
  if (first == std::string::npos) return false;
  const std::string_view text = std::string_view(lower).substr(first);
  for (const char* tag : {"<!doctype html", "<html", "<head", "<?xml"}) if (text.starts_with(tag)) return true;
  return false;
}

}  // namespace

const Lookalike* find_lookalike(std::string_view head) {
  if (looks_like_html(head)) return &kHtml;
  for (const Lookalike& known : kLookalikes) {
    if (head.starts_with(known.start)) return &known;
  }
  return nullptr;
}

}  // namespace patchbay
