#include "jinja/operators.h"

#include <cmath>

namespace patchbay::jinja {
namespace {

[[noreturn]] void refuse_overflow(std::string_view sign) { fail("the result of '" + std::string(sign) + "' does not fit 64 bits", "integers from -2^63 to 2^63-1"); }
[[noreturn]] void refuse_types(std::string_view sign, const Value& left, const Value& right) {
  fail("'" + std::string(sign) + "' does not take a " + left.type_name() + " and a " + right.type_name());
}
void require_divisor(bool not_zero) {
  if (!not_zero) fail("division by zero");
}

/// Python's remainder has the sign of the divisor; the quotient goes with it.
struct Division { double quotient, remainder; };
Division divide(double a, double b) {
  double remainder = std::fmod(a, b), quotient = (a - remainder) / b;
  if (remainder == 0) {
    remainder = std::copysign(0.0, b);
  } else if ((b < 0) != (remainder < 0)) {
    remainder += b;
    quotient -= 1;
  }
  double floor = quotient == 0 ? std::copysign(0.0, a / b) : std::floor(quotient);
  if (quotient - floor > 0.5) floor += 1;
  return {floor, remainder};
}

Value integer_power(std::int64_t base, std::int64_t exponent) {
  if (exponent < 0) {
    require_divisor(base != 0);
    return std::pow(static_cast<double>(base), static_cast<double>(exponent));
  }
  std::int64_t result = 1;
  for (; exponent > 0; exponent >>= 1) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) refuse_overflow("**");
    if (exponent > 1 && __builtin_mul_overflow(base, base, &base)) refuse_overflow("**");
  }
  return result;
}

Value with_integers(std::string_view sign, std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  if (sign == "**") return integer_power(a, b);
  if (sign == "+" || sign == "-" || sign == "*") {
    const bool overflow = sign == "+" ? __builtin_add_overflow(a, b, &result) : sign == "-" ? __builtin_sub_overflow(a, b, &result) : __builtin_mul_overflow(a, b, &result);
    if (overflow) refuse_overflow(sign);
    return result;
  }
  require_divisor(b != 0);
  if (sign == "/") return static_cast<double>(static_cast<long double>(a) / static_cast<long double>(b));
  if (b == -1) return sign == "%" ? Value(std::int64_t{0}) : with_integers("*", a, b);  // the one quotient that may not fit
  const std::int64_t remainder = a % b, shift = remainder != 0 && (remainder < 0) != (b < 0) ? 1 : 0;
  return sign == "%" ? remainder + shift * b : a / b - shift;
}

Value with_reals(std::string_view sign, double a, double b) {
  if (sign == "+") return a + b;
  if (sign == "-") return a - b;
  if (sign == "*") return a * b;
  if (sign == "**") {
    require_divisor(a != 0 || b >= 0);
    if (a < 0 && std::isfinite(b) && std::floor(b) != b) fail("a negative number to a fractional power");
    const double power = std::pow(a, b);
    if (std::isinf(power) && std::isfinite(a) && std::isfinite(b)) fail("the result of '**' is too large");
    return power;
  }
  require_divisor(b != 0);
  if (sign == "/") return a / b;
  return sign == "%" ? divide(a, b).remainder : divide(a, b).quotient;
}

bool is_whole(const Value& value) { return value.is_integer() || value.is_bool(); }
bool is_list(const Value& value) {
  const Sequence* sequence = value.sequence();
  return sequence && (sequence->kind == Sequence::Kind::list || sequence->kind == Sequence::Kind::tuple);
}

Value added(const Value& left, const Value& right, Budget& budget) {
  if (left.is_text() && right.is_text()) {
    budget.charge(left.text().size() + right.text().size());
    budget.check_size(left.text().size() + right.text().size());
    Text joined = left.text();
    joined.append(right.text());
    return joined;
  }
  if (!is_list(left) || !is_list(right) || left.sequence()->kind != right.sequence()->kind) refuse_types("+", left, right);
  budget.charge((left.sequence()->items.size() + right.sequence()->items.size()) * sizeof(Value));
  std::vector<Value> items = left.sequence()->items;
  items.insert(items.end(), right.sequence()->items.begin(), right.sequence()->items.end());
  return Value::sequence(budget, left.sequence()->kind, std::move(items));
}

Value repeated(const Value& value, std::int64_t times, Budget& budget) {
  const std::size_t size = value.is_text() ? value.text().size() : value.sequence()->items.size() * sizeof(Value);
  if (times <= 0 || size == 0) times = size == 0 ? 1 : 0;
  if (static_cast<std::uint64_t>(times) > budget.limits().output_bytes) budget.check_size(static_cast<std::size_t>(times));
  budget.charge(size * static_cast<std::size_t>(times));
  if (value.is_text()) {
    budget.check_size(size * static_cast<std::size_t>(times));
    Text text;
    for (std::int64_t i = 0; i < times; ++i) text.append(value.text());
    return text;
  }
  const auto& once = value.sequence()->items;
  std::vector<Value> items;
  for (std::int64_t i = 0; i < times; ++i) items.insert(items.end(), once.begin(), once.end());
  return Value::sequence(budget, value.sequence()->kind, std::move(items));
}

}  // namespace

Value binary(std::string_view sign, const Value& left, const Value& right, Budget& budget) {
  require_defined(left);
  if (sign == "%" && left.is_text()) return formatted(left.text(), right, budget);
  require_defined(right);
  if (is_whole(left) && is_whole(right)) return with_integers(sign, left.integer(), right.integer());
  if (left.is_number() && right.is_number()) return with_reals(sign, left.real(), right.real());
  if (sign == "+") return added(left, right, budget);
  if (sign == "*" && is_whole(right) && (left.is_text() || is_list(left))) return repeated(left, right.integer(), budget);
  if (sign == "*" && is_whole(left) && (right.is_text() || is_list(right))) return repeated(right, left.integer(), budget);
  refuse_types(sign, left, right);
}

Value negated(const Value& value) {
  require_defined(value);
  if (value.is_real()) return -value.real();
  if (!is_whole(value)) fail("'-' does not take a " + value.type_name());
  return with_integers("-", 0, value.integer());
}

}  // namespace patchbay::jinja
