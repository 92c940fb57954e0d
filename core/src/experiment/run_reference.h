/// @file run_reference.h
/// How a run is named wherever one is asked for (diff, tokens, bisect): the same words, whether it is planned or finished.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "patchbay/error.h"

namespace patchbay {

/// What a run can be named by.
struct NamedRun {
  std::int64_t number = 0;    ///< as `plan` counts, from 1
  std::string name;           ///< "weights=none, decoder=greedy"
  std::string hash;           ///< of a finished run
  std::vector<std::pair<std::string, std::string>> labels;  ///< column and value, as tables show them
  bool noise = false;         ///< the baseline again: it has the baseline's labels, and is not meant by them
};

/// What messages and --help say of RUN.
inline constexpr const char* kRunForms = "a run's number in `plan`, a label that only it has (or several: \"int8, greedy\"; one that is a number: bits=4), its name, or the first "
                                         "digits of its hash";

/// The index of the run that `wanted` names: its whole name or hash; else its number, where it is one; else labels; else the beginning of
/// its hash.
/// @throws Error at `where` that lists the runs there are, or those that `wanted` fits.
PATCHBAY_API std::size_t find_run(const std::string& wanted, std::span<const NamedRun> runs, const std::string& where);

/// For each run the index of the one that it stands against. Where `wanted` names one run, that one for all. Where it is labels that several
/// runs have, a setting: of these the run that has its labels in all other columns; nothing where there is none.
/// @throws Error as find_run does; also where several runs fit in different columns, or with the same labels.
PATCHBAY_API std::vector<std::optional<std::size_t>> find_partners(const std::string& wanted, std::span<const NamedRun> runs, const std::string& where);

}  // namespace patchbay
