// The config.json of a Hugging Face folder: the model's description in it.
#include <nlohmann/json.hpp>

#include "engine/model_spec_hf.h"
#include "fuzz.h"

using namespace patchbay;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto config = nlohmann::json::parse(data, data + size, nullptr, false);
  if (config.is_discarded()) return 0;
  fuzz::may_refuse([&] { read_hf_model_spec(config, "config.json"); });
  return 0;
}
