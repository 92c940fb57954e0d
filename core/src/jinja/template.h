/// @file template.h
/// Jinja templates as chat templates use them, rendered as transformers renders them (docs/chat.md says what there is and what is not).
/// A template is a stranger's program: limits keep it from crashing, hanging or taking all memory.
#pragma once
#include <ctime>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "jinja/limits.h"
#include "jinja/value.h"
#include "patchbay/tensor.h"
#include "text_range.h"

namespace patchbay::jinja {

struct RenderOptions {
  Limits limits;
  std::optional<std::tm> now;  ///< what strftime_now() writes; without it, asking for the date is an error
};

struct Rendered {
  std::string text;
  std::vector<TextRange> data;        ///< where bytes came from the context's data, not from the template
  std::vector<TextRange> generation;  ///< what {% generation %} blocks made, outside of macros
};

/// A template that has been parsed: render it as often as you like, from any thread.
class PATCHBAY_API Template {
 public:
  /// `name` is what errors call it. @throws Error, "NAME: line N: ...".
  explicit Template(std::string_view source, std::string name = "template", const Limits& limits = {});
  Template(Template&&) noexcept;
  ~Template();

  /// `make_context` makes the dict of the names that the template finds; it may throw Error.
  Rendered render(FunctionRef<Value(Budget&)> make_context, const RenderOptions& options = {}) const;
  /// All strings of the context are data.
  Rendered render(const nlohmann::ordered_json& context, const RenderOptions& options = {}) const;
  const std::string& name() const { return name_; }
  /// Every piece of text and every string constant that the template has.
  const std::vector<std::string>& literals() const;
  /// Every word outside of text and strings: names of variables, attributes, filters and the language's own.
  const std::set<std::string>& names() const;

 private:
  struct Parsed;
  std::string name_;
  std::unique_ptr<const Parsed> parsed_;
};

/// Parses and renders at once. A pure function of its arguments.
PATCHBAY_API std::string render(std::string_view source, const nlohmann::ordered_json& context, const RenderOptions& options = {});

}  // namespace patchbay::jinja
