#include "jinja/parser.h"

#include <algorithm>

#include "utf8.h"

namespace patchbay::jinja {

using Kind = Token::Kind;

namespace {

std::string shown(const Token& token) {
  switch (token.kind) {
    case Kind::end: return "the end of the template";
    case Kind::block_end: return "'%}'";
    case Kind::variable_end: return "'}}'";
    case Kind::block_begin: return "'{%'";
    case Kind::variable_begin: return "'{{'";
    case Kind::data: return "text";
    case Kind::string: return "a string";
    default: return "'" + escaped(token.text, 40) + "'";
  }
}

std::string tags(const std::vector<std::string_view>& names) {
  std::string text;
  for (const std::string_view name : names) text += (text.empty() ? "{% " : ", {% ") + std::string(name) + " %}";
  return text;
}

}  // namespace

Parser::Nested::Nested(Parser& p) : parser(p) {
  if (++parser.nesting_ <= parser.limits_.nesting) return;
  --parser.nesting_;
  fail_at(parser.current().line, "the template nests too deep", "up to " + std::to_string(parser.limits_.nesting) + " levels");
}

bool Parser::skip_name(std::string_view name) { return current().is_name(name) && (take(), true); }
bool Parser::skip_sign(std::string_view sign) { return current().is_sign(sign) && (take(), true); }
void Parser::expect_sign(std::string_view sign) {
  if (!skip_sign(sign)) unexpected("'" + std::string(sign) + "'");
}
void Parser::expect_name(std::string_view name) {
  if (!skip_name(name)) unexpected("'" + std::string(name) + "'");
}
std::string Parser::expect_any_name(const char* what) {
  if (current().kind != Kind::name) unexpected(what);
  return take().text;
}
void Parser::expect_block_end() {
  if (current().kind != Kind::block_end) unexpected("'%}'");
  take();
}
void Parser::unexpected(std::string allowed) const { fail_at(current().line, "unexpected " + shown(current()), std::move(allowed)); }

Body Parser::run() { return parse_body({}); }

/// Statements up to one of these tags, whose name is then the current token; with none, up to the template's end.
Body Parser::parse_body(const std::vector<std::string_view>& ends) {
  const Nested nested(*this);
  const int begin = current().line;
  Body body;
  while (current().kind != Kind::end) {
    const Token token = take();
    if (token.kind == Kind::data) {
      body.push_back({token.line, Data{Value::text(token.text)}});
    } else if (token.kind == Kind::variable_begin) {
      body.push_back({token.line, Print{parse_tuple(true, false)}});
      if (current().kind != Kind::variable_end) unexpected("'}}'");
      take();
    } else {
      if (current().kind == Kind::name && std::ranges::find(ends, current().text) != ends.end()) return body;
      body.push_back(parse_statement(token.line));
    }
  }
  if (!ends.empty()) fail_at(begin, "a block is not closed", tags(ends));
  return body;
}

Body Parser::parse_block(std::string_view end) {
  skip_sign(":");
  expect_block_end();
  Body body = parse_body({end});
  expect_name(end);
  return body;
}

Body Parser::parse_captured_block(std::string_view end) {
  const int loops = std::exchange(loops_, 0);
  Body body = parse_block(end);
  loops_ = loops;
  return body;
}

Statement Parser::parse_statement(int line) {
  static constexpr const char* kTags = "if, for, set, macro, call, filter, with, generation, break, continue, raw";
  if (current().kind != Kind::name) unexpected(std::string("a tag: ") + kTags);
  const std::string name = current().text;
  if (name == "set") {
    Statement statement = parse_set(line);
    expect_block_end();
    return statement;
  }
  take();
  Statement statement{line, Break{}};
  if (name == "if") {
    statement.node = parse_if();
  } else if (name == "for") {
    statement.node = parse_for();
  } else if (name == "macro") {
    statement.node = parse_macro();
  } else if (name == "call") {
    statement.node = parse_call_block();
  } else if (name == "filter") {
    statement.node = parse_filter_block();
  } else if (name == "with") {
    statement.node = parse_with();
  } else if (name == "generation") {
    statement.node = Generation{parse_captured_block("endgeneration")};
  } else if (name == "break" || name == "continue") {
    if (loops_ == 0) fail_at(line, "'" + name + "' outside of a loop");
    if (name == "continue") statement.node = Continue{};
  } else {
    fail_at(line, "unknown tag '" + escaped(name, 40) + "'", kTags, name.starts_with("end") ? "is there a tag too many?" : "");
  }
  expect_block_end();
  return statement;
}

If Parser::parse_if() {
  If node;
  while (true) {
    ExpressionPtr test = parse_tuple(false, false);
    skip_sign(":");
    expect_block_end();
    node.branches.emplace_back(std::move(test), parse_body({"elif", "else", "endif"}));
    if (skip_name("elif")) continue;
    if (skip_name("else")) {
      node.otherwise = parse_block("endif");
    } else {
      expect_name("endif");
    }
    return node;
  }
}

For Parser::parse_for() {
  For node;
  node.target = parse_target(false, "in");
  expect_name("in");
  node.iterable = parse_tuple(false, false, "recursive");
  if (skip_name("if")) node.filter = parse_expression();
  node.recursive = skip_name("recursive");
  skip_sign(":");
  expect_block_end();
  ++loops_;
  node.body = parse_body({"else", "endfor"});
  --loops_;
  if (skip_name("else")) {
    node.otherwise = parse_block("endfor");
  } else {
    expect_name("endfor");
  }
  return node;
}

Statement Parser::parse_set(int line) {
  take();
  ExpressionPtr target = parse_target(true);
  if (skip_sign("=")) return {line, Set{std::move(target), parse_tuple(true, false)}};
  ExpressionPtr filters;
  while (skip_sign("|")) filters = parse_filter(std::move(filters));
  return {line, SetBlock{std::move(target), std::move(filters), parse_captured_block("endset")}};
}

std::vector<Parameter> Parser::parse_parameters() {
  std::vector<Parameter> parameters;
  expect_sign("(");
  while (!skip_sign(")")) {
    if (!parameters.empty()) expect_sign(",");
    if (skip_sign(")")) break;
    Parameter parameter{expect_any_name("a parameter's name"), nullptr};
    if (skip_sign("=")) {
      parameter.default_value = parse_expression();
    } else if (!parameters.empty() && parameters.back().default_value) {
      fail_at(current().line, "parameter '" + escaped(parameter.name, 40) + "' has no default and stands after one that has");
    }
    parameters.push_back(std::move(parameter));
  }
  return parameters;
}

MacroBlock Parser::parse_macro() {
  MacroBlock macro;
  macro.name = expect_any_name("the macro's name");
  macro.parameters = parse_parameters();
  parse_macro_body(macro, "endmacro");
  return macro;
}

void Parser::parse_macro_body(MacroBlock& macro, std::string_view end) {
  std::set<std::string> outside = std::exchange(specials_, {});
  macro.body = parse_captured_block(end);
  macro.takes_more_positional = specials_.contains("varargs");
  macro.takes_more_named = specials_.contains("kwargs");
  macro.takes_caller = specials_.contains("caller");
  specials_.merge(outside);
}

CallBlock Parser::parse_call_block() {
  CallBlock block;
  block.caller.name = "caller";
  if (current().is_sign("(")) block.caller.parameters = parse_parameters();
  block.call = parse_expression();
  if (!std::holds_alternative<Call>(block.call->node)) fail_at(block.call->line, "a call block needs a call", "{% call macro(...) %}");
  parse_macro_body(block.caller, "endcall");
  return block;
}

FilterBlock Parser::parse_filter_block() {
  FilterBlock block;
  do block.filters = parse_filter(std::move(block.filters));
  while (skip_sign("|"));
  block.body = parse_captured_block("endfilter");
  return block;
}

With Parser::parse_with() {
  With with;
  while (current().kind != Kind::block_end) {
    if (!with.variables.empty()) expect_sign(",");
    ExpressionPtr target = parse_target(false);
    expect_sign("=");
    with.variables.emplace_back(std::move(target), parse_expression());
  }
  with.body = parse_block("endwith");
  return with;
}

}  // namespace patchbay::jinja
