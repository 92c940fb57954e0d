/// @file short_forms.h
/// Options such as --temperature 0.8: short forms of the logits processors' settings, made from their schemas.
#pragma once
#include <map>
#include <string>
#include <vector>

namespace patchbay::app {

/// `option` sets the first parameter of the processor `plugin`.
struct ShortForm {
  std::string option, plugin, parameter, help;
};
/// One for each processor that has a parameter, in the order in which they are applied.
std::vector<ShortForm> short_forms();

/// What the values given for options come to, beside the assignments that the user wrote: a list of processors and a decoder that
/// draws. Temperature 0 is greedy decoding, without processors. A decoder that the user names stays, and is told to sample when
/// it has a parameter `accept` that can say so. @throws Error for contradictions.
std::vector<std::string> with_short_forms(const std::map<std::string, std::string>& given,
                                          const std::vector<std::string>& assignments);

}  // namespace patchbay::app
