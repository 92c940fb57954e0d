/// @file gguf_split.h
/// A model cut into several GGUF files, NAME-00001-of-00003.gguf and so on: which files belong together, and whether they do.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "gguf_reader.h"

namespace patchbay {

/// What a file says of its place among the parts.
struct SplitPlace {
  std::uint64_t number = 0, count = 0;    ///< split.no, from 0; split.count
  std::optional<std::uint64_t> tensors;   ///< split.tensors.count, of all parts
};
/// Nothing for a whole model. @throws Error for keys that are no part's.
std::optional<SplitPlace> split_place(const GgufContents& contents, const std::string& shown);
/// All parts' paths, in order, from the path of one. @throws Error unless it is named as its keys say.
std::vector<std::string> paths_of_parts(const std::string& path, const SplitPlace& place);

struct SplitFile {
  std::string shown;
  const GgufContents* contents = nullptr;
};
/// @throws Error unless the files are the parts of one model: numbered in order, with no key that differs from the first part's, no
/// tensor twice, and as many tensors as there should be.
void check_parts(const std::vector<SplitFile>& parts);

}  // namespace patchbay
