/// @file plan_check.h
/// A plan that was read, checked against the model it names, before a weight is read.
#pragma once
#include <memory>

#include "experiment/plan.h"

namespace patchbay {

/// Finds the model and checks every run against it, the text and the prompts included; fills in what the plan leaves to the model.
/// @throws Error naming run and tensor, or the key of `evaluation`.
std::shared_ptr<const ModelFile> check_against_model(Plan& plan);

}  // namespace patchbay
