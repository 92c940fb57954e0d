// A file: eight bytes of magic, the length of a JSON text and its SHA-256, that text, then the bytes it lists with their own sums, each array at a
// multiple of 64.
#include "quantize/finished_blocks.h"

#include <fmt/format.h>

#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "config.h"
#include "experiment/environment.h"
#include "experiment/records.h"
#include "experiment/sha256.h"
#include "files.h"
#include "mapping.h"
#include "patchbay/plugin.h"
#include "quantize/calibration_tokens.h"

namespace patchbay {
namespace {

constexpr std::string_view kMagic = "PBQUANT2";
constexpr std::size_t kAlignment = 64, kSum = 64, kHeader = kMagic.size() + sizeof(std::uint64_t) + kSum;

std::size_t aligned(std::size_t at) { return (at + kAlignment - 1) / kAlignment * kAlignment; }

std::string_view bytes_of_part(const TensorRef& part) {
  return {static_cast<const char*>(part.data), static_cast<std::size_t>(part.size() * bytes_of(part.dtype))};
}

std::string_view bytes_of_vector(const std::vector<float>& values) { return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)}; }

Json listed(std::string_view array) { return {{"bytes", array.size()}, {"sha256", sha256(array)}}; }

Json listed(const QuantizedModel& block) {
  Json matrices = Json::array(), vectors = Json::array();
  for (const auto& [name, matrix] : block.matrices) {
    Json parts = Json::array();
    for (const TensorRef& part : matrix.packed.parts) parts.push_back(listed(bytes_of_part(part)));
    matrices.push_back({{"name", name}, {"rows", matrix.packed.rows}, {"cols", matrix.packed.cols}, {"format", matrix.format->label()},
                        {"quantized", matrix.quantized}, {"note", matrix.note}, {"parts", parts}});
  }
  for (const auto& [label, values] : block.vectors) vectors.push_back({{"label", label}, {"array", listed(bytes_of_vector(values))}});
  return {{"matrices", matrices}, {"vectors", vectors}, {"warnings", block.warnings}, {"untied_head", block.untied_head}};
}

/// Reads one mapped file. @throws anything where it is not what save() wrote.
class Reader {
 public:
  explicit Reader(const std::string& path) : mapping_(std::make_shared<Mapping>(path)), bytes_(mapping_->bytes()) {
    std::uint64_t length = 0;
    require(bytes_.size() >= kHeader && std::memcmp(bytes_.data(), kMagic.data(), kMagic.size()) == 0);
    std::memcpy(&length, bytes_.data() + kMagic.size(), sizeof length);
    require(length <= bytes_.size() - kHeader);
    const std::string_view text(reinterpret_cast<const char*>(bytes_.data()) + kHeader, length);
    require(sha256(text) == std::string_view(text.data() - kSum, kSum));
    list_ = Json::parse(text);
    at_ = kHeader + length;
  }

  QuantizedModel read(const WeightPlan& plan) {
    QuantizedModel block;
    for (const Json& entry : list_.at("matrices")) {
      QuantizedMatrix matrix = read_matrix(entry, plan);
      block.matrices[matrix.packed.name] = std::move(matrix);
    }
    for (const Json& entry : list_.at("vectors")) {
      std::vector<float>& values = block.vectors[entry.at("label")];
      const std::span<const std::byte> array = next(entry.at("array"));
      values.resize(array.size() / sizeof(float));
      std::memcpy(values.data(), array.data(), values.size() * sizeof(float));
    }
    block.warnings = list_.at("warnings").get<std::vector<std::string>>();
    block.untied_head = list_.at("untied_head");
    require(at_ == bytes_.size());
    return block;
  }

 private:
  static void require(bool whole) {
    if (!whole) throw Error("finished block", "is damaged");
  }

  std::span<const std::byte> next(const Json& entry) {
    const auto size = entry.at("bytes").get<std::size_t>();
    at_ = aligned(at_);
    require(at_ <= bytes_.size() && size <= bytes_.size() - at_);
    const auto array = bytes_.subspan(at_, size);
    require(sha256({reinterpret_cast<const char*>(array.data()), size}) == entry.at("sha256"));
    at_ += size;
    return array;
  }

  QuantizedMatrix read_matrix(const Json& entry, const WeightPlan& plan) {
    QuantizedMatrix matrix;
    PackedWeight& packed = matrix.packed;
    packed.name = entry.at("name");
    packed.rows = entry.at("rows");
    packed.cols = entry.at("cols");
    packed.storage = mapping_;
    matrix.quantized = entry.at("quantized");
    matrix.note = entry.at("note");
    const std::string label = entry.at("format");
    matrix.format = matrix.quantized ? plan.choice(label_of(packed.name)).format : make<WeightFormat>({label, nullptr});
    require(matrix.format && matrix.format->label() == label);
    const auto layout = matrix.format->layout(packed.rows, packed.cols);
    require(layout.size() == entry.at("parts").size());
    for (std::size_t i = 0; i < layout.size(); ++i) {
      const std::span<const std::byte> array = next(entry.at("parts")[i]);
      require(layout[i].bytes() == std::ssize(array));
      packed.parts.push_back(layout[i].at(const_cast<std::byte*>(array.data())));
    }
    return matrix;
  }

  std::shared_ptr<Mapping> mapping_;
  std::span<const std::byte> bytes_;
  Json list_;
  std::size_t at_ = 0;
};

}  // namespace

std::string walk_identity(const ModelFile& file, const RunConfig& config) {
  const Environment here = environment();
  const auto weights = nlohmann::json::parse(to_json(effective_settings(config))).at("weights");
  return identity_hash({{"weights", weights}, {"model", sha256_of_files(file.paths())}, {"build_id", here.build_id}, {"sources", here.sources},
                        {"calibration", needs_calibration(config) ? calibration_hash(config.calibration) : ""}});
}

FinishedBlocks::FinishedBlocks(const std::string& folder, const std::string& identity) {
  if (folder.empty()) return;
  folder_ = folder + "/" + identity;
  std::error_code code;
  std::filesystem::create_directories(folder_, code);
  if (code) throw Error(folder_, "making the folder failed: " + code.message());
}

std::string FinishedBlocks::path(int layer) const { return fmt::format("{}/{}.bin", folder_, layer < 0 ? "outside" : "blk." + std::to_string(layer)); }

std::optional<QuantizedModel> FinishedBlocks::load(int layer, const WeightPlan& plan) const {
  if (folder_.empty() || !std::filesystem::exists(path(layer))) return std::nullopt;
  try {
    return Reader(path(layer)).read(plan);
  } catch (const Error&) {
  } catch (const Json::exception&) {
  }
  return std::nullopt;  // it is made again
}

void FinishedBlocks::save(int layer, const WeightPlan& plan, QuantizedModel& block) const {
  if (folder_.empty()) return;
  AtomicFile file(path(layer), "make room, or give another folder");
  const std::string list = listed(block).dump(-1, ' ', false, Json::error_handler_t::replace);
  const std::uint64_t length = list.size();
  file.write(kMagic);
  file.write({reinterpret_cast<const char*>(&length), sizeof length});
  file.write(sha256(list));
  file.write(list);
  const auto write = [&](std::string_view bytes) {
    file.write(std::string(aligned(file.bytes_written()) - file.bytes_written(), '\0'));
    file.write(bytes);
  };
  for (const auto& [name, matrix] : block.matrices)
    for (const TensorRef& part : matrix.packed.parts) write(bytes_of_part(part));
  for (const auto& [label, values] : block.vectors) write(bytes_of_vector(values));
  file.commit();
  const auto kept = load(layer, plan);
  if (!kept) return;
  for (auto& [name, matrix] : block.matrices) {
    const PackedWeight& mapped = kept->matrices.at(name).packed;
    matrix.packed.parts = mapped.parts;
    matrix.packed.storage = mapped.storage;
  }
}

}  // namespace patchbay
