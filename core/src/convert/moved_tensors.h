/// @file moved_tensors.h
/// The tensors of one file form as the other has them: other names, rows in another order, matrices transposed, experts stacked, norms of 1 + w.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "engine/model_spec.h"
#include "model_file.h"
#include "writers/tensor_output.h"

namespace patchbay {

/// How one tensor of a folder stands in GGUF.
struct TensorPair {
  std::string folder, gguf;   ///< its names
  Role role = Role::embedding;
  int expert = 0;             ///< which of those that GGUF stacks in one tensor
  bool stacked = false;
  bool vector = false;        ///< a norm or a bias: stays fp32 in GGUF
  bool transposed = false;    ///< the folder holds in x out
  float offset = 0;           ///< of norms: GGUF stores the sum
  std::int64_t head_size = 0; ///< of q and k that turn by neighbouring pairs in GGUF, by halves in the folder; else 0
};
/// @param spec         of the folder: read_hf_model_spec
/// @param interleaved  whether GGUF's architecture reorders q and k
std::vector<TensorPair> tensor_pairs(const ModelSpec& spec, bool interleaved);

/// All tensors for the other form. Values are read as they are written. `type` null: as stored where that is F32, F16 or BF16, else F16 (of plain numbers F32).
/// @throws Error for a tensor that is missing, or whose type is not computed.
std::vector<TensorOutput> tensors_for_gguf(const std::shared_ptr<const ModelFile>& folder, const std::vector<TensorPair>& pairs, const TensorType* type);
/// With `type` null, what GGUF keeps in F32 whatever the matrices are (vectors, routers) is written in the usual type where that loses nothing.
PATCHBAY_API std::vector<TensorOutput> tensors_for_folder(const std::shared_ptr<const ModelFile>& gguf, const std::vector<TensorPair>& pairs,
                                                          const TensorType* type);
/// Which row of GGUF's matrix of heads of `size` is row `row` of the folder's: neighbours (2i, 2i + 1) against halves (i, i + size/2).
std::int64_t row_in_gguf(std::int64_t row, std::int64_t size);
/// Whether a float type only comes near its values.
bool is_quantised(const FileTensor& tensor);
int count_quantised(const ModelFile& file);
/// The float type in which most of the weights' bytes are stored, or F16.
const TensorType& usual_type(const ModelFile& file);

}  // namespace patchbay
