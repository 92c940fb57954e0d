/// @file lookalikes.h
/// What people have in place of a model file: told by its first bytes, so that a message can say more than "bad magic".
#pragma once
#include <string_view>

namespace patchbay {

struct Lookalike {
  std::string_view start;       ///< the file's first bytes
  std::string_view what, remedy;
  bool in_place = false;        ///< no other form of a model, but something that was saved instead of it
};
/// Null when the first bytes say nothing.
const Lookalike* find_lookalike(std::string_view head);

}  // namespace patchbay
