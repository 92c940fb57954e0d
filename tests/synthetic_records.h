// Small made-up records, and folders for them that go away with the test.
#pragma once
#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "experiment/records.h"
#include "support.h"

namespace patchbay::test {

struct Folder : TemporaryFolder {
  void write(const std::string& name, const std::vector<Json>& records) const {
    std::string lines;
    for (const auto& record : records) lines += record.dump() + "\n";
    write_file_atomically(path + "/" + name, lines);
  }
};

/// The i-th run of a sweep over bits: more bits, more bytes, less perplexity.
inline Json synthetic_record(const std::string& hash, int i, bool baseline = false) {
  const auto bits = std::to_string(3 + i);
  const double perplexity = 20 + 8 * std::exp(-0.4 * i), speed = 150 - 9 * i;
  return {{"schema", 1}, {"name", "synthetic"}, {"run", "weights.format.bits=" + bits}, {"hash", hash}, {"baseline", baseline},
          {"labels", {{"weights.format.bits", bits}}}, {"model", "tiny"}, {"model_sha256", "aa"},
          {"config", {{"kv_store", {{"format", {{"type", "fp16"}}}}}, {"weights", {{"format", {{"bits", 3 + i}, {"type", "int_grouped"}}}}}}},
          {"seed", 0}, {"repeat", 3}, {"tasks", {"perplexity"}},
          {"environment", {{"host", "here"}, {"cpu", "a CPU"}, {"threads", 2}, {"commit", "abc"}}},
          {"evaluation", {{"text", "text.txt"}, {"text_sha256", "0123456789"}, {"protocol", "patchbay"}, {"windows", 2}, {"window", 64},
                          {"first_scored", 1}, {"bos", "none"}}},
          {"metrics", {{"perplexity", perplexity}, {"perplexity_ci", {perplexity - 1, perplexity + 1}}, {"kl_nats", 0.1 / (i + 1)},
                       {"kl_nats_ci", {0.08 / (i + 1), 0.12 / (i + 1)}}, {"bits_per_weight", 3.5 + i}, {"weights_bytes", 1000000 * (4 + i)},
                       {"decode_tokens_per_s", speed}, {"decode_tokens_per_s_ci", {speed - 3, speed + 3}},
                       {"decode_tokens_per_s_values", {speed - 3, speed, speed + 3}}}}};
}

}  // namespace patchbay::test
