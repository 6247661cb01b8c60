// WILLNEED and DONTNEED of clients: the same work as that of mounts, within the same bounds, for
// each dataset that a path names. A token counts as one reader. Any thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "engine/advice_pace.h"
#include "engine/client_datasets.h"
#include "mount/mount_advice.h"
#include "wire/client_message.h"

namespace hearth {

class ClientAdvices {
 public:
  // `ports` must remain live while this object is used.
  explicit ClientAdvices(const MountPorts& ports);

  // Begins the advice for the files at and below the entry, and returns. kInUse while too much is
  // under way; kInvalidArgument when this advice alone exceeds the bounds; kCancelled after
  // close(). Others' reads hold back what it brings (AdvicePace).
  [[nodiscard]] Status advise(const NamedEntry& at, const AdviseRequest& request,
                              const Capability& client);
  // The same for another agent, which passes on a client's advice.
  [[nodiscard]] Status advisePassedOn(const std::string& node, const NamedEntry& at,
                                      const AdviseRequest& request);
  [[nodiscard]] AdvicePace& pace() { return *pace_; }
  // Ends all work early; nothing begins any more. Does not wait.
  void close();

 private:
  [[nodiscard]] std::shared_ptr<MountAdvice> of(const std::shared_ptr<Dataset>& dataset);

  [[nodiscard]] Status begin(const NamedEntry& at, const AdviseRequest& request,
                             std::uint64_t reader, ClientIdentity client);

  const MountPorts& ports_;
  // Jobs that end after this object have it, too.
  const std::shared_ptr<AdvicePace> pace_;
  std::mutex mutex_;
  // Datasets with work under way, or with work when one was last added.
  std::map<std::shared_ptr<Dataset>, std::shared_ptr<MountAdvice>> advices_;
  bool closed_ = false;
};

}  // namespace hearth
