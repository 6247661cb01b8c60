// Answers to peers that never read them. For tests.
#pragma once

#include <memory>
#include <utility>

#include "fetch/loaded_chunk.h"

namespace hearth::testing_support {

class StuckAnswer final : public LentPayload {
 public:
  explicit StuckAnswer(std::shared_ptr<LoadedChunk> loaded) : loaded_(std::move(loaded)) {}
  Piece now() override { return {loaded_->bytes, loaded_}; }
  Task<Status> load() override { co_return Status(); }
  void release() override { loaded_.reset(); }
  [[nodiscard]] bool released() const { return loaded_ == nullptr; }

 private:
  std::shared_ptr<LoadedChunk> loaded_;
};

inline std::shared_ptr<StuckAnswer> lendToStuckPeer(const std::shared_ptr<LoadedChunk>& loaded,
                                                    Clock::time_point since = Clock::now()) {
  auto answer = std::make_shared<StuckAnswer>(loaded);
  loaded->lend(answer, since);
  return answer;
}

}  // namespace hearth::testing_support
