#include "origin/tag_of_bytes.h"

#include <cstddef>

namespace hearth {

bool isTagOfBytes(std::string_view validator) {
  constexpr std::string_view kBegin = "etag:\"", kCompared = "compared-";
  constexpr std::string_view kHex = "0123456789abcdef", kDecimal = "0123456789";
  constexpr std::size_t kDigits = 32;
  if (validator.starts_with(kCompared)) validator.remove_prefix(kCompared.size());
  if (!validator.starts_with(kBegin) || !validator.ends_with('"')) return false;
  validator.remove_prefix(kBegin.size());
  if (validator.empty()) return false;
  validator.remove_suffix(1);
  const std::string_view digest = validator.substr(0, kDigits);
  if (digest.size() != kDigits || digest.find_first_not_of(kHex) != digest.npos) return false;
  if (digest.find_first_not_of('0') == digest.npos) return false;
  const std::string_view parts = validator.substr(kDigits);
  if (parts.empty()) return true;
  return parts.size() > 1 && parts.front() == '-' &&
         parts.find_first_not_of(kDecimal, 1) == parts.npos;
}

bool isGitBlobId(std::string_view validator) { return validator.starts_with("git:"); }

}  // namespace hearth
