#include "gguf_split.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "utf8.h"

namespace patchbay {
namespace {

constexpr std::string_view kNumber = "split.no", kCount = "split.count", kTensors = "split.tensors.count";
constexpr const char* kRemedy = "put all parts of one model, and no others, into one folder under the names they were published with";

const MetaEntry* find(const GgufContents& contents, std::string_view key) {
  const auto found = std::ranges::find(contents.metadata, key, &MetaEntry::key);
  return found == contents.metadata.end() ? nullptr : &*found;
}

std::optional<std::uint64_t> integer(const GgufContents& contents, std::string_view key, const std::string& shown) {
  const MetaEntry* entry = find(contents, key);
  if (!entry) return std::nullopt;
  if (const auto* value = std::get_if<std::uint64_t>(&entry->value)) return *value;
  if (const auto* value = std::get_if<std::int64_t>(&entry->value); value && *value >= 0) return static_cast<std::uint64_t>(*value);
  throw Error(fmt::format("{}: {}", shown, key), "is no count", "an integer of 0 or more");
}

std::string ending(std::uint64_t number, std::uint64_t count) { return fmt::format("-{:05}-of-{:05}.gguf", number + 1, count); }

}  // namespace

std::optional<SplitPlace> split_place(const GgufContents& contents, const std::string& shown) {
  const auto count = integer(contents, kCount, shown);
  if (!count || *count <= 1) return std::nullopt;
  const auto number = integer(contents, kNumber, shown);
  if (!number) throw Error(fmt::format("{}: {}", shown, kNumber), "missing key", "", kRemedy);
  if (*number >= *count) {
    throw Error(fmt::format("{}: {}", shown, kNumber), fmt::format("bad split index {} of {}", *number, *count), fmt::format("0 to {}", *count - 1));
  }
  return SplitPlace{*number, *count, integer(contents, kTensors, shown)};
}

std::vector<std::string> paths_of_parts(const std::string& path, const SplitPlace& place) {
  const std::string own = ending(place.number, place.count);
  if (!path.ends_with(own)) {
    throw Error(fmt::format("{}: {}", escaped(path), kCount),
                fmt::format("missing shard: this is part {} of {}, but its name does not lead to the others", place.number + 1, place.count),
                "NAME" + own, kRemedy);
  }
  std::vector<std::string> paths;
  for (std::uint64_t i = 0; i < place.count; ++i) paths.push_back(path.substr(0, path.size() - own.size()) + ending(i, place.count));
  return paths;
}

void check_parts(const std::vector<SplitFile>& parts) {
  std::map<std::string_view, const SplitFile*> owners;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const SplitFile& part = parts[i];
    const auto place = split_place(*part.contents, part.shown);
    if (!place || place->number != i) {
      throw Error(part.shown, fmt::format("is not part {} of {}", i + 1, parts.size()),
                  fmt::format("{} {} and {} {}", kNumber, i, kCount, parts.size()), kRemedy);
    }
    for (const MetaEntry& entry : part.contents->metadata) {
      const MetaEntry* first = find(*parts[0].contents, entry.key);
      if (first && entry.key != kNumber && first->value != entry.value) {
        throw Error(fmt::format("{}: {}", part.shown, entry.key), "differs from the first part's: these are parts of different models", "", kRemedy);
      }
    }
    for (const FileTensor& tensor : part.contents->tensors) {
      const auto [owner, is_new] = owners.emplace(tensor.name, &part);
      if (!is_new) {
        throw Error(fmt::format("{}: tensor '{}'", part.shown, escaped(std::string(tensor.name))),
                    "duplicate tensor name: it is in " + owner->second->shown + " as well", "", kRemedy);
      }
    }
  }
  const auto wanted = split_place(*parts[0].contents, parts[0].shown)->tensors;
  if (wanted && *wanted != owners.size()) {
    throw Error(fmt::format("{}: {}", parts[0].shown, kTensors), fmt::format("is {}, but the parts hold {} tensors", *wanted, owners.size()), "",
                kRemedy);
  }
}

}  // namespace patchbay
