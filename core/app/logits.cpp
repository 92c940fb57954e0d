// patchbay logits: the likeliest next tokens after a prompt.
#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "commands.h"
#include "common.h"
#include "patchbay/decoder.h"

namespace patchbay::app {
namespace {

std::vector<Token> largest(View<const float, 1> logits, int count) {
  std::vector<Token> order(static_cast<std::size_t>(logits.shape[0]));
  std::iota(order.begin(), order.end(), 0);
  const auto end = order.begin() + std::min<std::ptrdiff_t>(count, std::ssize(order));
  std::partial_sort(order.begin(), end, order.end(), [&](Token a, Token b) {
    return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
  });
  order.erase(end, order.end());
  return order;
}

}  // namespace

int logits(const LogitsOptions& options) {
  const auto [prompt, session] = open_prompted(options.model, options.prompt, std::nullopt, options.tokens, 0);
  ModelRunner& runner = session->runner();
  const SeqId seq = runner.open();
  std::vector<TokenRow> rows;
  for (std::size_t i = 0; i < prompt.size(); ++i) {
    rows.push_back({seq, prompt[i], static_cast<std::int32_t>(i) - 1, i + 1 == prompt.size()});
  }
  const Step step = runner.forward(rows);
  if (step.full) throw Error("--prompt", std::to_string(prompt.size()) + " tokens do not fit into the KV cache");
  const View<const float, 1> row = step.logits[0];
  argmax(row);  // refuses what is not a number
  const std::vector<Token> top = largest(row, options.top);
  if (options.model.json) {
    nlohmann::json result = {{"tokens", prompt}, {"top", nlohmann::json::array()}};
    for (const Token token : top) result["top"].push_back({{"id", token}, {"logit", row[token]}});
    fmt::print("{}\n", result.dump());
    return 0;
  }
  for (const Token token : top) {
    const std::string text = session->tokenizer().knows_text() ? printable(session->tokenizer().piece(token, true)) : "";
    fmt::print("{:>8}  {:>10.5f}  {}\n", token, row[token], text);
  }
  return 0;
}

}  // namespace patchbay::app
