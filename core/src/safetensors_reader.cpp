// The safetensors container. Format: https://github.com/huggingface/safetensors#format
//   u64 length of the header; the header, a JSON object from tensor names to {"dtype", "shape", "data_offsets": [begin, end]}, and
//   "__metadata__": {text: text}; then the tensors' bytes, without a hole. All little-endian, shapes with the last extent fastest.
#include "safetensors_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <unordered_set>
#include <utility>

#include "gguf_types.h"
#include "lookalikes.h"
#include "utf8.h"
#include "utf8_prefix.h"

namespace patchbay {
namespace {

constexpr std::size_t kLengthBytes = 8, kShownBytes = 80;

constexpr SafetensorsType kTypes[] = {
    {"F64", 64, "fp32"},  {"F32", 32, "fp32"},  {"F16", 16, "fp16"},   {"BF16", 16, "bf16"},  {"I64", 64, "fp32"}, {"I32", 32, "fp32"},
    {"I16", 16, "fp32"},  {"I8", 8, "fp32"},    {"U64", 64},           {"U32", 32},           {"U16", 16},         {"U8", 8},
    {"BOOL", 8},          {"F8_E4M3", 8},       {"F8_E5M2", 8},        {"F8_E8M0", 8},        {"F8_E4M3FNUZ", 8},  {"F8_E5M2FNUZ", 8},
    {"F6_E2M3", 6},       {"F6_E3M2", 6},       {"F4", 4},             {"C64", 64},
};

std::string type_names() {
  std::string names;
  for (const SafetensorsType& type : kTypes) names.append(names.empty() ? "" : ", ").append(type.name);
  return names;
}

/// What the header says of a tensor.
struct Entry {
  FileTensor tensor;
  std::uint64_t begin = 0, end = 0;  ///< in the data section
};

/// Takes the header's JSON event by event, so that a large one needs no tree in memory. The functions in lower case are what
/// nlohmann::json::sax_parse calls.
class HeaderReader {
 public:
  HeaderReader(std::string file, std::uint64_t data_bytes) : file_(std::move(file)), data_bytes_(data_bytes) {}

  bool null() { refuse("null"); }
  bool boolean(bool) { refuse("a boolean"); }
  bool number_integer(std::int64_t value) { refuse(std::to_string(value)); }  // only negative ones come here
  bool number_float(double, const std::string& text) { refuse(text.substr(0, kShownBytes)); }
  bool binary(nlohmann::json::binary_t&) { refuse("binary"); }
  bool number_unsigned(std::uint64_t value) {
    if (state_ != State::shape && state_ != State::offsets) refuse(std::to_string(value));
    if (state_ == State::offsets && offsets_.size() == 2) refuse("more than two");
    if (state_ == State::shape && value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) refuse(std::to_string(value));
    (state_ == State::shape ? shape_ : offsets_).push_back(value);
    return true;
  }
  bool string(std::string& text) {
    if (state_ == State::metadata) {
      add_metadata(text);
    } else if (state_ == State::tensor && field_ == Field::dtype) {
      type_ = find_safetensors_type(text);
      if (!type_) fail(Field::dtype, fmt::format("bad dtype '{}'", escaped(text, kShownBytes)), type_names());
    } else {
      refuse("a text");
    }
    return true;
  }
  bool start_object(std::size_t) {
    if (state_ == State::start) {
      state_ = State::names;
    } else if (state_ == State::names) {
      state_ = name_ == kMetadata ? State::metadata : State::tensor;
      keys_of_metadata_.clear();
      has_ = {};
      shape_.clear();
      offsets_.clear();
    } else {
      refuse("an object");
    }
    return true;
  }
  bool start_array(std::size_t) {
    if (state_ != State::tensor || (field_ != Field::shape && field_ != Field::offsets)) refuse("an array");
    state_ = field_ == Field::shape ? State::shape : State::offsets;
    return true;
  }
  bool end_array() {
    if (state_ == State::offsets && (offsets_.size() != 2 || offsets_[0] > offsets_[1])) refuse(fmt::format("[{}]", fmt::join(offsets_, ", ")));
    state_ = State::tensor;
    return true;
  }
  bool end_object() {
    if (state_ == State::tensor) finish_tensor();
    state_ = State::names;
    return true;
  }
  bool key(std::string& text) {
    if (state_ == State::names) {
      enter(text);
    } else if (state_ == State::metadata) {
      key_ = kept(text);
      if (!keys_of_metadata_.insert(key_).second) fail(std::string(kMetadata), fmt::format("duplicate key '{}'", escaped(text, kShownBytes)));
    } else {
      enter_field(text);
    }
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::json::exception& error) {
    // The parser's word for an escape that is half a character.
    const bool half = std::strstr(error.what(), "surrogate") != nullptr;
    throw Error(fmt::format("{}: header at byte {}", file_, kLengthBytes + position - std::min<std::size_t>(position, 1)),
                half ? "bad UTF-8: an escape writes half of a surrogate pair" : "header is not JSON here", "JSON (RFC 8259)");
  }

  /// The entries in the order of their bytes, which leave no hole.
  std::vector<Entry> in_order() {
    std::ranges::sort(entries_, {}, [](const Entry& entry) { return std::pair(entry.begin, entry.end); });
    std::uint64_t covered = 0;
    for (const Entry& entry : entries_) {
      const std::string where = where_of(entry.tensor.name) + ": data_offsets";
      if (entry.begin < covered) throw Error(where, fmt::format("tensors overlap: byte {} belongs to another tensor", entry.begin));
      if (entry.begin > covered) throw Error(where, fmt::format("hole in data: bytes {} to {} belong to no tensor", covered, entry.begin));
      covered = entry.end;
    }
    if (covered < data_bytes_) {
      throw Error(file_ + ": data", fmt::format("data not fully covered: {} bytes after the last tensor", data_bytes_ - covered));
    }
    return std::move(entries_);
  }
  SafetensorsContents contents;  ///< texts and metadata

 private:
  enum class State { start, names, metadata, tensor, shape, offsets };
  enum class Field { dtype, shape, offsets };
  static constexpr std::array<std::string_view, 3> kFields = {"dtype", "shape", "data_offsets"};
  static constexpr std::string_view kMetadata = "__metadata__";

  std::string where_of(std::string_view tensor) const { return fmt::format("{}: tensor '{}'", file_, escaped(tensor, kShownBytes)); }
  [[noreturn]] void fail(const std::string& where, std::string problem, std::string allowed = {}) const {
    throw Error(fmt::format("{}: {}", file_, where), std::move(problem), std::move(allowed));
  }
  [[noreturn]] void fail(Field field, std::string problem, std::string allowed = {}) const {
    throw Error(fmt::format("{}: {}", where_of(name_), kFields[static_cast<std::size_t>(field)]), std::move(problem), std::move(allowed));
  }
  /// A value that may not stand here.
  [[noreturn]] void refuse(const std::string& value) const {
    if (state_ == State::start) fail("header", "header is not an object: " + value, "an object");
    if (name_ == kMetadata) fail(std::string(kMetadata), fmt::format("bad {}: {}", kMetadata, value), "an object of texts");
    if (state_ == State::names) throw Error(where_of(name_), "is no object: " + value, "an object with dtype, shape and data_offsets");
    constexpr std::array<const char*, 3> kAllowed = {"the name of a type", "an array of whole numbers, 0 to 2^63 - 1",
                                                     "[begin, end], whole numbers"};
    fail(field_, fmt::format("bad {}: {}", kFields[static_cast<std::size_t>(field_)], value), kAllowed[static_cast<std::size_t>(field_)]);
  }

  std::string_view kept(const std::string& text) { return contents.texts.emplace_back(text); }
  void add_metadata(const std::string& text) {
    MetaEntry& entry = contents.metadata.emplace_back();
    entry.key = key_;
    entry.type = kString;
    entry.value = kept(text);
  }
  void enter(const std::string& name) {
    // The empty name is legal. A control character would be another name to code that prints it, or that ends texts at NUL.
    if (!is_plain_text(name)) throw Error(where_of(name), "bad tensor name", "UTF-8 without control characters");
    name_ = kept(name);
    if (!names_.insert(name_).second) throw Error(where_of(name), "duplicate key: the name is there twice");
  }
  void enter_field(const std::string& text) {
    const auto found = std::ranges::find(kFields, text);
    if (found == kFields.end()) throw Error(where_of(name_), fmt::format("unknown field '{}'", escaped(text, kShownBytes)), fmt::format("{}", fmt::join(kFields, ", ")));
    field_ = static_cast<Field>(found - kFields.begin());
    if (std::exchange(has_[static_cast<std::size_t>(field_)], true)) fail(field_, "duplicate key");
  }

  void finish_tensor() {
    for (std::size_t i = 0; i < kFields.size(); ++i) {
      if (!has_[i]) throw Error(where_of(name_), fmt::format("missing field '{}'", kFields[i]));
    }
    std::uint64_t count = 1, bytes = 0;
    for (const std::uint64_t extent : shape_) {
      if (__builtin_mul_overflow(count, extent, &count)) fail(Field::shape, "element count and byte size overflow: past 64 bits");
    }
    const auto bits = static_cast<std::uint64_t>(type_->bits), rest = count % 8 * bits;  // of a type below 8 bits the last bytes may not be full
    if (__builtin_mul_overflow(count / 8, bits, &bytes) || __builtin_add_overflow(bytes, rest / 8, &bytes)) fail(Field::shape, "byte size overflow: past 64 bits");
    if (rest % 8 != 0 || bytes != offsets_[1] - offsets_[0]) {
      fail(Field::offsets, fmt::format("size mismatch: {} bytes for {} elements of {} bits", offsets_[1] - offsets_[0], count, type_->bits));
    }
    if (offsets_[1] > data_bytes_) {
      throw Error(fmt::format("{}: data_offsets", where_of(name_)), fmt::format("tensor data past end: up to byte {} of a data section of {}", offsets_[1], data_bytes_),
                  "", "the file was probably cut while it was copied or downloaded: fetch it again");
    }
    Entry entry{{}, offsets_[0], offsets_[1]};
    const TensorType* same = find_tensor_type(type_->name);
    entry.tensor.name = name_;
    entry.tensor.type = same ? same->code : kNoTensorType;
    entry.tensor.type_name = type_->name;
    entry.tensor.format = type_->format;
    entry.tensor.shape.assign(shape_.rbegin(), shape_.rend());
    entry.tensor.bytes = static_cast<std::int64_t>(bytes);
    entries_.push_back(std::move(entry));
  }

  std::string file_;
  std::uint64_t data_bytes_;
  State state_ = State::start;
  std::string_view name_, key_;
  Field field_ = Field::dtype;
  std::array<bool, 3> has_{};
  const SafetensorsType* type_ = nullptr;
  std::vector<std::uint64_t> shape_, offsets_;
  std::unordered_set<std::string_view> names_, keys_of_metadata_;
  std::vector<Entry> entries_;
};

/// The header's text, once its length is known to be that of one.
std::string_view header_of(std::span<const std::byte> bytes, const std::string& file) {
  const std::string_view all(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const std::string where = file + ": header";
  if (all.size() < kLengthBytes) throw Error(where, fmt::format("truncated header length: the file has {} bytes", all.size()), "8 bytes or more",
                                             "the file was probably cut while it was copied or downloaded: fetch it again");
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), kLengthBytes);
  if (length == 0) throw Error(where, "empty header", "at least {}", "fetch the file again");
  if (length > kMaxSafetensorsHeader) {
    const Lookalike* known = find_lookalike(all);
    if (known) throw Error(where, fmt::format("not safetensors: looks like {}", known->what), "", std::string(known->remedy));
    throw Error(where, fmt::format("header too large: {} bytes", length), fmt::format("up to {}", kMaxSafetensorsHeader));
  }
  if (length > all.size() - kLengthBytes) {
    throw Error(where, fmt::format("header length exceeds file: {} bytes, {} are left", length, all.size() - kLengthBytes), "",
                "the file was probably cut while it was copied or downloaded: fetch it again");
  }
  const std::string_view header = all.substr(kLengthBytes, length);
  if (const std::size_t good = utf8_prefix(header); good < header.size())
    throw Error(where + fmt::format(" at byte {}", kLengthBytes + good), "bad UTF-8", "JSON in UTF-8");
  // What the JSON parser would take: it skips a byte order mark, and NUL ends the text for it.
  if (header.find('\0') != header.npos) throw Error(where, fmt::format("header is not JSON: NUL at byte {}", kLengthBytes + header.find('\0')));
  if (header.starts_with("\xEF\xBB\xBF")) throw Error(where, "header is not JSON: it begins with a byte order mark");
  return header;
}

}  // namespace

const SafetensorsType* find_safetensors_type(std::string_view name) {
  for (const SafetensorsType& type : kTypes) if (type.name == name) return &type;
  return nullptr;
}

SafetensorsContents read_safetensors(std::span<const std::byte> bytes, const std::string& name) {
  const std::string_view header = header_of(bytes, name);
  const auto data = bytes.subspan(kLengthBytes + header.size());
  HeaderReader reader(name, data.size());
  nlohmann::json::sax_parse(header.begin(), header.end(), &reader);
  SafetensorsContents contents = std::move(reader.contents);
  for (Entry& entry : reader.in_order()) {
    entry.tensor.data = data.data() + entry.begin;
    contents.tensors.push_back(std::move(entry.tensor));
  }
  return contents;
}

}  // namespace patchbay
