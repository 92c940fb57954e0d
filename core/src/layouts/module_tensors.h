/// @file module_tensors.h
/// The tensors X.qweight, X.scales ... of one module X of a quantised checkpoint.
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "gguf_types.h"
#include "model_file.h"
#include "patchbay/tensor.h"

namespace patchbay {

class ModuleTensors {
 public:
  /// file: for messages.
  ModuleTensors(std::string file, std::string name) : file_(std::move(file)), name_(std::move(name)) {}
  const std::string& name() const { return name_; }  ///< X
  void add(std::string_view part, const FileTensor& tensor) { parts_.emplace(part, tensor); }
  /// Null where there is none.
  const FileTensor* find(std::string_view part) const;
  /// @throws Error unless it is there, of one of these types and with so many extents.
  const FileTensor& at(std::string_view part, std::initializer_list<std::string_view> types, std::size_t extents) const;
  /// @throws Error unless the part, with its last extent first, has this shape. `why` tells where the numbers come from.
  void require_shape(std::string_view part, std::initializer_list<std::int64_t> shape, std::string_view why) const;
  [[noreturn]] void fail(std::string_view part, std::string problem, std::string allowed = {}, std::string remedy = {}) const;
  std::int64_t bytes() const;
  /// How many numbers a part has, whatever its extents. @throws Error unless it is there and of one of these types.
  std::int64_t count(std::string_view part, std::initializer_list<std::string_view> types) const;
  /// One of them, of a part in F16, BF16 or F32. @throws Error for NaN and infinity.
  float number(std::string_view part, std::int64_t index) const;
  /// The same, as fp16 holds it. @throws Error for one that is too large.
  Half scale(std::string_view part, std::int64_t index) const;

 private:
  std::string file_, name_;
  std::map<std::string, FileTensor, std::less<>> parts_;
};

/// A module's weight among the tensors of its file.
class FoldedModule : public PackedModule {
 public:
  /// As a tensor; `self` is this module.
  virtual FileTensor tensor(std::shared_ptr<const PackedModule> self) const = 0;
};

/// A tensor on its way into a module: "qweight".
struct ModuleOutput {
  std::string part;
  const TensorType* type = nullptr;
  std::vector<std::int64_t> shape;  ///< the first varies fastest
  std::string bytes;                ///< empty where only the shape was asked for
};

}  // namespace patchbay
