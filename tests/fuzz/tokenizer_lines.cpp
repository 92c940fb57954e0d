// Answers for the differential fuzzer (tests/fuzz/tokenizer.py): tokenizer_lines FILE reads requests from its standard input, one a line,
//   PARSE_SPECIAL ADD_SPECIAL HEX      (0 or 1, 0 or 1, the text's bytes)
// and answers each with one line of JSON: {"ids": [...], "text": "hex of the decoded ids"} or {"error": "..."}.
#include <cstdio>
#include <exception>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "tokenizer.h"

namespace {

std::string from_hex(const std::string& hex) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return bytes;
}
std::string to_hex(const std::string& bytes) {
  std::string hex;
  char digits[3];
  for (const char byte : bytes) hex += (std::snprintf(digits, sizeof digits, "%02x", static_cast<unsigned char>(byte)), digits);
  return hex;
}

nlohmann::json answer(const patchbay::Tokenizer& tokenizer, const std::string& line) {
  std::istringstream in(line);
  bool parse_special = false, add_special = false;
  std::string hex;
  in >> parse_special >> add_special >> hex;
  const auto ids = tokenizer.encode(from_hex(hex), parse_special, add_special);
  return {{"ids", ids}, {"text", to_hex(tokenizer.decode_text(ids, true))}};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return std::fprintf(stderr, "usage: tokenizer_lines FILE < requests\n"), 2;
  try {
    const auto tokenizer = patchbay::load_tokenizer(argv[1]);
    std::cout << "{\"ready\": true}" << std::endl;
    for (std::string line; std::getline(std::cin, line);) {
      try {
        std::cout << answer(*tokenizer, line).dump() << std::endl;
      } catch (const std::exception& error) {
        std::cout << nlohmann::json({{"error", error.what()}}).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << std::endl;
      }
    }
  } catch (const std::exception& error) {
    std::cout << nlohmann::json({{"error", error.what()}}).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << std::endl;
    return 1;
  }
  return 0;
}
