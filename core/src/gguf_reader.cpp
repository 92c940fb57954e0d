// The GGUF container, versions 2 and 3. Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
//   "GGUF", u32 version, u64 tensors, u64 metadata pairs; the pairs (key, type, value); the tensor infos (name, extents, type,
//   offset); padding to the alignment; the tensors' bytes, back to back, each padded to the alignment. All little-endian.
#include "gguf_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <unordered_set>

#include "gguf_cursor.h"
#include "gguf_types.h"
#include "utf8.h"

namespace patchbay {
namespace {

static_assert(std::endian::native == std::endian::little, "GGUF is read as little-endian");

constexpr std::uint64_t kLargest = std::numeric_limits<std::int64_t>::max();  // sizes and offsets are int64 from here on
constexpr std::uint64_t kMaxKeyBytes = 65535, kMaxNameBytes = 64;
constexpr std::uint32_t kMaxRank = 4;
// The least that a record can take: what keeps a count honest before memory is set aside for it.
constexpr std::uint64_t kSmallestPair = 8 + 4 + 1, kSmallestInfo = 8 + 4 + 4 + 8;

std::uint64_t read_count(GgufCursor& in, const char* what, std::uint64_t record_bytes) {
  const std::size_t at = in.position();
  const auto count = in.number<std::uint64_t>("truncated header");
  if (count > in.rest() / record_bytes) {
    in.fail(at, fmt::format("{} count too large: {} of at least {} bytes each exceeds file ({} bytes are left)", what, count,
                            record_bytes, in.rest()));
  }
  return count;
}

// Metadata ------------------------------------------------------------------------------------------------------------------

template <class Stored, class Wide>
MetaValue number_value(GgufCursor& in) { return static_cast<Wide>(in.number<Stored>("truncated value")); }

bool boolean_value(GgufCursor& in) {
  const std::size_t at = in.position();
  const auto byte = in.number<std::uint8_t>("truncated value");
  if (byte > 1) in.fail(at, fmt::format("bad boolean {}", byte), "0 or 1");
  return byte == 1;
}

std::string_view text_value(GgufCursor& in, bool must_be_utf8) {
  const std::size_t at = in.position();
  const std::string_view text = in.text();
  if (must_be_utf8 && !is_utf8(text)) in.fail(at, "bad UTF-8 in a text");
  return text;
}

MetaValue scalar_value(GgufCursor& in, std::uint32_t type) {
  switch (type) {
    case kU8: return number_value<std::uint8_t, std::uint64_t>(in);
    case kU16: return number_value<std::uint16_t, std::uint64_t>(in);
    case kU32: return number_value<std::uint32_t, std::uint64_t>(in);
    case kU64: return number_value<std::uint64_t, std::uint64_t>(in);
    case kI8: return number_value<std::int8_t, std::int64_t>(in);
    case kI16: return number_value<std::int16_t, std::int64_t>(in);
    case kI32: return number_value<std::int32_t, std::int64_t>(in);
    case kI64: return number_value<std::int64_t, std::int64_t>(in);
    case kF32: return number_value<float, double>(in);
    case kF64: return number_value<double, double>(in);
    case kBool: return boolean_value(in);
    default: return text_value(in, true);
  }
}

std::uint64_t smallest_element(std::uint32_t type) {
  switch (type) {
    case kU8: case kI8: case kBool: return 1;
    case kU16: case kI16: return 2;
    case kU32: case kI32: case kF32: return 4;
    default: return 8;  // of a string: its length
  }
}

template <class Element, class Read>
MetaValue elements(std::uint64_t count, Read read) {
  std::vector<Element> list;
  list.reserve(count);
  for (std::uint64_t i = 0; i < count; ++i) list.push_back(read());
  return list;
}

template <class Stored, class Wide>
MetaValue number_elements(GgufCursor& in, std::uint64_t count) {
  return elements<Wide>(count, [&] { return static_cast<Wide>(in.number<Stored>("truncated value")); });
}

MetaValue array_value(GgufCursor& in, std::uint32_t type, std::uint64_t count, bool must_be_utf8) {
  switch (type) {
    case kU8: return number_elements<std::uint8_t, std::uint64_t>(in, count);
    case kU16: return number_elements<std::uint16_t, std::uint64_t>(in, count);
    case kU32: return number_elements<std::uint32_t, std::uint64_t>(in, count);
    case kU64: return number_elements<std::uint64_t, std::uint64_t>(in, count);
    case kI8: return number_elements<std::int8_t, std::int64_t>(in, count);
    case kI16: return number_elements<std::int16_t, std::int64_t>(in, count);
    case kI32: return number_elements<std::int32_t, std::int64_t>(in, count);
    case kI64: return number_elements<std::int64_t, std::int64_t>(in, count);
    case kF32: return number_elements<float, double>(in, count);
    case kF64: return number_elements<double, double>(in, count);
    case kBool: return elements<bool>(count, [&] { return boolean_value(in); });
    default: return elements<std::string_view>(count, [&] { return text_value(in, must_be_utf8); });
  }
}

std::uint32_t read_type(GgufCursor& in, const char* what) {
  const std::size_t at = in.position();
  const auto type = in.number<std::uint32_t>("truncated kv");
  if (meta_type_name(type).empty()) in.fail(at, fmt::format("bad {} type {}", what, type), "0 to 12");
  return type;
}

std::string_view read_key(GgufCursor& in) {
  const std::size_t at = in.position();
  if (in.rest() < 8) in.fail(at, "truncated kv");
  const std::string_view key = in.text();
  if (key.empty()) in.fail(at, "empty key");
  if (key.size() > kMaxKeyBytes) in.fail(at, fmt::format("bad key: {} bytes long", key.size()), "at most 65535");
  if (!is_plain_text(key)) in.fail(at, fmt::format("bad key '{}'", escaped(key, 80)), "UTF-8 without control characters");
  return key;
}

MetaEntry read_pair(GgufCursor& in) {
  MetaEntry entry;
  entry.key = read_key(in);
  in.enter(fmt::format("key '{}'", escaped(entry.key, 80)));
  entry.type = read_type(in, "value");
  if (entry.type != kArray) {
    entry.value = scalar_value(in, entry.type);
    return entry;
  }
  entry.array = true;
  entry.type = read_type(in, "array");
  if (entry.type == kArray) in.fail(in.position() - 4, "nested arrays not supported", "numbers, booleans or strings");
  const std::size_t at = in.position();
  const auto count = in.number<std::uint64_t>("truncated value");
  const std::uint64_t size = smallest_element(entry.type);
  if (count > kLargest / size) in.fail(at, fmt::format("array length overflow: {} exceeds file", count));
  if (count > in.rest() / size) in.fail(at, fmt::format("array length {} exceeds file ({} bytes are left)", count, in.rest()));
  // Token texts are bytes, whatever they spell; other text is printed and must be UTF-8.
  entry.value = array_value(in, entry.type, count, !entry.key.starts_with("tokenizer."));
  return entry;
}

std::vector<MetaEntry> read_metadata(GgufCursor& in, std::uint64_t count) {
  std::vector<MetaEntry> metadata;
  std::unordered_set<std::string_view> keys;
  for (std::uint64_t i = 0; i < count; ++i) {
    in.enter(fmt::format("metadata pair {}", i));
    const std::size_t at = in.position();
    metadata.push_back(read_pair(in));
    if (!keys.insert(metadata.back().key).second) in.fail(at, "duplicate key");
  }
  return metadata;
}

std::uint64_t alignment_of(const std::vector<MetaEntry>& metadata, const GgufCursor& in) {
  for (const MetaEntry& entry : metadata) {
    if (entry.key != "general.alignment") continue;
    const std::size_t at = in.offset_of(entry.key);
    if (entry.array || entry.type != kU32) in.fail("key 'general.alignment'", at, "alignment has wrong type", "u32");
    const auto alignment = std::get<std::uint64_t>(entry.value);
    if (!std::has_single_bit(alignment)) {
      in.fail("key 'general.alignment'", at, fmt::format("bad alignment {}", alignment), "a power of two");
    }
    return alignment;
  }
  return 32;
}

// Tensors -------------------------------------------------------------------------------------------------------------------

struct TensorInfo {
  FileTensor tensor;
  std::uint64_t offset = 0;  ///< from the start of the data section
  std::size_t at = 0;        ///< where the info stands
};

std::string_view read_name(GgufCursor& in) {
  const std::size_t at = in.position();
  if (in.rest() < kSmallestInfo) in.fail(at, "truncated tensor info");
  const std::string_view name = in.text();
  if (name.empty()) in.fail(at, "empty tensor name");
  if (name.size() > kMaxNameBytes) in.fail(at, fmt::format("tensor name too long: {} bytes", name.size()), "at most 64");
  if (!is_plain_text(name)) in.fail(at, fmt::format("bad tensor name '{}'", escaped(name)), "UTF-8 without controls");
  return name;
}

/// Extents, and their product. A dimension of 0 is legal.
std::uint64_t read_shape(GgufCursor& in, std::vector<std::int64_t>& shape) {
  std::size_t at = in.position();
  const auto rank = in.number<std::uint32_t>("truncated tensor info");
  if (rank > kMaxRank) in.fail(at, fmt::format("bad tensor info: too many dimensions: {}", rank), "at most 4");
  std::uint64_t count = 1;
  for (std::uint32_t i = 0; i < rank; ++i) {
    at = in.position();
    const auto extent = in.number<std::uint64_t>("truncated tensor info");
    if (extent > kLargest) in.fail(at, fmt::format("dimension too large: {}", extent));
    if (__builtin_mul_overflow(count, extent, &count)) in.fail(at, "element count overflow: past 64 bits");
    shape.push_back(static_cast<std::int64_t>(extent));
  }
  return count;
}

const TensorType& read_tensor_type(GgufCursor& in) {
  const std::size_t at = in.position();
  const auto code = in.number<std::uint32_t>("truncated tensor info");
  const TensorType* type = find_tensor_type(code);
  if (type == nullptr) in.fail(at, fmt::format("bad tensor type {}", code));
  if (type->bytes == 0) {
    in.fail(at, fmt::format("withdrawn tensor type {} ({})", code, type->name), "", "convert the model again with a current tool");
  }
  return *type;
}

TensorInfo read_tensor_info(GgufCursor& in) {
  TensorInfo info;
  info.at = in.position();
  FileTensor& tensor = info.tensor;
  tensor.name = read_name(in);
  in.enter(fmt::format("tensor '{}'", tensor.name));
  const std::uint64_t count = read_shape(in, tensor.shape);
  const TensorType& type = read_tensor_type(in);
  tensor.type = type.code;
  tensor.type_name = type.name;
  tensor.format = type.format;
  const std::int64_t row = tensor.shape.empty() ? 1 : tensor.shape[0];
  if (row % type.block != 0) {
    in.fail(info.at, fmt::format("row not a multiple of block: rows of {}, {} has blocks of {}", row, type.name, type.block));
  }
  std::uint64_t bytes = 0;
  if (__builtin_mul_overflow(count / type.block, static_cast<std::uint64_t>(type.bytes), &bytes) || bytes > kLargest) {
    in.fail(info.at, "byte size overflow");
  }
  tensor.bytes = static_cast<std::int64_t>(bytes);
  info.offset = in.number<std::uint64_t>("truncated tensor info");
  return info;
}

std::uint64_t padded(std::uint64_t bytes, std::uint64_t alignment) { return (bytes + alignment - 1) / alignment * alignment; }

/// The first tensor, as the file lists them, that does not begin where the one before ends; and where that is.
std::pair<TensorInfo, std::uint64_t> first_misplaced(const std::vector<TensorInfo>& infos, std::uint64_t alignment) {
  std::uint64_t expected = 0;
  for (const TensorInfo& info : infos) {
    if (info.offset != expected) return {info, expected};
    expected = padded(info.offset + static_cast<std::uint64_t>(info.tensor.bytes), alignment);
  }
  return {infos.back(), expected};
}

/// The tensors don't lie back to back: says in which way.
[[noreturn]] void refuse_layout(std::vector<TensorInfo>& infos, const GgufCursor& in, std::uint64_t alignment) {
  const auto where = [](const TensorInfo& info) { return fmt::format("tensor '{}'", info.tensor.name); };
  const auto offset = [](const TensorInfo& info) { return info.offset; };
  const auto unsorted = std::ranges::is_sorted_until(infos, {}, offset);
  const bool in_order = unsorted == infos.end();
  const TensorInfo early = in_order ? infos.front() : *unsorted;
  const auto [misplaced, expected] = first_misplaced(infos, alignment);
  std::ranges::stable_sort(infos, {}, [](const TensorInfo& info) { return std::pair(info.offset, info.tensor.bytes); });
  std::uint64_t end = 0;
  for (const TensorInfo& info : infos) {
    if (info.offset < end) {
      in.fail(where(info), info.at, fmt::format("tensors overlap: offset {} lies inside another tensor", info.offset));
    }
    end = info.offset + static_cast<std::uint64_t>(info.tensor.bytes);
  }
  if (!in_order) {
    in.fail(where(early), early.at, fmt::format("tensor offsets out of order: {} after a larger one", early.offset));
  }
  const bool gap = misplaced.offset > expected;  // else it is empty, and lies where another begins
  in.fail(where(misplaced), misplaced.at, fmt::format("{}: offset {}", gap ? "gap between tensors" : "tensors overlap", misplaced.offset),
          fmt::format("{}, back to back with the tensor before, padded to the alignment", expected));
}

/// Sets each tensor's data, once every offset is known to lie in the file. Returns where the last one ends.
std::uint64_t place(std::vector<TensorInfo>& infos, GgufCursor& in, std::uint64_t alignment) {
  if (infos.empty()) return in.position();
  const std::uint64_t start = padded(in.position(), alignment), size = in.size();
  if (start > size) {
    in.fail("tensor data", in.position(),
            fmt::format("data section past end: truncated after the tensor info ({} bytes, data starts at {})", size, start));
  }
  std::uint64_t expected = 0, end = 0;
  bool back_to_back = true;
  for (const TensorInfo& info : infos) {
    const std::string where = fmt::format("tensor '{}'", info.tensor.name);
    const auto bytes = static_cast<std::uint64_t>(info.tensor.bytes);
    if (info.offset % alignment != 0) {
      in.fail(where, info.at, fmt::format("tensor offset not aligned: {}", info.offset),
              fmt::format("multiples of {}", alignment));
    }
    if (info.offset > size - start || bytes > size - start - info.offset) {
      in.fail(where, info.at,
              fmt::format("tensor data past end: {} bytes at offset {} of a data section of {} bytes", bytes, info.offset,
                          size - start),
              "", "the file was probably cut while it was copied or downloaded: fetch it again");
    }
    back_to_back &= info.offset == expected;
    end = info.offset + bytes;
    expected = padded(end, alignment);
  }
  if (!back_to_back) refuse_layout(infos, in, alignment);
  for (TensorInfo& info : infos) info.tensor.data = in.at(start + info.offset);
  return start + end;
}

}  // namespace

GgufContents read_gguf(std::span<const std::byte> bytes, const std::string& name) {
  GgufCursor in(bytes, name);
  GgufContents contents;
  contents.version = read_magic_and_version(in);
  const std::uint64_t tensor_count = read_count(in, "tensor", kSmallestInfo);
  const std::uint64_t pair_count = read_count(in, "kv", kSmallestPair);
  contents.metadata = read_metadata(in, pair_count);
  const std::uint64_t alignment = alignment_of(contents.metadata, in);

  std::vector<TensorInfo> infos;
  std::unordered_set<std::string_view> names;
  for (std::uint64_t i = 0; i < tensor_count; ++i) {
    in.enter(fmt::format("tensor info {}", i));
    infos.push_back(read_tensor_info(in));
    if (!names.insert(infos.back().tensor.name).second) in.fail(infos.back().at, "duplicate tensor name");
  }
  contents.data_end = static_cast<std::int64_t>(place(infos, in, alignment));
  for (TensorInfo& info : infos) contents.tensors.push_back(std::move(info.tensor));
  return contents;
}

}  // namespace patchbay
