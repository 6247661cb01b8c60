// libibverbs, loaded when the first caller wants RDMA: agents without it run as well.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "verbs/verbs.h"

namespace hearth {

// Loads the library and takes the functions of version IBVERBS_1.1 (rdma-core 1.1.7 and later), the
// newer ones where it has them. The library stays loaded while the result lives. Any thread; reads
// files. kNotFound: there is no such library; kUnsupported: it cannot be loaded, or lacks a
// function of that version. Both messages say what to install.
[[nodiscard]] Result<std::shared_ptr<Verbs>> loadVerbs(
    const std::string& library = "libibverbs.so.1");

}  // namespace hearth
