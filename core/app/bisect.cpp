// patchbay bisect A B: the first layer and operation where two configurations part.
//
// --json: {"a", "b": {"configuration", "model"}, "prompt_tokens", "tolerance", "equal", "settings": [{"path", "a", "b"}],
// "first_bit", "first_beyond": an operation or null, "operations": [{"layer", "operation", "shape", "values", "differing", "max_abs",
// "relative_rmse", "cosine", "first": [token, ..], "largest": {"place", "a", "b"}, "weight"}], "weights_compared",
// "weights": [{"tensor", "format_a", "format_b", "values", "differing", ..}], "next_token": {"a", "b"}}.
// layer is -1 outside the blocks; a figure that is no finite number is null.
#include "experiment/bisect.h"

#include <fmt/format.h>

#include <algorithm>

#include "commands.h"
#include "common.h"
#include "config.h"
#include "configuration.h"
#include "experiment/record_set.h"
#include "experiment/sha256.h"
#include "experiment/text_table.h"
#include "json_text.h"
#include "utf8.h"

namespace patchbay::app {
namespace {

/// Settings that a forward pass does not see: what is done with its logits, with a cache between passes, or how rows are put together.
constexpr std::string_view kNotInAPass[] = {"decoder", "processors", "kv_prefix", "kv_retention", "max_batched_tokens", "deterministic"};

struct Side {
  Configuration configuration;
  std::string path;
  BisectSide model;
};

/// What both outputs are made from.
struct Comparison {
  Side a, b;
  std::vector<Token> prompt;
  std::unique_ptr<Tokenizer> tokenizer;
  std::vector<Difference> settings;
  double tolerance = 0;
  Bisection found;

  bool equal() const { return !found.first_bit; }
};

Side side_of(const std::string& text, const BisectOptions& options) {
  Side side{read_configuration(text, options.assignments, options.model), {}, {}};
  if (side.configuration.model.empty()) throw Error("--model", "is missing, and " + printable(text) + " names none", "--model, or model=FILE beside the settings");
  side.path = find_model(side.configuration.model);
  const std::string& stated = side.configuration.model_sha256;
  if (!stated.empty() && sha256_of_files(ModelFile::open(side.path)->paths()) != stated)
    throw Error(printable(side.path), "is not the model of " + printable(text) + ": its SHA-256 is another", {}, "give --model: it may be another one, or that model's place");
  side.model.config = side.configuration.config;
  if (options.threads > 0) side.model.config.threads = options.threads;
  return side;
}

bool in_a_pass(const Difference& difference) {
  const std::string key = difference.path.substr(0, difference.path.find('.'));
  return std::ranges::find(kNotInAPass, key) == std::end(kNotInAPass);
}

Comparison compare(const BisectOptions& options) {
  Comparison all{side_of(options.first, options), side_of(options.second, options), {}, nullptr, {}, options.tolerance, {}};
  all.a.model.file = ModelFile::open(all.a.path);
  all.b.model.file = all.a.path == all.b.path ? all.a.model.file : ModelFile::open(all.b.path);
  all.tokenizer = make_tokenizer(*all.a.model.file);
  all.prompt = prompt_tokens(*all.tokenizer, options.prompt, options.prompt_file, options.tokens);
  if (prompt_tokens(*make_tokenizer(*all.b.model.file), options.prompt, options.prompt_file, options.tokens) != all.prompt)
    throw Error("--prompt", "the two models make other tokens of it", {}, "give the same ones to both: --tokens 1,2,3");
  for (const Side* side : {&all.a, &all.b}) check_run(*side->model.file, side->model.config, {std::ssize(all.prompt), 1});
  const auto settings = [](const Side& side) { return Json::parse(to_json(effective_settings(side.configuration.config))); };
  all.settings = differences(settings(all.a), settings(all.b));
  all.found = bisect(all.a.model, all.b.model, all.prompt, options.tolerance);
  return all;
}

// Text ------------------------------------------------------------------------------------------------------------------------

std::string name_of(const OperationDifference& operation) {
  return operation.layer < 0 ? operation.operation : fmt::format("layer {}, {}", operation.layer, operation.operation);
}

std::string token_text(const Comparison& all, Token token) {
  return token < 0 ? "none is finite" : fmt::format("{} '{}'", token, escaped(all.tokenizer->piece(token, true), 40));
}

/// "token 3 (28 ' the'), head 1, channel 5"
std::string place_text(const Comparison& all, const OperationDifference& operation, std::int64_t element) {
  const auto place = operation.place(element);
  std::string text = fmt::format("token {} ({})", place[0], token_text(all, all.prompt[static_cast<std::size_t>(place[0])]));
  if (place.size() == 3) text += fmt::format(", head {}", place[1]);
  return text + fmt::format(", {} {}", operation.operation == "logits" ? "logit of token" : "channel", place.back());
}

/// Why the first operation with other bits has them: everything before it is the same.
std::string cause(const Comparison& all, const OperationDifference& operation) {
  if (operation.weight.empty()) return "Its inputs have the same bits, and it has no weights: it is computed in another way.";
  if (const auto* weight = all.found.weight(operation.weight))
    return fmt::format("Its inputs have the same bits; its weight {} differs ({} and {}, relative RMSE {:.3g}).", weight->tensor, weight->format_a,
                       weight->format_b, weight->difference.relative_rmse);
  return fmt::format("Its inputs and its weight {} have the same bits: it is computed in another way.", operation.weight);
}

void print_operation(const Comparison& all, const std::string& title, const OperationDifference& operation) {
  const ArrayDifference& d = operation.difference;
  fmt::print("{}: {}\n  {} of {} values differ, relative RMSE {:.3g}; the first at {};\n  the largest, {:.3g}, at {}: A {:.8g}, B {:.8g}\n", title,
             name_of(operation), d.differing, d.elements, d.relative_rmse, place_text(all, operation, d.first), d.max_abs,
             place_text(all, operation, d.largest), d.largest_a, d.largest_b);
}

void print_settings(const Comparison& all) {
  if (all.settings.empty()) return;
  TextTable table{{"setting", "A", "B"}, {}, {}};
  for (const Difference& one : all.settings) table.rows.push_back({escaped(one.path, 100), escaped(one.first, 60), escaped(one.second, 60)});
  fmt::print("{}\n", table.text(unicode_terminal()));
}

void print_weights(const Comparison& all) {
  const Bisection& found = all.found;
  if (found.weights.empty()) {
    fmt::print("Weights: all {} tensors have the same values.\n", found.weights_compared);
    return;
  }
  const auto worst = std::ranges::max_element(found.weights, {}, [](const auto& w) { return w.difference.relative_rmse; });
  fmt::print("Weights: {} of {} tensors differ; most of all {} ({} and {}): relative RMSE {:.3g}, largest difference {:.3g}.\n", found.weights.size(),
             found.weights_compared, worst->tensor, worst->format_a, worst->format_b, worst->difference.relative_rmse, worst->difference.max_abs);
}

/// The layers where something begins in full, of the others what leaves them: how a difference grows.
bool in_short_table(const Comparison& all, const OperationDifference& operation) {
  if (operation.layer < 0 || operation.operation == "block_output") return true;
  for (const auto& first : {all.found.first_bit, all.found.first_beyond})
    if (first && all.found.operations[*first].layer == operation.layer) return true;
  return false;
}

void print_table(const Comparison& all, bool every_operation) {
  TextTable table{{"layer", "operation", "values that differ", "max abs", "relative RMSE", "cosine", ""}, {}, {true, false, true, true, true, true, false}};
  for (std::size_t i = 0; i < all.found.operations.size(); ++i) {
    const OperationDifference& operation = all.found.operations[i];
    if (!every_operation && !in_short_table(all, operation)) continue;
    const ArrayDifference& d = operation.difference;
    const std::string mark = all.found.first_bit == i ? "first other bit" : "";
    const std::string beyond = all.found.first_beyond == i ? fmt::format("first beyond {:g}", all.tolerance) : "";
    table.rows.push_back({operation.layer < 0 ? "" : std::to_string(operation.layer), operation.operation, fmt::format("{} of {}", d.differing, d.elements),
                          fmt::format("{:.3g}", d.max_abs), fmt::format("{:.3g}", d.relative_rmse), fmt::format("{:.9f}", d.cosine),
                          mark + (mark.empty() || beyond.empty() ? "" : "; ") + beyond});
  }
  fmt::print("\n{}", table.text(unicode_terminal()));
}

void print_text(const Comparison& all, bool every_operation) {
  const Bisection& found = all.found;
  fmt::print("A: {} ({})\nB: {} ({})\n", escaped(all.a.configuration.text), escaped(all.a.path), escaped(all.b.configuration.text), escaped(all.b.path));
  fmt::print("A prompt of {}; the likeliest next token: A {}, B {}\n\n", counted(std::ssize(all.prompt), "token"),
             token_text(all, found.next_a), token_text(all, found.next_b));
  print_settings(all);
  print_weights(all);
  if (all.equal()) {
    fmt::print("Equal: the results of all {} operations have the same bits.\n", found.operations.size());
    if (!all.settings.empty() && std::ranges::none_of(all.settings, in_a_pass))
      fmt::print("The settings that differ are none of a forward pass, so there was nothing to part: compare what they do with generate or run.\n");
    return;
  }
  const OperationDifference& first = found.operations[*found.first_bit];
  print_operation(all, "First other bit", first);
  fmt::print("  {}\n", cause(all, first));
  if (!found.first_beyond) fmt::print("No operation is beyond a relative RMSE of {:g}.\n", all.tolerance);
  else if (found.first_beyond == found.first_bit) fmt::print("It is also the first beyond a relative RMSE of {:g}.\n", all.tolerance);
  else print_operation(all, fmt::format("First beyond a relative RMSE of {:g}", all.tolerance), found.operations[*found.first_beyond]);
  print_table(all, every_operation);
}

// JSON ------------------------------------------------------------------------------------------------------------------------

Json figures(const ArrayDifference& d) {
  return {{"values", d.elements}, {"differing", d.differing}, {"max_abs", d.max_abs}, {"relative_rmse", d.relative_rmse}, {"cosine", d.cosine}};
}

Json operation_json(const OperationDifference& operation) {
  Json json = {{"layer", operation.layer}, {"operation", operation.operation}, {"shape", operation.shape}};
  json.update(figures(operation.difference));
  const ArrayDifference& d = operation.difference;
  json["first"] = d.differing > 0 ? Json(operation.place(d.first)) : Json();
  json["largest"] = d.differing > 0 ? Json{{"place", operation.place(d.largest)}, {"a", d.largest_a}, {"b", d.largest_b}} : Json();
  json["weight"] = operation.weight;
  return json;
}

Json as_json(const Comparison& all) {
  const auto side = [](const Side& s) { return Json{{"configuration", s.configuration.text}, {"model", s.path}}; };
  const auto operation = [&](const std::optional<std::size_t>& at) { return at ? operation_json(all.found.operations[*at]) : Json(); };
  Json json = {{"a", side(all.a)}, {"b", side(all.b)}, {"prompt_tokens", all.prompt}, {"tolerance", all.tolerance}, {"equal", all.equal()},
               {"settings", Json::array()}, {"first_bit", operation(all.found.first_bit)}, {"first_beyond", operation(all.found.first_beyond)},
               {"operations", Json::array()}, {"weights_compared", all.found.weights_compared}, {"weights", Json::array()},
               {"next_token", {{"a", all.found.next_a}, {"b", all.found.next_b}}}};
  for (const Difference& one : all.settings) json["settings"].push_back({{"path", one.path}, {"a", one.first}, {"b", one.second}});
  for (const auto& one : all.found.operations) json["operations"].push_back(operation_json(one));
  for (const auto& one : all.found.weights) {
    json["weights"].push_back({{"tensor", one.tensor}, {"format_a", one.format_a}, {"format_b", one.format_b}});
    json["weights"].back().update(figures(one.difference));
  }
  return json;
}

}  // namespace

int bisect(const BisectOptions& options) {
  const Comparison all = compare(options);
  if (options.json) fmt::print("{}\n", json_text(as_json(all)));
  else print_text(all, options.all);
  return 0;
}

}  // namespace patchbay::app
