// What operators stand between: names, constants, displays, calls, filters, tests; and targets of assignments.
#include "jinja/parser.h"

namespace patchbay::jinja {

using Kind = Token::Kind;

ExpressionPtr Parser::parse_primary() {
  const int line = current().line;
  if (current().is_sign("[")) return parse_list();
  if (current().is_sign("{")) return parse_dict();
  if (skip_sign("(")) {
    ExpressionPtr value = parse_tuple(true, true);
    expect_sign(")");
    return value;
  }
  if (current().kind == Kind::integer) return make(line, Literal{Value(take().integer)});
  if (current().kind == Kind::real) return make(line, Literal{Value(take().real)});
  if (current().kind == Kind::string) {
    std::string text;
    while (current().kind == Kind::string) text += take().text;
    return make(line, Literal{Value::text(std::move(text))});
  }
  const std::string name = expect_any_name("an expression");
  if (name == "true" || name == "True") return make(line, Literal{Value(true)});
  if (name == "false" || name == "False") return make(line, Literal{Value(false)});
  if (name == "none" || name == "None") return make(line, Literal{Value()});
  if (name == "varargs" || name == "kwargs" || name == "caller") specials_.insert(name);
  return make(line, Name{name});
}

ExpressionPtr Parser::parse_tuple(bool with_condition, bool may_be_empty, std::string_view end) {
  const int line = current().line;
  ListDisplay tuple{{}, true};
  bool commas = false;
  const auto at_end = [&] {
    return current().kind == Kind::variable_end || current().kind == Kind::block_end || current().is_sign(")") || (!end.empty() && current().is_name(end));
  };
  while (!at_end()) {
    tuple.items.push_back(parse_expression(with_condition));
    if (!skip_sign(",")) break;
    commas = true;
  }
  if (tuple.items.empty() && !may_be_empty) unexpected("an expression");
  if (tuple.items.size() == 1 && !commas) return std::move(tuple.items[0]);
  return make(line, std::move(tuple));
}

ExpressionPtr Parser::parse_list() {
  const int line = take().line;
  ListDisplay list;
  while (!skip_sign("]")) {
    if (!list.items.empty()) expect_sign(",");
    if (skip_sign("]")) break;
    list.items.push_back(parse_expression());
  }
  return make(line, std::move(list));
}

ExpressionPtr Parser::parse_dict() {
  const int line = take().line;
  DictDisplay dict;
  while (!skip_sign("}")) {
    if (!dict.entries.empty()) expect_sign(",");
    if (skip_sign("}")) break;
    ExpressionPtr key = parse_expression();
    expect_sign(":");
    dict.entries.emplace_back(std::move(key), parse_expression());
  }
  return make(line, std::move(dict));
}

ExpressionPtr Parser::parse_postfix(ExpressionPtr value) {
  while (true) {
    const int line = current().line;
    if (current().is_sign(".") || current().is_sign("[")) {
      value = parse_subscript(std::move(value));
    } else if (current().is_sign("(")) {
      value = make(line, Call{std::move(value), parse_arguments()});
    } else {
      return value;
    }
  }
}

ExpressionPtr Parser::parse_subscript(ExpressionPtr target) {
  const int line = current().line;
  if (skip_sign(".")) {
    if (current().kind == Kind::integer) return make(line, Item{std::move(target), make(line, Literal{Value(take().integer)})});
    return make(line, Attribute{std::move(target), expect_any_name("an attribute's name, or a number")});
  }
  expect_sign("[");
  ExpressionPtr parts[3];
  int count = 0;
  while (true) {
    if (!current().is_sign(":") && !current().is_sign("]")) parts[count] = parse_expression();
    if (count == 2 || !skip_sign(":")) break;
    ++count;
  }
  expect_sign("]");
  if (count > 0) return make(line, Slice{std::move(target), std::move(parts[0]), std::move(parts[1]), std::move(parts[2])});
  if (!parts[0]) fail_at(line, "nothing between '[' and ']'", "an index, a key, or a slice (1:3)");
  return make(line, Item{std::move(target), std::move(parts[0])});
}

CallArguments Parser::parse_arguments() {
  CallArguments arguments;
  expect_sign("(");
  for (bool first = true; !skip_sign(")"); first = false) {
    if (!first) expect_sign(",");
    if (!first && skip_sign(")")) break;
    const int line = current().line;
    const bool spread = arguments.more_positional || arguments.more_named;
    if (skip_sign("**")) {
      if (arguments.more_named) fail_at(line, "two arguments with '**'");
      arguments.more_named = parse_expression();
    } else if (skip_sign("*")) {
      if (spread) fail_at(line, "'*' stands after another '*' or '**'");
      arguments.more_positional = parse_expression();
    } else if (current().kind == Kind::name && next().is_sign("=")) {
      if (arguments.more_named) fail_at(line, "a named argument stands after '**'");
      std::string name = take().text;
      take();
      arguments.named.emplace_back(std::move(name), parse_expression());
    } else {
      if (spread || !arguments.named.empty()) fail_at(line, "a positional argument stands after a named one");
      arguments.positional.push_back(parse_expression());
    }
  }
  return arguments;
}

ExpressionPtr Parser::parse_filters_and_tests(ExpressionPtr value) {
  while (true) {
    const int line = current().line;
    if (skip_sign("|")) {
      value = parse_filter(std::move(value));
    } else if (skip_name("is")) {
      value = parse_test(std::move(value));
    } else if (current().is_sign("(")) {
      value = make(line, Call{std::move(value), parse_arguments()});
    } else {
      return value;
    }
  }
}

ExpressionPtr Parser::parse_filter(ExpressionPtr input) {
  const int line = current().line;
  Filter filter{std::move(input), expect_any_name("a filter's name"), {}};
  while (skip_sign(".")) filter.name += "." + expect_any_name("a filter's name");
  if (current().is_sign("(")) filter.arguments = parse_arguments();
  return make(line, std::move(filter));
}

/// x is test, x is test(argument), x is test argument.
ExpressionPtr Parser::parse_test(ExpressionPtr input) {
  const int line = current().line;
  const bool negated = skip_name("not");
  Test test{std::move(input), expect_any_name("a test's name"), {}, negated};
  while (skip_sign(".")) test.name += "." + expect_any_name("a test's name");
  const Kind kind = current().kind;
  const bool operand = kind == Kind::string || kind == Kind::integer || kind == Kind::real || current().is_sign("[") || current().is_sign("{") ||
                       (kind == Kind::name && !current().is_name("else") && !current().is_name("or") && !current().is_name("and"));
  if (current().is_name("is")) fail_at(line, "a test stands after a test", "'and' between two tests");
  if (current().is_sign("(")) {
    test.arguments = parse_arguments();
  } else if (operand) {
    test.arguments.positional.push_back(parse_postfix(parse_primary()));
  }
  return make(line, std::move(test));
}

ExpressionPtr Parser::parse_simple_target(bool with_namespace) {
  const int line = current().line;
  if (with_namespace && current().kind == Kind::name && next().is_sign(".")) {
    NamespaceTarget target{take().text, ""};
    take();
    target.name = expect_any_name("an attribute's name");
    return make(line, std::move(target));
  }
  return parse_primary();
}

ExpressionPtr Parser::parse_target(bool with_namespace, std::string_view end) {
  const int line = current().line;
  ListDisplay tuple{{}, true};
  bool commas = false;
  while (current().kind != Kind::block_end && (end.empty() || !current().is_name(end))) {
    tuple.items.push_back(parse_simple_target(with_namespace));
    if (!skip_sign(",")) break;
    commas = true;
  }
  if (tuple.items.empty()) unexpected("a name to assign to");
  ExpressionPtr target = commas ? make(line, std::move(tuple)) : std::move(tuple.items[0]);
  check_target(*target);
  return target;
}

void Parser::check_target(const Expression& target) const {
  if (std::holds_alternative<Name>(target.node) || std::holds_alternative<NamespaceTarget>(target.node)) return;
  const auto* tuple = std::get_if<ListDisplay>(&target.node);
  if (tuple == nullptr) fail_at(target.line, "this cannot be assigned to", "a name, or several with commas between them");
  for (const ExpressionPtr& item : tuple->items) check_target(*item);
}

}  // namespace patchbay::jinja
