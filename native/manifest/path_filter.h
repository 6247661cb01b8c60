// Chooses paths of a dataset by patterns (glob.h), as .gitignore does: a pattern without '/' is
// matched against the name at any depth, one with a '/' (not only at its end) against the path from
// the root; what names a folder means everything below it. No patterns choose everything; exclusion
// wins. Immutable: any thread.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "manifest/glob.h"

namespace hearth {

class PathFilter {
 public:
  // kInvalidArgument names the pattern that cannot be read, or says that there are more than
  // kMaxPatterns.
  [[nodiscard]] static Result<PathFilter> compile(std::span<const std::string> include,
                                                  std::span<const std::string> exclude);
  static constexpr std::size_t kMaxPatterns = 1024;

  // Time is at most (bytes of path) x (bytes of all patterns).
  [[nodiscard]] bool matches(std::string_view path) const;

 private:
  std::vector<Glob> include_;
  std::vector<Glob> exclude_;
};

}  // namespace hearth
