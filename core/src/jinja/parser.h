/// @file parser.h
/// Tokens to a tree: statements in parser.cpp, operators in parser_expressions.cpp, what they stand between in parser_operands.cpp. One function for each level of precedence.
#pragma once
#include <algorithm>
#include <set>

#include "jinja/ast.h"
#include "jinja/lexer.h"

namespace patchbay::jinja {

class Parser {
 public:
  Parser(std::vector<Token> tokens, const Limits& limits) : tokens_(std::move(tokens)), limits_(limits) {}
  /// The whole template. @throws Error, "line N: ...".
  Body run();

 private:
  // tokens
  const Token& current() const { return tokens_[at_]; }
  const Token& next() const { return tokens_[at_ + 1 < tokens_.size() ? at_ + 1 : at_]; }
  Token take() { return at_ + 1 < tokens_.size() ? tokens_[at_++] : tokens_[at_]; }
  bool skip_name(std::string_view name);
  bool skip_sign(std::string_view sign);
  void expect_sign(std::string_view sign);
  void expect_name(std::string_view name);
  std::string expect_any_name(const char* what);
  void expect_block_end();
  [[noreturn]] void unexpected(std::string allowed) const;

  // statements
  Body parse_body(const std::vector<std::string_view>& ends);
  Statement parse_statement(int line);
  /// A block's body up to {% NAME %}, that included.
  Body parse_block(std::string_view end);
  /// The same for a block whose output goes elsewhere: no `break` leads out of it.
  Body parse_captured_block(std::string_view end);
  If parse_if();
  For parse_for();
  Statement parse_set(int line);
  MacroBlock parse_macro();
  /// The part from the signature to the end tag that macros and call blocks share.
  void parse_macro_body(MacroBlock& macro, std::string_view end);
  CallBlock parse_call_block();
  FilterBlock parse_filter_block();
  With parse_with();
  std::vector<Parameter> parse_parameters();

  // expressions
  ExpressionPtr parse_expression(bool with_condition = true);
  ExpressionPtr parse_or();
  ExpressionPtr parse_and();
  ExpressionPtr parse_not();
  ExpressionPtr parse_compare();
  ExpressionPtr parse_sum();
  ExpressionPtr parse_concat();
  ExpressionPtr parse_product();
  ExpressionPtr parse_power();
  ExpressionPtr parse_unary(bool with_filters = true);
  ExpressionPtr parse_primary();
  ExpressionPtr parse_list();
  ExpressionPtr parse_dict();
  ExpressionPtr parse_postfix(ExpressionPtr expression);
  ExpressionPtr parse_filters_and_tests(ExpressionPtr expression);
  ExpressionPtr parse_filter(ExpressionPtr input);
  ExpressionPtr parse_test(ExpressionPtr input);
  ExpressionPtr parse_subscript(ExpressionPtr target);
  CallArguments parse_arguments();
  /// Expressions with commas between them are a tuple; `end` is a name that ends it too.
  ExpressionPtr parse_tuple(bool with_condition, bool may_be_empty, std::string_view end = {});
  /// What a loop or a set may assign to: names, and tuples of them.
  ExpressionPtr parse_target(bool with_namespace, std::string_view end = {});
  ExpressionPtr parse_simple_target(bool with_namespace);
  void check_target(const Expression& target) const;

  template <class Node>
  ExpressionPtr make(int line, Node node);

  /// While one lives, the parser is a level deeper.
  struct Nested {
    explicit Nested(Parser& p);
    ~Nested() { --parser.nesting_; }
    Parser& parser;
  };

  std::vector<Token> tokens_;
  const Limits limits_;
  std::size_t at_ = 0;
  int nesting_ = 0;
  std::set<std::string> specials_;  ///< of the names that mean something in a macro alone: those seen in the present one
  int loops_ = 0;  ///< around the present statement: `break` needs one
};

template <class Node>
ExpressionPtr Parser::make(int line, Node node) {
  int height = 0;
  node.children([&](const ExpressionPtr& child) { height = std::max(height, child ? child->height : 0); });
  if (height >= limits_.nesting) fail_at(line, "the expression nests too deep", "up to " + std::to_string(limits_.nesting) + " levels");
  auto expression = std::make_unique<Expression>();
  expression->line = line;
  expression->height = height + 1;
  expression->node = std::move(node);
  return expression;
}

}  // namespace patchbay::jinja
