// Answers for the differential fuzzer (tests/fuzz/tokenizer.py): tokenizer_lines FILE reads requests from its standard input, one a line,
//   PARSE_SPECIAL ADD_SPECIAL HEX      (0 or 1, 0 or 1, the text's bytes)
// and answers each with one line of JSON: {"ids": [...], "text": "hex of the decoded ids"} or {"error": "..."}.
// tokenizer_lines FILE TEXT ROUNDS times the text in the file TEXT instead (scripts/compare_tokenizers.py).
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <fstream>
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

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

nlohmann::json timings(const std::string& path, const std::string& text_path, int rounds) {
  const auto start = std::chrono::steady_clock::now();
  const auto tokenizer = patchbay::load_tokenizer(path);
  const double load_s = seconds_since(start);
  std::ifstream in(text_path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  std::vector<double> encode_s;
  std::size_t tokens = 0;
  for (int i = 0; i < rounds; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    tokens = tokenizer->encode(text, false, false).size();
    encode_s.push_back(seconds_since(begin));
  }
  return {{"load_s", load_s}, {"encode_s", encode_s}, {"tokens", tokens}, {"bytes", text.size()}};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 && argc != 4) return std::fprintf(stderr, "usage: tokenizer_lines FILE < requests, or tokenizer_lines FILE TEXT ROUNDS\n"), 2;
  try {
    if (argc == 4) return std::cout << timings(argv[1], argv[2], std::stoi(argv[3])).dump() << std::endl, 0;
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
