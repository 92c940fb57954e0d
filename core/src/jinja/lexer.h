/// @file lexer.h
/// A template's source to tokens. White space around tags is dropped here, as transformers sets Jinja up: the line break after a block
/// tag goes (trim_blocks), and so does the indentation before one (lstrip_blocks).
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace patchbay::jinja {

struct Token {
  enum class Kind { data, variable_begin, variable_end, block_begin, block_end, name, string, integer, real, sign, end };
  Kind kind = Kind::end;
  std::string text;  ///< of data and strings what they stand for, of all else how it is written
  int line = 1;
  std::int64_t integer = 0;
  double real = 0;

  bool is(Kind k, std::string_view t) const { return kind == k && text == t; }
  bool is_name(std::string_view t) const { return is(Kind::name, t); }
  bool is_sign(std::string_view t) const { return is(Kind::sign, t); }
};

/// Ends with a token of kind `end`. @throws Error, "line N: ...".
std::vector<Token> tokenize(std::string_view source);
[[noreturn]] void fail_at(int line, std::string problem, std::string allowed = {}, std::string remedy = {});

}  // namespace patchbay::jinja
