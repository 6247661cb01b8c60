#include "manifest/path_filter.h"

#include <algorithm>

namespace hearth {
namespace {

Error unusablePattern(const std::string& pattern, const std::string& why) {
  return {ErrorCode::kInvalidArgument, "the path pattern \"" + pattern + "\" " + why};
}

// A glob for the whole path: at any depth where the pattern is a name, and with all that is below.
Result<Glob> compilePattern(const std::string& pattern) {
  std::string_view core = pattern;
  if (core.starts_with("./")) core.remove_prefix(1);
  const bool rooted = core.starts_with('/');
  if (rooted) core.remove_prefix(1);
  if (core.ends_with('/')) core.remove_suffix(1);
  if (core.empty()) {
    return unusablePattern(pattern, "is empty; leave it out to choose everything");
  }
  // First by itself: its mistakes are not to be reported as those of what is put around it.
  const Result<Glob> alone = Glob::compile(core);
  if (!alone.ok()) return unusablePattern(pattern, "is malformed: " + alone.error().message);
  const bool anchored = rooted || core.find('/') != std::string_view::npos;
  std::string whole = anchored ? "" : "**/";
  whole.append(core).append("{,/**}");
  Result<Glob> glob = Glob::compile(whole);
  if (!glob.ok()) return unusablePattern(pattern, "is too long; write at most 4000 bytes");
  return glob;
}

Status compileAll(std::span<const std::string> patterns, std::vector<Glob>& globs) {
  if (patterns.size() > PathFilter::kMaxPatterns) {
    return Error{ErrorCode::kInvalidArgument,
                 std::to_string(patterns.size()) + " path patterns are too many; write at most " +
                     std::to_string(PathFilter::kMaxPatterns) + ", or choose by folders"};
  }
  for (const std::string& pattern : patterns) {
    Result<Glob> glob = compilePattern(pattern);
    if (!glob.ok()) return glob.error();
    globs.push_back(std::move(*glob));
  }
  return {};
}

bool anyMatches(const std::vector<Glob>& globs, std::string_view path) {
  return std::any_of(globs.begin(), globs.end(),
                     [path](const Glob& glob) { return glob.matches(path); });
}

}  // namespace

Result<PathFilter> PathFilter::compile(std::span<const std::string> include,
                                       std::span<const std::string> exclude) {
  PathFilter filter;
  Status compiled = compileAll(include, filter.include_);
  if (compiled.ok()) compiled = compileAll(exclude, filter.exclude_);
  if (!compiled.ok()) return compiled.error();
  return filter;
}

bool PathFilter::matches(std::string_view path) const {
  return (include_.empty() || anyMatches(include_, path)) && !anyMatches(exclude_, path);
}

}  // namespace hearth
