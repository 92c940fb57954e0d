#include "jinja/template.h"

#include <nlohmann/json.hpp>

#include "jinja/interpreter.h"
#include "jinja/json.h"
#include "jinja/parser.h"
#include "utf8_prefix.h"

namespace patchbay::jinja {

struct Template::Parsed {
  Body body;
  std::vector<std::string> literals;
  std::set<std::string> names;
};

Template::Template(std::string_view source, std::string name, const Limits& limits) : name_(std::move(name)) {
  try {
    if (source.size() > limits.template_bytes) {
      fail("the template has " + std::to_string(source.size()) + " bytes", "up to " + std::to_string(limits.template_bytes));
    }
    if (const std::size_t good = utf8_prefix(source); good < source.size()) fail("the template is not UTF-8 at byte " + std::to_string(good), "UTF-8");
    std::vector<Token> tokens = tokenize(source);
    auto parsed = std::make_unique<Parsed>();
    for (const Token& token : tokens) {
      if (token.kind == Token::Kind::data || token.kind == Token::Kind::string) parsed->literals.push_back(token.text);
      if (token.kind == Token::Kind::name) parsed->names.insert(token.text);
    }
    parsed->body = Parser(std::move(tokens), limits).run();
    parsed_ = std::move(parsed);
  } catch (const Error& error) {
    throw error.at(name_);
  }
}
Template::Template(Template&&) noexcept = default;
Template::~Template() = default;

const std::vector<std::string>& Template::literals() const { return parsed_->literals; }
const std::set<std::string>& Template::names() const { return parsed_->names; }

Rendered Template::render(FunctionRef<Value(Budget&)> make_context, const RenderOptions& options) const {
  Interpreter interpreter(options.limits, options.now);
  std::optional<Value> context;
  try {
    context = make_context(interpreter.budget());
    if (!context->dict()) fail("the names for a template are a " + context->type_name(), "a dict");
    const Text text = interpreter.run(parsed_->body, *context);
    return {text.bytes(), text.data(), interpreter.generation()};
  } catch (const Error& error) {
    if (!context) throw;  // of what is given to the template: whoever makes it says where that is from
    throw Error(name_ + ": line " + std::to_string(interpreter.line()), error.problem(), error.allowed(), error.remedy());
  }
}

Rendered Template::render(const nlohmann::ordered_json& context, const RenderOptions& options) const {
  return render([&](Budget& budget) { return from_json(context, Origin::data, budget); }, options);
}

std::string render(std::string_view source, const nlohmann::ordered_json& context, const RenderOptions& options) {
  return Template(source, "template", options.limits).render(context, options).text;
}

}  // namespace patchbay::jinja
