#include "convert/moved_tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <set>

#include "engine/plain_numbers.h"
#include "engine/weights.h"
#include "patchbay/half.h"
#include "utf8.h"

namespace patchbay {
namespace {

bool is_float_type(std::string_view name) { return name == "F32" || name == "F16" || name == "BF16"; }

/// F16 for quantised values, F32 for integers and F64.
const TensorType& float_type_of(const FileTensor& tensor) {
  return *find_tensor_type(is_float_type(tensor.type_name) ? tensor.type_name : holds_plain_numbers(tensor) ? "F32" : "F16");
}

bool is_norm(Role role) {
  switch (role) {
    case Role::output_norm: case Role::attention_norm: case Role::attention_post_norm: case Role::ffn_norm: case Role::ffn_post_norm:
    case Role::q_norm: case Role::k_norm: return true;
    default: return false;
  }
}

const FileTensor& stored(const ModelFile& file, const std::string& name) {
  const FileTensor* tensor = file.tensor(name);
  if (!tensor) throw Error(fmt::format("{}: tensor '{}'", escaped(file.path()), name), "missing tensor");
  stored_format(file, *tensor);  // refuses what is not computed
  return *tensor;
}

/// Numbers as a file holds them. @throws Error for one that the type has no room for.
template <class Stored, class Encode>
void write_numbers(View<const float, 1> values, Encode encode, ByteSink sink) {
  std::vector<Stored> numbers;
  numbers.reserve(static_cast<std::size_t>(values.shape[0]));
  for (std::int64_t i = 0; i < values.shape[0]; ++i) numbers.push_back(encode(values[i]));
  sink({reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(Stored)});
}

void write_as(const TensorType& type, const std::string& name, View<const float, 1> values, ByteSink sink) {
  if (type.name == "F32") return write_numbers<float>(values, [](float value) { return value; }, sink);
  if (type.name == "BF16") return write_numbers<BFloat16>(values, [](float value) { return to_bfloat16(value); }, sink);
  const auto narrow = [&](float value) {
    const Half half = to_half(value);
    if (std::isinf(to_float(half)) && std::isfinite(value)) throw Error("tensor " + name, fmt::format("holds {}, too large for f16", value), "up to 65504", "--type bf16 or f32");
    return half;
  };
  write_numbers<Half>(values, narrow, sink);
}

/// The other way than row_in_gguf().
std::int64_t row_in_folder(std::int64_t row, std::int64_t size) { return row / size * size + row % 2 * (size / 2) + row % size / 2; }

/// The rows [first, first + rows) of a stored tensor, changed on their way.
struct Move {
  std::shared_ptr<const ModelFile> file;
  const FileTensor* tensor = nullptr;
  std::int64_t first = 0, rows = 0;
  TensorPair pair;
  bool to_gguf = true;

  std::int64_t cols() const { return tensor->shape.at(0); }
  std::int64_t source(std::int64_t row) const {
    if (pair.head_size == 0) return first + row;
    return first + (to_gguf ? row_in_folder(row, pair.head_size) : row_in_gguf(row, pair.head_size));
  }

  /// `type` where it can hold every value, else F32.
  const TensorType* lossless_type(const TensorType& type) const {
    std::string wide;
    const TensorType& f32 = *find_tensor_type("F32");
    write(f32, [&](std::string_view bytes) { wide += bytes; });
    std::vector<float> values(wide.size() / sizeof(float));
    std::memcpy(values.data(), wide.data(), wide.size());
    return std::ranges::all_of(values, [&](float value) { return rounded_to(type, value) == value; }) ? &type : &f32;
  }
  static float rounded_to(const TensorType& type, float value) {
    return type.name == "F16" ? to_float(to_half(value)) : type.name == "BF16" ? to_float(to_bfloat16(value)) : value;
  }

  /// In pieces, so that a large matrix never stands in memory whole; a transposed one does.
  void write(const TensorType& type, ByteSink sink) const {
    if (pair.transposed) return write_transposed(type, sink);
    if (pair.vector) return write_vector(type, sink);
    const StoredRows stored_rows(file, *tensor);
    const std::int64_t piece = std::max<std::int64_t>(1, (1 << 18) / cols());
    std::vector<float> values(static_cast<std::size_t>(std::min(piece, rows) * cols()));
    for (std::int64_t row = 0; row < rows; row += piece) {
      const View<float, 2> out(values.data(), {std::min(piece, rows - row), cols()});
      for (std::int64_t r = 0; r < out.shape[0]; ++r) stored_rows.read(source(row + r), out.rows(r, r + 1));
      write_as(type, pair.folder, {out.data, {out.size()}}, sink);
    }
  }

 private:
  void write_vector(const TensorType& type, ByteSink sink) const {  // one row of single values
    std::vector<float> read(static_cast<std::size_t>(cols())), values;
    StoredRows(file, *tensor).read(0, {read.data(), {1, cols()}});
    const float offset = to_gguf ? pair.offset : -pair.offset;
    for (std::int64_t i = 0; i < cols(); ++i) values.push_back(read[static_cast<std::size_t>(source(i))] + offset);
    write_as(type, pair.folder, {values.data(), {cols()}}, sink);
  }
  void write_transposed(const TensorType& type, ByteSink sink) const {
    std::vector<float> values(static_cast<std::size_t>(rows * cols())), column(static_cast<std::size_t>(rows));
    StoredRows(file, *tensor).read(first, {values.data(), {rows, cols()}});
    for (std::int64_t c = 0; c < cols(); ++c) {
      for (std::int64_t r = 0; r < rows; ++r) column[static_cast<std::size_t>(r)] = values[static_cast<std::size_t>(r * cols() + c)];
      write_as(type, pair.folder, {column.data(), {rows}}, sink);
    }
  }
};

/// GGUF's readers multiply these as fp32, whatever the others are.
bool stays_wide(const TensorPair& pair) {
  return pair.vector || pair.role == Role::router || pair.role == Role::shared_router || pair.role == Role::position_embedding;
}

std::vector<std::int64_t> turned(std::vector<std::int64_t> shape, bool transposed) {
  if (transposed && shape.size() == 2) std::swap(shape[0], shape[1]);
  return shape;
}

}  // namespace

std::int64_t row_in_gguf(std::int64_t row, std::int64_t size) {
  const std::int64_t within = row % size, half = size / 2;
  return row / size * size + within % half * 2 + within / half;
}

std::vector<TensorPair> tensor_pairs(const ModelSpec& spec, bool interleaved) {
  std::vector<TensorPair> pairs;
  std::set<std::string> seen;
  spec.for_each_tensor([&](const TensorPlace& place, int layer, int expert) {
    TensorPair pair{tensor_name(place, layer, expert), tensor_label(place, layer), place.role};
    if (!seen.insert(pair.folder).second) return;  // another part of a fused tensor
    pair.expert = expert;
    pair.stacked = place.name.find('#') != std::string::npos;
    pair.vector = is_norm(place.role);
    pair.transposed = place.transposed;
    if (pair.vector) pair.offset = spec.norm_offset;
    if (interleaved && (place.role == Role::q || place.role == Role::k)) pair.head_size = spec.head_size;
    pairs.push_back(pair);
    if (!place.needs_bias) return;
    pair.folder = tensor_name(place, layer, expert, ".bias");
    pair.gguf = tensor_label(place, layer, ".bias");
    pair.vector = true;
    pair.transposed = false;
    pair.offset = 0;
    pairs.push_back(pair);
  });
  return pairs;
}

std::vector<TensorOutput> tensors_for_gguf(const std::shared_ptr<const ModelFile>& folder, const std::vector<TensorPair>& pairs, const TensorType* type) {
  std::vector<TensorOutput> outputs;
  std::map<std::string, std::vector<Move>> moves;  // by GGUF's name: several where experts are stacked
  std::vector<std::string> order;
  for (const TensorPair& pair : pairs) {
    const FileTensor& tensor = stored(*folder, pair.folder);
    std::vector<Move>& parts = moves[pair.gguf];
    if (parts.empty()) order.push_back(pair.gguf);
    parts.push_back({folder, &tensor, 0, rows_of(tensor), pair, true});
  }
  for (const std::string& name : order) {
    const std::vector<Move>& parts = moves[name];
    const TensorPair& pair = parts[0].pair;
    std::vector<std::int64_t> shape = turned(parts[0].tensor->shape, pair.transposed);
    if (pair.stacked) shape.push_back(std::ssize(parts));
    if (pair.role == Role::shared_router) shape.resize(1);
    const TensorType* chosen = stays_wide(pair) ? find_tensor_type("F32") : type ? type : &float_type_of(*parts[0].tensor);
    const auto write = [parts, chosen](ByteSink sink) { for (const Move& part : parts) part.write(*chosen, sink); };
    outputs.push_back({name, chosen, std::move(shape), write});
  }
  return outputs;
}

std::vector<TensorOutput> tensors_for_folder(const std::shared_ptr<const ModelFile>& gguf, const std::vector<TensorPair>& pairs, const TensorType* type) {
  std::vector<TensorOutput> outputs;
  const TensorType& usual = usual_type(*gguf);
  for (const TensorPair& pair : pairs) {
    const FileTensor& tensor = stored(*gguf, pair.gguf);
    std::vector<std::int64_t> shape = turned(tensor.shape, pair.transposed);
    if (pair.stacked) shape.pop_back();
    if (pair.role == Role::shared_router) shape.push_back(1);
    const std::int64_t rows = pair.stacked ? shape.at(1) : rows_of(tensor);
    const Move move{gguf, &tensor, pair.expert * rows, rows, pair, false};
    const TensorType* chosen = type ? type : stays_wide(pair) ? move.lossless_type(usual) : &float_type_of(tensor);
    outputs.push_back({pair.folder, chosen, std::move(shape), [move, chosen](ByteSink sink) { move.write(*chosen, sink); }});
  }
  return outputs;
}

bool is_quantised(const FileTensor& tensor) { return !is_float_type(tensor.type_name) && !holds_plain_numbers(tensor); }
int count_quantised(const ModelFile& file) { return static_cast<int>(std::ranges::count_if(file.tensors(), is_quantised)); }

const TensorType& usual_type(const ModelFile& file) {
  std::map<std::string_view, std::int64_t> bytes;
  for (const FileTensor& tensor : file.tensors()) {
    if (tensor.shape.size() > 1) bytes[tensor.type_name] += tensor.bytes;
  }
  std::string_view most;
  for (const auto& [name, count] : bytes) {
    if (most.empty() || count > bytes[most]) most = name;
  }
  return *find_tensor_type(is_float_type(most) ? most : "F16");
}

}  // namespace patchbay
