// A chat template, and after a NUL byte the JSON that it is rendered with (without one: a conversation of our own).
#include <nlohmann/json.hpp>

#include "fuzz.h"
#include "jinja/template.h"

using namespace patchbay;

namespace {

const nlohmann::ordered_json& conversation() {
  static const auto json = nlohmann::ordered_json::parse(R"({"messages": [{"role": "system", "content": "be brief"},
    {"role": "user", "content": "h\u00e9 {{ x }} <|im_end|>"}, {"role": "assistant", "content": null, "tool_calls": [{"type": "function",
    "function": {"name": "f", "arguments": {"a": [1, 2.5, true, null]}}}]}, {"role": "tool", "content": "7"}], "add_generation_prompt": true,
    "bos_token": "<s>", "eos_token": "</s>", "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]})");
  return json;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t end = std::min(input.find('\0'), size);
  nlohmann::ordered_json context = conversation();
  if (end < size) {
    context = nlohmann::ordered_json::parse(input.substr(end + 1), nullptr, false);
    if (context.is_discarded()) return 0;
  }
  jinja::RenderOptions options;
  options.limits = {.template_bytes = 1 << 16, .output_bytes = 1 << 20, .work = 4 << 20};  // small, so that each input takes little time
  options.now = std::tm{.tm_sec = 1, .tm_min = 2, .tm_hour = 3, .tm_mday = 4, .tm_mon = 5, .tm_year = 126};
  fuzz::may_refuse([&] { jinja::render(input.substr(0, end), context, options); });
  return 0;
}
