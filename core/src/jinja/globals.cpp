// The functions that every template has.
#include <algorithm>

#include "jinja/arguments.h"
#include "jinja/objects.h"
#include "jinja/tables.h"
#include "utf8.h"

namespace patchbay::jinja {
namespace {

constexpr std::int64_t kMaxRange = 100'000;  // the sandbox's own limit

Value range(Interpreter& interpreter, Arguments arguments) {
  const std::size_t count = arguments.positional.size();
  const Bound bound(std::move(arguments), {"start", "stop", "step"}, 1);
  const std::int64_t start = count > 1 ? bound.integer(0) : 0, stop = bound.integer(count > 1 ? 1 : 0), step = bound.integer_or(2, 1);
  if (step == 0) fail("the step of range() is zero", "a number other than 0");
  std::vector<Value> numbers;
  for (std::int64_t at = start; step > 0 ? at < stop : at > stop;) {
    if (static_cast<std::int64_t>(numbers.size()) >= kMaxRange) fail("range() is too long", "up to " + std::to_string(kMaxRange) + " numbers");
    numbers.emplace_back(at);
    if (__builtin_add_overflow(at, step, &at)) break;
  }
  return Value::sequence(interpreter.budget(), Sequence::Kind::range, std::move(numbers));
}

/// The entries that dict() and namespace() take: of a dict or of pairs, and the named arguments.
std::vector<std::pair<Value, Value>> entries_of(Interpreter& interpreter, Arguments arguments) {
  std::vector<std::pair<Value, Value>> entries;
  if (arguments.positional.size() > 1) fail("too many arguments: " + std::to_string(arguments.positional.size()), "one dict, and names");
  for (const Value& first : arguments.positional) {
    require_defined(first);
    if (first.dict()) {
      interpreter.budget().charge(first.dict()->entries.size() * 2 * sizeof(Value));
      entries = first.dict()->entries;
      continue;
    }
    for (const Value& pair : items_of(first, interpreter.budget())) {
      const std::vector<Value> both = items_of(pair, interpreter.budget());
      if (both.size() != 2) fail("dict() of items that are no pairs", "a dict, or pairs of key and value");
      entries.emplace_back(both[0], both[1]);
    }
  }
  for (auto& [name, value] : arguments.named) entries.emplace_back(std::move(name), std::move(value));
  return entries;
}

Value make_dict(Interpreter& interpreter, Arguments arguments) { return Value::dict(interpreter.budget(), entries_of(interpreter, std::move(arguments))); }

Value make_namespace(Interpreter& interpreter, Arguments arguments) {
  Namespace* made = interpreter.make_object<Namespace>();
  for (auto& [name, value] : entries_of(interpreter, std::move(arguments))) {
    if (!name.is_text()) fail("a namespace's names are strings");
    made->set_attribute(name.text().bytes(), std::move(value));
  }
  return Value(made);
}

Value raise_exception(Interpreter& interpreter, Arguments arguments) {
  const Bound bound(std::move(arguments), {"message"}, 1);
  throw Error("", "the template refuses: " + escaped(interpreter.text_of(bound[0]).view(), 500));
}

/// Only what means the same everywhere: the format is a stranger's.
void check_time_format(std::string_view format) {
  static constexpr std::string_view kLetters = "aAbBcdDeFHIjklmMnpPrRsStTuUVwWxXyYzZ%G";
  for (std::size_t at = format.find('%'); at != std::string_view::npos; at = format.find('%', at + 1)) {
    ++at;
    if (at < format.size() && format[at] == '-') ++at;
    if (at < format.size() && kLetters.find(format[at]) != std::string_view::npos) continue;
    fail("strftime_now() with an unknown field: '" + escaped(format, 60) + "'", "% and one of " + std::string(kLetters));
  }
}

Value strftime_now(Interpreter& interpreter, Arguments arguments) {
  const Bound bound(std::move(arguments), {"format"}, 1);
  const Text& given = bound.text(0);
  const std::string& format = given.bytes();
  if (!interpreter.now()) fail("the template asks for the date, and none was given");
  check_time_format(format);
  if (format.size() > 200) fail("the format of strftime_now() is too long", "up to 200 bytes");
  char written[8192];
  const std::tm now = *interpreter.now();
  // Fields may grow or vanish, so a format that is data in part gives data.
  return Text(std::string(written, std::strftime(written, sizeof written, format.c_str(), &now)), given.data().empty() ? Origin::frame : Origin::data);
}

Value cycler(Interpreter& interpreter, Arguments arguments) {
  if (arguments.positional.empty()) fail("cycler() without items");
  return Value(interpreter.make_object<Cycler>(std::move(arguments.positional)));
}

Value joiner(Interpreter& interpreter, Arguments arguments) {
  const Bound bound(std::move(arguments), {"sep"});
  return Value(interpreter.make_object<Joiner>(bound.value_or(0, Value::text(", "))));
}

}  // namespace

GlobalFunction find_global(std::string_view name) {
  static constexpr NamedGlobal kGlobals[] = {{"range", range},           {"dict", make_dict},       {"namespace", make_namespace}, {"raise_exception", raise_exception},
                                             {"strftime_now", strftime_now}, {"cycler", cycler}, {"joiner", joiner}};
  const auto found = std::ranges::find(kGlobals, name, &NamedGlobal::name);
  return found == std::end(kGlobals) ? nullptr : found->function;
}

}  // namespace patchbay::jinja
