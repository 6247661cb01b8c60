// Opens cuFile in a process of its own first: its driver hangs on some machines and crashes on
// others, and nothing stops that from outside but the end of the process.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/result.h"

namespace hearth {

// Runs the program with its standard output captured and kills its process group at the deadline.
// OK when the program exits with 0. Otherwise the message is the last line that it wrote, or how it
// ended; kDeadlineExceeded, kUnavailable for a crash, kUnsupported for another exit status,
// kNotFound when the program cannot be run. Any thread.
[[nodiscard]] Status runTrial(const std::vector<std::string>& command,
                              std::chrono::milliseconds deadline);

// The program that makes the trial: $HEARTH_LOAD, else `hearth-load` in the folder of the program
// or library that this code is in. kNotFound.
[[nodiscard]] Result<std::string> findTrialProgram();

}  // namespace hearth
