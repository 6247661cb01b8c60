// A key space of a volume, and the transfers that are in flight in it. Any thread.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "plugin_settings.h"
#include "transfer.h"

namespace hearth::nixl {

class KeySpace {
 public:
  // Waits for an agent, 10 s at most. Null, and `problem`.
  [[nodiscard]] static std::unique_ptr<KeySpace> open(const PluginSettings& settings,
                                                      std::string& problem);
  KeySpace(const KeySpace&) = delete;
  KeySpace& operator=(const KeySpace&) = delete;
  // Ends what is in flight; afterwards nothing touches memory of callers.
  ~KeySpace();

  // The memory stays mapped until it is unregistered. Null, and errno.
  [[nodiscard]] xfer_gd2fs_iomem* registerMemory(void* address, std::size_t bytes);
  // An errno; EBUSY while a transfer uses it.
  [[nodiscard]] int unregisterMemory(xfer_gd2fs_iomem* memory);

  // Keeps the transfer until its completion is taken.
  [[nodiscard]] Status post(std::shared_ptr<Transfer> transfer);
  // Takes the completions that are there.
  void poll();
  // Afterwards the transfer has ended; its memory may not be at rest yet.
  void cancel(const std::shared_ptr<Transfer>& transfer);
  // Memory of transfers that have ended is at rest.
  [[nodiscard]] bool isAtRest();

  // Which keys have a value, in one request for each 4096 keys. Blocks for the timeout at most. An
  // errno.
  [[nodiscard]] int find(const std::vector<std::string>& keys, std::vector<bool>& found);

 private:
  struct CloseContext {
    void operator()(xfer_gd2fs_ctx* context) const { xfer_gd2fs_close(context); }
  };
  struct CloseSpace {
    void operator()(hearth_kv* space) const { hearth_kv_close(space); }
  };
  using Space = std::unique_ptr<hearth_kv, CloseSpace>;

  KeySpace() = default;
  [[nodiscard]] int findSome(std::vector<hearth_kv_item>& items);

  std::unique_ptr<xfer_gd2fs_ctx, CloseContext> context_;
  unsigned timeoutMs_ = 0;
  std::mutex mutex_;
  std::unordered_map<const void*, std::shared_ptr<Transfer>> inFlight_;
  Space transfers_;
  // A space of its own: who waits for an answer takes no completion of a transfer.
  std::mutex findMutex_;
  Space questions_;
};

}  // namespace hearth::nixl
