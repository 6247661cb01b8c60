// Batches of a program's items (xfer/hearth_kv.h), from their submission to their completion; and
// the queue of completions of a key space. Any thread.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/owned_fd.h"
#include "client/include/xfer/hearth_kv.h"
#include "client/request.h"

namespace hearth::gd2fs {

class KvBatch;

class KvQueue {
 public:
  // Batches, and items of those, that may be in flight or wait to be taken.
  static constexpr std::size_t kMaxBatches = 65'536;
  static constexpr std::size_t kMaxItems = 262'144;

  // 0 or a negative errno of the descriptors.
  [[nodiscard]] int open();
  // Readable while there is something to take, or a batch is late.
  [[nodiscard]] int descriptor() const { return all_.get(); }

  // 0, and push() and atRest() follow; -EAGAIN when there are too many.
  [[nodiscard]] int admit(const std::shared_ptr<KvBatch>& batch);
  // Takes the only element, and needs no memory.
  void push(std::list<hearth_kv_completion> completion, std::size_t items) noexcept;
  // Nothing touches the memory of the batch any more, but for `restless`: uses by calls of a GPU's
  // driver that were given up.
  void atRest(const KvBatch* batch, std::vector<std::shared_ptr<MemoryUses>> restless) noexcept;

  // Calls `take(completion)` for at most `max` completions. Their number.
  template <class Take>
  [[nodiscard]] int take(int max, Take take) {
    endLate();
    std::list<hearth_kv_completion> taken = takeDone(max);
    for (const hearth_kv_completion& completion : taken) take(completion);
    return static_cast<int>(taken.size());
  }
  // Until there is something to take, or `deadline` is over.
  void await(Clock::time_point deadline) const;
  // The number of batches with that id that it has ended.
  [[nodiscard]] int cancel(const void* id);
  void cancelAll();
  // True: nothing touches memory of batches any more.
  [[nodiscard]] bool drain(Clock::time_point deadline);

 private:
  void endLate();
  [[nodiscard]] std::list<hearth_kv_completion> takeDone(int max);
  // With the mutex held. The timer goes off once the first batch is late.
  void arm(Clock::time_point deadline);
  template <class Matches>
  [[nodiscard]] std::vector<std::shared_ptr<KvBatch>> busyThat(Matches matches);

  OwnedFd done_, timer_, all_;  // `all_` polls the other two
  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<hearth_kv_completion> completions_;
  std::map<const KvBatch*, std::shared_ptr<KvBatch>> busy_;  // that are not at rest
  std::vector<std::shared_ptr<MemoryUses>> restless_;
  std::size_t batches_ = 0, items_ = 0;
  Clock::time_point armed_ = Clock::time_point::max();
};

// The requests of a batch end here. Its items are the program's until the completion is pushed, and
// are not looked at after that.
class KvBatch final : public CompletionSink, public std::enable_shared_from_this<KvBatch> {
 public:
  // A sound batch (checkBatch).
  KvBatch(std::shared_ptr<KvQueue> queue, const hearth_kv_batch& given, Clock::time_point deadline);

  // The id of the request that is about all items; that of one item is its index.
  static constexpr std::uintptr_t kAllItems = ~std::uintptr_t{0};
  // Once, before the first request begins, with requests that have this batch as their sink. 0 or
  // -EAGAIN.
  [[nodiscard]] int begin(std::span<const std::shared_ptr<Request>> requests);

  [[nodiscard]] int admit() override { return 0; }
  void push(std::list<xfer_gd2fs_completion> completion,
            std::vector<MemoryUses::Use> uses) noexcept override;

  // Of a value.
  void setBytes(std::size_t item, std::uint64_t bytes);
  // Of an item without a request of its own. The first status stays.
  void setStatus(std::size_t item, int status);
  // All memory of requests; before begin().
  void note(const std::shared_ptr<IoMemory>& memory) { uses_.push_back(memory->uses); }

  // Completes the batch, if it has not been: items that have not ended get `status`.
  bool interrupt(int status);

  [[nodiscard]] const void* id() const { return id_; }
  [[nodiscard]] std::size_t size() const { return outcomes_.size(); }
  const Clock::time_point deadline;

 private:
  static constexpr int kPending = -1;
  struct Outcome {
    std::uint64_t bytes = 0;
    int status = kPending;
  };
  // With the mutex held.
  void complete(int statusOfPending) noexcept;

  const std::shared_ptr<KvQueue> queue_;
  void* const id_;
  std::byte* const items_;
  const std::size_t stride_;
  std::vector<std::shared_ptr<MemoryUses>> uses_;
  std::vector<std::weak_ptr<Request>> requests_;  // constant from begin() on
  std::mutex mutex_;
  std::vector<Outcome> outcomes_;
  std::list<hearth_kv_completion> completion_{1};  // empty once pushed
  std::size_t underWay_ = 0;                       // requests
  bool restless_ = false;
};

// 0 or -EINVAL.
[[nodiscard]] int checkBatch(const hearth_kv_batch* batch);
// The item at an index; only of a batch that has been checked.
[[nodiscard]] inline hearth_kv_item& itemOf(const hearth_kv_batch& batch, std::size_t index) {
  return *reinterpret_cast<hearth_kv_item*>(reinterpret_cast<std::byte*>(batch.items) +
                                            index * batch.items->size);
}

}  // namespace hearth::gd2fs
