#include "jinja/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "utf8.h"

namespace patchbay::jinja {
namespace {

using Json = nlohmann::ordered_json;

Value checked_text(const std::string& bytes, Origin origin, Budget& budget) {
  budget.charge(bytes.size());
  if (!is_utf8(bytes)) fail("a text is not UTF-8: '" + escaped(bytes, 40) + "'", "UTF-8");
  return Text(bytes, origin);
}

class Writer {
 public:
  Writer(const JsonStyle& style, Budget& budget) : style_(style), budget_(budget) {}

  Text run(const Value& value) {
    write(value, 0);
    return std::move(out_);
  }

 private:
  void put(std::string_view bytes, Origin origin = Origin::frame) {
    budget_.charge(bytes.size() + 1);
    out_.append(bytes, origin);
    budget_.check_size(out_.size());
  }
  void put(const Text& text) {
    budget_.charge(text.size() + 1);
    out_.append(text);
    budget_.check_size(out_.size());
  }
  void break_line(int depth) {
    put("\n");
    for (int i = 0; i < depth; ++i) put(style_.indent);
  }

  void write(const Value& value, int depth) {
    if (value.is_text()) return write_text(value.text());
    if (const Dict* dict = value.dict()) return write_dict(*dict, depth);
    const Sequence* sequence = value.sequence();
    if (sequence && (sequence->kind == Sequence::Kind::list || sequence->kind == Sequence::Kind::tuple)) return write_list(sequence->items, depth);
    if (!value.is_none() && !value.is_number()) {
      require_defined(value);
      fail("a " + value.type_name() + " has no JSON", "dicts, lists, strings, numbers, booleans and none", sequence ? "'| list' makes a list of it" : "");
    }
    put(plain(value));
  }

  static std::string plain(const Value& value) {
    if (value.is_none()) return "null";
    if (value.is_bool()) return value.boolean() ? "true" : "false";
    if (value.is_integer()) return std::to_string(value.integer());
    if (std::isnan(value.real())) return "NaN";
    return std::isinf(value.real()) ? (value.real() > 0 ? "Infinity" : "-Infinity") : real_repr(value.real());
  }

  void write_list(const std::vector<Value>& items, int depth) {
    put("[");
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i > 0) put(style_.comma);
      if (style_.lines) break_line(depth + 1);
      write(items[i], depth + 1);
    }
    if (style_.lines && !items.empty()) break_line(depth);
    put("]");
  }

  void write_dict(const Dict& dict, int depth) {
    std::vector<const std::pair<Value, Value>*> entries;
    for (const auto& entry : dict.entries) entries.push_back(&entry);
    if (style_.sorted) std::ranges::stable_sort(entries, [&](auto* a, auto* b) { return order(a->first, b->first, budget_) < 0; });
    put("{");
    for (std::size_t i = 0; i < entries.size(); ++i) {
      if (i > 0) put(style_.comma);
      if (style_.lines) break_line(depth + 1);
      const Value& key = entries[i]->first;
      if (!key.is_text() && !key.is_none() && !key.is_number()) fail("a " + key.type_name() + " is a key, which JSON does not have", "strings and numbers");
      write_text(key.is_text() ? key.text() : Text(plain(key), Origin::frame));
      put(style_.colon);
      write(entries[i]->second, depth + 1);
    }
    if (style_.lines && !entries.empty()) break_line(depth);
    put("}");
  }

  void write_text(const Text& text) {
    put("\"");
    const std::string& bytes = text.bytes();
    for (std::size_t at = 0; at < bytes.size();) {
      const Utf8Unit unit = first_utf8_unit(std::string_view(bytes).substr(at));
      put(escape(unit.code_point, std::string_view(bytes).substr(at, unit.bytes)), text.origin_at(at));
      at += unit.bytes;
    }
    put("\"");
  }

  std::string escape(char32_t c, std::string_view bytes) const {
    static constexpr std::string_view kNamed = "\"\\\n\r\t\b\f", kLetters = "\"\\nrtbf";
    const auto number = static_cast<unsigned>(c);
    if (const std::size_t named = c < 0x80 ? kNamed.find(static_cast<char>(c)) : std::string_view::npos; named != std::string_view::npos) return {'\\', kLetters[named]};
    if (c < 0x20 || (style_.ascii && c >= 0x7F && c < 0x10000)) return fmt::format("\\u{:04x}", number);
    if (!style_.ascii || c < 0x7F) return std::string(bytes);
    return fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + ((number - 0x10000) >> 10), 0xDC00 + ((number - 0x10000) & 0x3FF));
  }

  const JsonStyle& style_;
  Budget& budget_;
  Text out_;
};

}  // namespace

Value from_json(const Json& json, Origin origin, Budget& budget) {
  const Budget::Level level(budget);
  if (json.is_string()) return checked_text(json.get_ref<const std::string&>(), origin, budget);
  if (json.is_boolean()) return Value(json.get<bool>());
  if (json.is_number_float()) return Value(json.get<double>());
  if (json.is_number_integer()) {
    if (json.is_number_unsigned() && json.get<std::uint64_t>() > INT64_MAX) fail("the integer " + json.dump() + " is too large", "64 bits with a sign");
    return Value(json.get<std::int64_t>());
  }
  if (json.is_array()) {
    std::vector<Value> items;
    for (const Json& item : json) items.push_back(from_json(item, origin, budget));
    return Value::list(budget, std::move(items));
  }
  if (!json.is_object()) return Value();
  std::vector<std::pair<Value, Value>> entries;
  for (const auto& [key, value] : json.items()) entries.emplace_back(checked_text(key, origin, budget), from_json(value, origin, budget));
  return Value::dict(budget, std::move(entries));
}

Text to_json(const Value& value, const JsonStyle& style, Budget& budget) { return Writer(style, budget).run(value); }

}  // namespace patchbay::jinja
