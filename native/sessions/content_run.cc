#include "sessions/content_run.h"

#include <string_view>
#include <vector>

#include "base/generated/constants.h"
#include "base/sha256.h"

namespace hearth {
namespace {

constexpr std::string_view kPurpose{"hearth-volume-run\0", 18};

void append(std::vector<std::byte>& to, std::uint64_t value) {
  for (int i = 0; i < 8; ++i) to.push_back(static_cast<std::byte>(value >> (8 * i)));
}

}  // namespace

ContentKey keyOf(const ContentRun& run) {
  std::vector<std::byte> text;
  for (const char c : kPurpose) text.push_back(static_cast<std::byte>(c));
  for (const tree::WideId* const id : {&run.store, &run.volume}) {
    for (const std::uint8_t byte : *id) text.push_back(static_cast<std::byte>(byte));
  }
  append(text, static_cast<std::uint64_t>(run.session));
  append(text, run.first);
  append(text, run.length);
  return {Sha256::of(text)};
}

std::optional<tree::ChunkRun> soleRun(const tree::Content& content) {
  if (content.listed || content.runs.size() != 1) return std::nullopt;
  const tree::ChunkRun& run = content.runs.front();
  return run.session == tree::kNoSession ? std::nullopt : std::optional(run);
}

std::uint32_t chunksIn(std::uint64_t length) {
  return static_cast<std::uint32_t>((length + kChunkBytes - 1) / kChunkBytes);
}

}  // namespace hearth
