// Operators, from the weakest to the strongest.
#include <algorithm>

#include "jinja/parser.h"

namespace patchbay::jinja {

using Kind = Token::Kind;

ExpressionPtr Parser::parse_expression(bool with_condition) {
  const Nested nested(*this);
  ExpressionPtr value = parse_or();
  while (with_condition && current().is_name("if")) {
    const int line = take().line;
    Conditional node{parse_or(), std::move(value), nullptr};
    if (skip_name("else")) node.otherwise = parse_expression();
    value = make(line, std::move(node));
  }
  return value;
}

ExpressionPtr Parser::parse_or() {
  ExpressionPtr left = parse_and();
  while (current().is_name("or")) {
    const int line = take().line;
    left = make(line, Logic{true, std::move(left), parse_and()});
  }
  return left;
}

ExpressionPtr Parser::parse_and() {
  ExpressionPtr left = parse_not();
  while (current().is_name("and")) {
    const int line = take().line;
    left = make(line, Logic{false, std::move(left), parse_not()});
  }
  return left;
}

ExpressionPtr Parser::parse_not() {
  if (!current().is_name("not")) return parse_compare();
  const Nested nested(*this);
  const int line = take().line;
  return make(line, Unary{'!', parse_not()});
}

ExpressionPtr Parser::parse_compare() {
  static constexpr std::string_view kSigns[] = {"==", "!=", "<", "<=", ">", ">="};
  const int line = current().line;
  Compare node{parse_sum(), {}};
  while (true) {
    if (current().kind == Kind::sign && std::ranges::find(kSigns, current().text) != std::end(kSigns)) {
      std::string sign = take().text;
      node.rest.emplace_back(std::move(sign), parse_sum());
    } else if (skip_name("in")) {
      node.rest.emplace_back("in", parse_sum());
    } else if (current().is_name("not") && next().is_name("in")) {
      take(), take();
      node.rest.emplace_back("not in", parse_sum());
    } else {
      return node.rest.empty() ? std::move(node.first) : make(line, std::move(node));
    }
  }
}

ExpressionPtr Parser::parse_sum() {
  ExpressionPtr left = parse_concat();
  while (current().is_sign("+") || current().is_sign("-")) {
    const Token sign = take();
    left = make(sign.line, Binary{sign.text, std::move(left), parse_concat()});
  }
  return left;
}

ExpressionPtr Parser::parse_concat() {
  const int line = current().line;
  Concat node;
  node.parts.push_back(parse_product());
  while (skip_sign("~")) node.parts.push_back(parse_product());
  return node.parts.size() == 1 ? std::move(node.parts[0]) : make(line, std::move(node));
}

ExpressionPtr Parser::parse_product() {
  ExpressionPtr left = parse_power();
  while (current().is_sign("*") || current().is_sign("/") || current().is_sign("//") || current().is_sign("%")) {
    const Token sign = take();
    left = make(sign.line, Binary{sign.text, std::move(left), parse_power()});
  }
  return left;
}

/// From left to right, unlike Python's.
ExpressionPtr Parser::parse_power() {
  ExpressionPtr left = parse_unary();
  while (current().is_sign("**")) {
    const int line = take().line;
    left = make(line, Binary{"**", std::move(left), parse_unary()});
  }
  return left;
}

/// Filters and tests bind weaker than a sign before them: -x|abs is (-x)|abs.
ExpressionPtr Parser::parse_unary(bool with_filters) {
  ExpressionPtr value;
  if (current().is_sign("-") || current().is_sign("+")) {
    const Nested nested(*this);
    const Token sign = take();
    value = make(sign.line, Unary{sign.text[0], parse_unary(false)});
  } else {
    value = parse_primary();
  }
  value = parse_postfix(std::move(value));
  return with_filters ? parse_filters_and_tests(std::move(value)) : std::move(value);
}

}  // namespace patchbay::jinja
