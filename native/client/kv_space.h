// The object behind hearth_kv: a key space of a volume, as a program uses it through a context. Any
// thread. Numbers that are returned are 0 or a negative errno, unless said otherwise.
#pragma once

#include <sys/types.h>

#include <memory>
#include <vector>

#include "client/client_context.h"
#include "client/kv_batch.h"

namespace hearth::gd2fs {

class KvSpace {
 public:
  // The name of a sound space; kInvalidArgument.
  [[nodiscard]] static Result<KeySpace> nameOf(const hearth_kv_space& space);

  KvSpace(std::shared_ptr<ClientContext> context, KeySpace name);
  // Blocks until no memory of a batch is touched any more.
  ~KvSpace();
  KvSpace(const KvSpace&) = delete;
  KvSpace& operator=(const KvSpace&) = delete;
  // Once, before all other calls.
  [[nodiscard]] int open() { return queue_->open(); }

  [[nodiscard]] int put(const hearth_kv_batch* batch);
  [[nodiscard]] int get(const hearth_kv_batch* batch);
  [[nodiscard]] int ask(const hearth_kv_batch* batch, KeysQuestion question);
  [[nodiscard]] KvQueue& queue() { return *queue_; }
  // A child of fork(2) has none of the threads.
  [[nodiscard]] bool isOfThisProcess() const;

 private:
  [[nodiscard]] std::shared_ptr<KvBatch> batchOf(const hearth_kv_batch& given) const;
  // The values of a batch, each with its memory.
  [[nodiscard]] int gather(const hearth_kv_batch& given, KvBatch& batch, bool puts,
                           std::vector<ObjectTransfer>& into);

  const std::shared_ptr<ClientContext> context_;
  const KeySpace name_;
  const std::shared_ptr<KvQueue> queue_ = std::make_shared<KvQueue>();
  const pid_t process_;
};

}  // namespace hearth::gd2fs
