/// @file same_model.h
/// Whether two descriptions, of two file forms, are of one model.
#pragma once
#include <string>

#include "engine/model_spec.h"

namespace patchbay {

/// The first property in which the computations differ ("windows"), or "". Where the tensors lie is no part of it.
std::string model_difference(const ModelSpec& a, const ModelSpec& b);

}  // namespace patchbay
