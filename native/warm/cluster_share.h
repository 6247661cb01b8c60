// How agents divide what each brings into the cluster. Pure: any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "manifest/manifest.h"

namespace hearth {

// Of these files those that `self` is to bring, when all of `agents` bring their part: each file is
// the part of exactly one. All of them when `self` is not among the agents.
[[nodiscard]] std::vector<std::uint32_t> shareOf(const std::string& self,
                                                 const std::vector<std::string>& agents,
                                                 const Manifest& manifest,
                                                 std::vector<std::uint32_t> entries);

}  // namespace hearth
