#include "chat/chat_template.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "jinja/json.h"
#include "lookalikes.h"
#include "utf8.h"

namespace patchbay {
namespace {

using Json = nlohmann::ordered_json;
using jinja::Origin;
using jinja::Value;
using Entries = std::vector<std::pair<Value, Value>>;

constexpr std::size_t kMaxRole = 40;  // bytes

/// What people and tools wrote; `where` says where it is from.
Value data_value(const Json& json, const std::string& where, jinja::Budget& budget) {
  try {
    return from_json(json, Origin::data, budget);
  } catch (const Error& error) {
    throw error.at(where);
  }
}

/// Names of roles may become part of control tokens (<|user|>), so they must be words.
Value role_value(const Json& role, const std::string& where) {
  const auto is_word = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-'; };
  const std::string* text = role.get_ptr<const std::string*>();
  if (text == nullptr || text->empty() || text->size() > kMaxRole || !std::ranges::all_of(*text, is_word)) {
    throw Error(where + "role", "is no word: " + escaped(role.dump(-1, ' ', false, Json::error_handler_t::replace), 60), "letters, digits, _ and -, such as user");
  }
  return Value::text(*text);
}

/// A message as transformers gives it to a template: without nulls, and a model's reasoning under both of its names.
Value message_value(const Json& message, const std::string& where, jinja::Budget& budget) {
  if (!message.is_object()) throw Error(where, "is no object", R"({"role": "user", "content": "..."})");
  if (!message.contains("role")) throw Error(where, "has no role", R"({"role": "user", "content": "..."})");
  Entries entries;
  const Json* reasoning = nullptr;
  for (const char* name : {"reasoning_content", "thinking", "reasoning"}) {
    if (reasoning == nullptr && message.contains(name) && !message.at(name).is_null()) reasoning = &message.at(name);
  }
  if (reasoning != nullptr) entries.emplace_back(Value::text("thinking"), data_value(*reasoning, where, budget));
  for (const auto& [name, value] : message.items()) {
    if (value.is_null()) continue;
    Value key = data_value(Json(name), where, budget);
    entries.emplace_back(std::move(key), name == "role" ? role_value(value, where + ": ") : data_value(value, where, budget));
  }
  if (reasoning != nullptr) entries.emplace_back(Value::text("reasoning_content"), data_value(*reasoning, where, budget));
  return Value::dict(budget, std::move(entries));
}

Value messages_value(const Json& messages, const std::string& from, jinja::Budget& budget) {
  if (!messages.is_array()) throw Error(from, "is no list of messages", R"([{"role": "user", "content": "..."}])");
  std::vector<Value> values;
  for (std::size_t i = 0; i < messages.size(); ++i) values.push_back(message_value(messages[i], from + ": message " + std::to_string(i + 1), budget));
  return Value::list(budget, std::move(values));
}

Value tools_value(const Json* tools, const std::string& from, jinja::Budget& budget) {
  if (tools == nullptr) return {};
  const bool objects = tools->is_array() && std::ranges::all_of(*tools, [](const Json& tool) { return tool.is_object(); });
  if (!objects) throw Error(from, "is no list of tools", R"([{"type": "function", "function": {"name": ..., "parameters": ...}}])");
  return data_value(*tools, from, budget);
}

/// Names that templates get with other values.
void refuse_reserved(const Json& variables, const std::string& from) {
  if (!variables.is_object()) throw Error(from, "is no object", R"({"enable_thinking": false})");
  std::vector<std::string> reserved = special_token_names();
  reserved.insert(reserved.end(), {"messages", "tools", "documents", "add_generation_prompt"});
  for (const auto& [name, value] : variables.items()) {
    if (std::ranges::find(reserved, name) != reserved.end()) throw Error(from + ": " + name, "is set by patchbay: it cannot be a variable", "other names", "leave it out");
  }
}

std::string joined(const std::vector<std::string>& pieces, const std::map<std::string, std::string>& more) {
  std::string all;
  for (const std::string& piece : pieces) all += piece + '\0';
  for (const auto& [name, text] : more) all += text + '\0';
  return all;
}

/// What is saved instead of a template, or cannot be one.
const std::string& checked(const std::string& source, const std::string& where) {
  const Lookalike* known = find_lookalike(source);
  if (known != nullptr && known->in_place) throw Error(where, fmt::format("is no chat template: looks like {}", known->what), "", std::string(known->remedy));
  if (source.empty()) throw Error(where, "the chat template is empty", "", "fetch the file again, or give a template: --template FILE.jinja");
  return source;
}

}  // namespace

ChatTemplate::ChatTemplate(const std::string& source, std::string name, std::map<std::string, std::string> special_tokens)
    : template_(checked(source, name), name), special_tokens_(std::move(special_tokens)), own_words_(joined(template_.literals(), special_tokens_)) {}

FramedText ChatTemplate::render(const ChatInput& input) const {
  const auto context = [&](jinja::Budget& budget) {
    Entries entries;
    for (const auto& [name, text] : special_tokens_) entries.emplace_back(Value::text(name), Value::text(text));
    if (input.variables != nullptr) {
      refuse_reserved(*input.variables, input.variables_from);
      for (const auto& [name, value] : input.variables->items()) entries.emplace_back(Value::text(name), data_value(value, input.variables_from, budget));
    }
    entries.emplace_back(Value::text("messages"), messages_value(input.messages, input.messages_from, budget));
    entries.emplace_back(Value::text("tools"), tools_value(input.tools, input.tools_from, budget));
    entries.emplace_back(Value::text("documents"), Value());
    entries.emplace_back(Value::text("add_generation_prompt"), Value(input.add_generation_prompt));
    return Value::dict(budget, std::move(entries));
  };
  jinja::RenderOptions options;
  options.now = input.now;
  jinja::Rendered rendered = template_.render(context, options);
  return {std::move(rendered.text), std::move(rendered.data), own_words_};
}

Token ChatTemplate::end_of_turn(const Tokenizer& tokenizer) const {
  const Json messages = {{{"role", "user"}, {"content", "Hello"}}, {{"role", "assistant"}, {"content", "Hello"}}};
  FramedText text;
  try {
    text = render({messages, nullptr, nullptr, false, std::tm{}});
  } catch (const Error&) {
    return -1;  // a template that wants other messages
  }
  if (text.data.empty()) return -1;
  text.text.erase(0, text.data.back().end);
  text.data.clear();
  for (const Token token : tokenizer.encode(text)) {
    const std::string_view shown = tokenizer.piece(token, false);
    if (shown.empty() && !tokenizer.piece(token, true).empty()) return token;
    if (shown.find_first_not_of(" \n") != std::string_view::npos) return -1;
  }
  return -1;
}

}  // namespace patchbay
