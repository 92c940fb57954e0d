#include "jinja/value.h"

#include <algorithm>
#include <cmath>

namespace patchbay::jinja {
namespace {

int depth_of(const Value& value) {
  if (const Sequence* sequence = value.sequence()) return sequence->depth;
  if (const Dict* dict = value.dict()) return dict->depth;
  return 0;
}

int one_deeper(int depth, const Budget& budget) {
  if (depth >= budget.limits().nesting) {
    fail("lists and dicts nest too deep", "up to " + std::to_string(budget.limits().nesting) + " in each other");
  }
  return depth + 1;
}

std::partial_ordering order_numbers(const Value& a, const Value& b) {
  if (!a.is_real() && !b.is_real()) return a.integer() <=> b.integer();
  if (a.is_real() && b.is_real()) return a.real() <=> b.real();
  if (a.is_real()) return 0 <=> order_numbers(b, a);
  // An integer and a float, exactly: doubles from 2^53 on skip integers.
  const double real = b.real();
  if (std::isnan(real)) return std::partial_ordering::unordered;
  if (real >= 0x1p63) return std::partial_ordering::less;
  if (real < -0x1p63) return std::partial_ordering::greater;
  const double whole = std::floor(real);
  const auto floor = static_cast<std::int64_t>(whole);
  if (a.integer() != floor) return a.integer() <=> floor;
  return real > whole ? std::partial_ordering::less : std::partial_ordering::equivalent;
}

bool equal_items(const std::vector<Value>& a, const std::vector<Value>& b, Budget& budget) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!a[i].same_as(b[i]) && !equal(a[i], b[i], budget)) return false;
  }
  return true;
}

bool equal_dicts(const Dict& a, const Dict& b, Budget& budget) {
  if (a.entries.size() != b.entries.size()) return false;
  for (const auto& [key, value] : a.entries) {
    const Value* other = find(b, key, budget);
    if (other == nullptr || !(value.same_as(*other) || equal(value, *other, budget))) return false;
  }
  return true;
}

/// Python's hash(): lists and dicts have none.
bool can_be_key(const Value& value) {
  const Sequence* sequence = value.sequence();
  if (sequence != nullptr && sequence->kind == Sequence::Kind::tuple) return std::ranges::all_of(sequence->items, can_be_key);
  return value.dict() == nullptr && (sequence == nullptr || sequence->kind == Sequence::Kind::range || sequence->kind == Sequence::Kind::generator);
}

}  // namespace

Value Value::sequence(Budget& budget, Sequence::Kind kind, std::vector<Value> items) {
  budget.charge(sizeof(Sequence) + items.size() * sizeof(Value));
  auto made = std::make_shared<Sequence>();
  int depth = 0;
  for (const Value& item : items) depth = std::max(depth, depth_of(item));
  made->depth = one_deeper(depth, budget);
  made->kind = kind;
  made->items = std::move(items);
  Value value;
  value.data_ = std::shared_ptr<const Sequence>(std::move(made));
  return value;
}

Value Value::dict(Budget& budget, std::vector<std::pair<Value, Value>> entries) {
  budget.charge(sizeof(Dict) + entries.size() * 2 * sizeof(Value));
  auto made = std::make_shared<Dict>();
  int depth = 0;
  for (auto& [key, value] : entries) {
    if (!can_be_key(key)) fail("a " + key.type_name() + " cannot be the key of a dict", "strings, numbers, booleans, none and tuples of them");
    depth = std::max({depth, depth_of(key), depth_of(value)});
    if (const Value* known = find(*made, key, budget)) {
      const_cast<Value&>(*known) = std::move(value);  // this dict is still ours alone
    } else {
      made->entries.emplace_back(std::move(key), std::move(value));
    }
  }
  made->depth = one_deeper(depth, budget);
  Value value;
  value.data_ = std::shared_ptr<const Dict>(std::move(made));
  return value;
}

const Sequence* Value::sequence() const {
  const auto* held = std::get_if<std::shared_ptr<const Sequence>>(&data_);
  return held ? held->get() : nullptr;
}
const Dict* Value::dict() const {
  const auto* held = std::get_if<std::shared_ptr<const Dict>>(&data_);
  return held ? held->get() : nullptr;
}
Object* Value::object() const {
  const auto* held = std::get_if<Object*>(&data_);
  return held ? *held : nullptr;
}

bool Value::same_as(const Value& other) const {
  if (data_.index() != other.data_.index()) return false;
  if (sequence()) return sequence() == other.sequence();
  if (dict()) return dict() == other.dict();
  if (object()) return object() == other.object();
  if (is_text()) return text().bytes() == other.text().bytes();
  if (is_bool() || is_integer()) return integer() == other.integer();
  if (is_real()) return real() == other.real();
  return !is_undefined() || std::get<Undefined>(data_).what == std::get<Undefined>(other.data_).what;
}

bool Value::truth() const {
  if (is_number()) return real() != 0;
  if (is_text()) return !text().empty();
  if (const Sequence* s = sequence()) return s->kind == Sequence::Kind::generator || !s->items.empty();
  if (const Dict* d = dict()) return !d->entries.empty();
  return object() != nullptr;
}

std::string Value::type_name() const {
  if (is_undefined()) return "Undefined";
  if (is_none()) return "NoneType";
  if (is_bool()) return "bool";
  if (is_integer()) return "int";
  if (is_real()) return "float";
  if (is_text()) return "str";
  if (dict()) return "dict";
  if (object()) return std::string(object()->type_name());
  static constexpr const char* kNames[] = {"list", "tuple", "range", "generator", "dict_keys", "dict_values", "dict_items"};
  return kNames[static_cast<int>(sequence()->kind)];
}

bool equal(const Value& a, const Value& b, Budget& budget) {
  budget.charge(8);
  if (a.is_number() && b.is_number()) return order_numbers(a, b) == 0;
  if (a.is_undefined() && b.is_undefined()) return true;
  if (a.is_text() && b.is_text()) {
    budget.charge(std::min(a.text().size(), b.text().size()));
    return a.text().bytes() == b.text().bytes();
  }
  if (a.dict() && b.dict()) return equal_dicts(*a.dict(), *b.dict(), budget);
  const Sequence *left = a.sequence(), *right = b.sequence();
  if (!left || !right) return a.same_as(b);
  using Kind = Sequence::Kind;
  if (left->kind != right->kind || left->kind == Kind::generator || left->kind == Kind::dict_values) return left == right;
  return equal_items(left->items, right->items, budget);
}

std::partial_ordering order(const Value& a, const Value& b, Budget& budget, std::string_view sign) {
  budget.charge(8);
  require_defined(a);
  require_defined(b);
  if (a.is_number() && b.is_number()) return order_numbers(a, b);
  if (a.is_text() && b.is_text()) {
    budget.charge(std::min(a.text().size(), b.text().size()));
    return a.text().bytes() <=> b.text().bytes();  // the order of UTF-8 is that of code points
  }
  const Sequence *left = a.sequence(), *right = b.sequence();
  using Kind = Sequence::Kind;
  if (left && right && left->kind == right->kind && (left->kind == Kind::list || left->kind == Kind::tuple)) {
    for (std::size_t i = 0; i < left->items.size() && i < right->items.size(); ++i) {
      if (!equal(left->items[i], right->items[i], budget)) return order(left->items[i], right->items[i], budget, sign);
    }
    return left->items.size() <=> right->items.size();
  }
  fail("a " + a.type_name() + " and a " + b.type_name() + " have no order for '" + std::string(sign) + "'", "two numbers, two strings or two lists");
}

const Value* find(const Dict& dict, const Value& key, Budget& budget) {
  budget.charge(dict.entries.size());
  if (!can_be_key(key)) fail("a " + key.type_name() + " cannot be the key of a dict");
  for (const auto& [known, value] : dict.entries) {
    const bool both_texts = key.is_text() && known.is_text();  // the usual case, without a charge for each
    if (both_texts ? key.text().bytes() == known.text().bytes() : equal(key, known, budget)) return &value;
  }
  return nullptr;
}

bool is_iterable(const Value& value) { return value.is_undefined() || value.is_text() || value.sequence() || value.dict(); }

std::vector<Value> items_of(const Value& value, Budget& budget) {
  std::vector<Value> items;
  if (const Sequence* sequence = value.sequence()) {
    budget.charge(sequence->items.size() * sizeof(Value));
    if (sequence->kind == Sequence::Kind::generator && std::exchange(sequence->used_up, true)) return items;
    return sequence->items;
  }
  if (const Dict* dict = value.dict()) {
    budget.charge(dict->entries.size() * sizeof(Value));
    for (const auto& entry : dict->entries) items.push_back(entry.first);
  } else if (value.is_text()) {
    const Text& text = value.text();
    budget.charge(text.size() * (sizeof(Value) + sizeof(Text)));
    for (std::size_t begin = 0, end = 0; begin < text.size(); begin = end) {
      for (++end; end < text.size() && (text.bytes()[end] & 0xC0) == 0x80;) ++end;
      items.push_back(text.slice(begin, end));
    }
  } else if (!value.is_undefined()) {
    fail("a " + value.type_name() + " cannot be iterated over", "a list, a dict or a string");
  }
  return items;
}

void require_defined(const Value& value) {
  if (value.is_undefined()) fail(value.what_is_undefined(), "", "test it first: 'is defined', or give a default");
}

Value Object::call(Interpreter&, Arguments) { fail("a " + std::string(type_name()) + " cannot be called"); }
std::optional<Value> Object::attribute(Interpreter&, std::string_view) { return std::nullopt; }
bool Object::set_attribute(std::string_view, Value) { return false; }

}  // namespace patchbay::jinja
