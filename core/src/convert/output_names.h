/// @file output_names.h
/// Where `convert` and `quantize` write: which names it takes, and how what it makes gets its name only when it is whole.
#pragma once
#include <string>

#include "model_file.h"
#include "patchbay/error.h"

namespace patchbay {

/// Whether a path ends in .gguf, in whatever case: what is written there is a GGUF file, else a folder.
PATCHBAY_API bool names_gguf(const std::string& path);

/// The GGUF file that `out` names, or leads to: one that may be written. @throws Error for another name than NAME.gguf, for what is there without
/// `force`, and, whatever that says, for a file of the model that is read.
std::string gguf_target(const ModelFile& file, const std::string& out, bool force);
/// The folder that `out` names, or a link there leads to. `force` replaces a model's folder, and no other; never one that holds the model that is read.
/// @throws Error.
std::string folder_target(const ModelFile& file, const std::string& out, bool force);

/// A path that is removed unless it has been renamed to what it was made for.
struct Beside {
  explicit Beside(const std::string& out);
  ~Beside();
  Beside(const Beside&) = delete;
  Beside& operator=(const Beside&) = delete;
  /// The same error; where it says `path`, it says `out`.
  Error as_of(const std::string& out, const Error& error) const;
  void rename_to(const std::string& out) const;
  /// The same for a folder, which may be there already.
  void replace_folder(const std::string& out) const;
  std::string path;
};

/// Runs `write`, whose errors then speak of `out` and not of the name that it has for the time being.
template <class Write>
auto as_of(const std::string& out, const Beside& beside, Write write) {
  try {
    return write();
  } catch (const Error& error) {
    throw beside.as_of(out, error);
  }
}

}  // namespace patchbay
