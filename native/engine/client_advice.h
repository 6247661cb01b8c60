// WILLNEED and DONTNEED of clients: the same work as that of mounts, within the same bounds, for
// each dataset that a path names. A token counts as one reader. Any thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "engine/client_datasets.h"
#include "mount/mount_advice.h"
#include "wire/client_message.h"

namespace hearth {

class ClientAdvices {
 public:
  // `ports` must remain live while this object is used.
  explicit ClientAdvices(const MountPorts& ports) : ports_(ports) {}

  // Begins the advice for the files at and below the entry, and returns. kInUse while too much is
  // under way; kInvalidArgument when this advice alone exceeds the bounds; kCancelled after
  // close().
  [[nodiscard]] Status advise(const NamedEntry& at, const AdviseRequest& request,
                              std::uint64_t reader);
  // Ends all work early; nothing begins any more. Does not wait.
  void close();

 private:
  [[nodiscard]] std::shared_ptr<MountAdvice> of(const std::shared_ptr<Dataset>& dataset);

  const MountPorts& ports_;
  std::mutex mutex_;
  // Datasets with work under way, or with work when one was last added.
  std::map<std::shared_ptr<Dataset>, std::shared_ptr<MountAdvice>> advices_;
  bool closed_ = false;
};

// The reader that a token counts as. Tokens with other rights, datasets or times are other readers.
[[nodiscard]] std::uint64_t readerOf(const Capability& client);

}  // namespace hearth
