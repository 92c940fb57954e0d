/// @file weight_format.h
/// Interface of a weight format: what codes mean, how they are packed, and how a packed weight is multiplied.
/// A weight is R x C (out x in). Formats say what they cannot hold; they never switch to another.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "patchbay/activation.h"
#include "patchbay/backend.h"
#include "patchbay/statistics.h"
#include "patchbay/tensor.h"

namespace patchbay {

/// One array of a packed weight ("codes", "scales", "blocks").
struct PATCHBAY_API PartSpec {
  std::string name;
  DType dtype = DType::u8;
  std::vector<std::int64_t> shape;
  std::int64_t bytes() const;
  /// The part as it lies at `data`: dense, the last extent's elements side by side.
  TensorRef at(std::byte* data) const;
};

/// A packed weight: the format's parts, in the order of layout(). Points into a model file or into `storage`.
struct PackedWeight {
  std::string name;  ///< tensor name, for messages
  std::int64_t rows = 0, cols = 0;
  std::vector<TensorRef> parts;
  std::shared_ptr<const void> storage;  ///< keeps the bytes alive
  std::string note;  ///< what there is to say of it, one line for the record: "damped by 0.04"; see say()

  void say(std::string_view line) { note.append(note.empty() ? "" : ", ").append(line); }
};

/// The numbers that one tile of a weight can be rounded to. A tile is all R rows by tile_columns() columns; its scales are
/// already as precise as they will be stored.
class PATCHBAY_API Grid {
 public:
  virtual ~Grid();
  /// Rounds column `column` of the tile (R values) to codes; decoded[r] equals what decode() will give, exactly.
  virtual void round(std::int64_t column, View<const float, 1> values, View<std::int32_t, 1> codes,
                     View<float, 1> decoded) const = 0;
};

/// How a grid is fitted.
struct FitOptions {
  View<const float, 1> importance;  ///< one weight per column for the squared error; empty: all equal
  bool search = false;              ///< look for the scales of least squared error, not just those that cover the tile's range
};

/// What is known of a tensor before it is read: where it stands in the model.
struct TensorFacts {
  std::string_view name;        ///< "blk.3.ffn_down", "token_embd", "output": whatever the file form
  int layer = -1, layers = 0;   ///< layer -1: outside the blocks
  std::int64_t rows = 0, cols = 0;
  int heads = 0, kv_heads = 0, experts = 0;  ///< of the model; experts 0: dense
  bool is_head = false;         ///< the output head, or an embedding that serves as one
};

/// A weight made ready to multiply.
class PATCHBAY_API LinearKernel {
 public:
  virtual ~LinearKernel();
  /// y(T,R) = x(T,C) w^T. y has the device's activation type; on a GPU it may be f32 instead (logits).
  virtual void run(Activation& x, TensorRef y) = 0;
  /// What runs, for the record: "q4_1:integer/avx2", "fp16:direct/avx2".
  virtual std::string path() const = 0;
  /// Whether take_rows() may be called, of a GPU's kernels alone; else rows of an embedding are decoded on the host.
  virtual bool takes_rows() const { return false; }
  /// out(T,C) = w[ids(T)], ids i32, both on the device: decoded where the weight lies. A number that no row has gives NaN.
  virtual void take_rows(TensorRef ids, TensorRef out);
};

/// Thread rule: all methods are const and may be called from several threads.
class PATCHBAY_API WeightFormat {
 public:
  virtual ~WeightFormat();
  /// The parts of an R x C weight. @throws Error naming the rule when the format cannot hold this shape.
  virtual std::vector<PartSpec> layout(std::int64_t rows, std::int64_t cols) const = 0;
  /// How many columns share a tile's parameters; divides cols.
  virtual std::int64_t tile_columns(std::int64_t cols) const = 0;
  /// The grid for one tile (R, tile_columns). A format without a better way to search takes the covering scales all the same.
  virtual std::unique_ptr<Grid> fit(View<const float, 2> tile, const FitOptions& options) const = 0;
  /// Stores the codes (R, tile_columns) of the tile that begins at first_column, and its grid's parameters. Several threads may pack the tiles
  /// of one weight: no byte belongs to two of them, and what there is one of for the whole weight (a note, too) comes with the first.
  virtual void pack(const Grid& grid, std::int64_t first_column, View<const std::int32_t, 2> codes, PackedWeight& out) const = 0;
  /// Rows first_row .. first_row + out.shape[0] as floats: the definition of what the codes mean.
  virtual void decode(const PackedWeight& w, std::int64_t first_row, View<float, 2> out) const = 0;
  /// Makes w, which lies in host memory, ready to multiply on the device of `ops`. w and ops must outlive the result.
  /// The default decodes blocks of rows and multiplies them in fp32; on a GPU it decodes once, to the device's activation type, and
  /// the path says so. A format with an integer kernel returns it in mode q8; one with kernels for GPUs uploads its parts
  /// (`upload`) and returns the kernel on them.
  virtual std::unique_ptr<LinearKernel> prepare(const PackedWeight& w, Ops& ops, ActivationMode mode) const;
  /// The format's name as in YAML, with what tells its variants apart ("int_grouped/b4/g64").
  virtual std::string label() const = 0;

  // What only some formats have.

  /// The format in which this tensor is stored, for one that is several by a rule (the mixes of GGUF): asked for every matrix, embedding
  /// and head too. Null: this one, and embedding and head stay as stored.
  virtual std::shared_ptr<WeightFormat> for_tensor(const TensorFacts& tensor) const;
  /// What it wants to know of the layer's inputs (for scales of inputs; for the columns that meet the largest ones).
  virtual Needs needs() const { return {}; }
  /// The format for this one weight w(R,C), where some of its parts or choices depend on weight and inputs. Null: this one. What decode()
  /// and prepare() need of that must lie in the parts, laid out alike: a packed weight that was kept in a file is read with this format.
  virtual std::shared_ptr<WeightFormat> fitted_to(View<const float, 2> w, const Statistics& statistics) const;
  /// Stores that column j of the codes is column order[j] of the weight, as decode() and products then undo. Called before any pack().
  /// False: this format keeps no order (and nothing was stored).
  virtual bool store_column_order(View<const std::int32_t, 1> order, PackedWeight& out) const;

  /// True size of an R x C weight: the bytes of its parts, and those * 8 / (R * C).
  std::int64_t packed_bytes(std::int64_t rows, std::int64_t cols) const;
  double bits_per_weight(std::int64_t rows, std::int64_t cols) const;
  /// Owned, zeroed parts for an R x C weight.
  PackedWeight allocate(std::string name, std::int64_t rows, std::int64_t cols, Device& device) const;
};

/// A copy of w whose parts lie on the device, byte for byte.
PATCHBAY_API PackedWeight upload(const PackedWeight& w, Device& device);

/// The default of prepare(): decode a block of rows, multiply in fp32; on a GPU, decode all, upload, multiply by matmul_stored.
PATCHBAY_API std::unique_ptr<LinearKernel> decode_then_multiply(const WeightFormat& format, const PackedWeight& w, Ops& ops);
/// A kernel on rows of f32, f16 or bf16 as they are stored: `part` is (R, C), `w` keeps its bytes; both on the device of ops.
PATCHBAY_API std::unique_ptr<LinearKernel> multiply_as_stored(std::string label, const PackedWeight& w, TensorRef part, Ops& ops);
/// A kernel of integer products (mode q8) from a format's affine codes.
PATCHBAY_API std::unique_ptr<LinearKernel> integer_kernel(std::string label, const AffineSource& source, Ops& ops);

}  // namespace patchbay
