// The effect of each request. One thread, the holder's.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/owned_fd.h"
#include "holder/held_mounts.h"
#include "holder/holder_protocol.h"

namespace hearth {

// The process that sends a request.
struct HolderCaller {
  HolderConnection id = 0;
  pid_t pid = 0;
  uid_t user = 0;
  gid_t group = 0;
  int process = -1;  // a descriptor of it (processOf()), the caller's; -1: none
};

struct HolderAnswer {
  HolderReply reply;
  std::vector<int> descriptors;  // of what is held; to be sent before the next request is answered
};

class HolderCalls {
 public:
  // `mounts` outlives this object. `hello` is what the holder says of itself.
  HolderCalls(HeldMounts& mounts, HolderHello hello) : mounts_(mounts), hello_(std::move(hello)) {}

  // `descriptors` came with the request.
  [[nodiscard]] HolderAnswer answer(const HolderCaller& caller, const HolderRequest& request,
                                    std::vector<OwnedFd> descriptors);

  [[nodiscard]] static HolderReply failed(std::uint32_t sequence, const Error& error);

 private:
  // Each for requests of its kind; the sequence is set afterwards.
  [[nodiscard]] Result<HolderAnswer> open(const HolderCaller& caller, const HolderRequest& request,
                                          std::vector<OwnedFd> descriptors);
  // The following for the agent of `owner`.
  [[nodiscard]] Result<HolderAnswer> owned(const std::string& owner, const HolderCaller& caller,
                                           const HolderRequest& request,
                                           std::vector<OwnedFd> descriptors);
  [[nodiscard]] Result<HolderAnswer> ofMemory(const std::string& owner, const HolderCaller& caller,
                                              const HolderRequest& request,
                                              std::vector<OwnedFd> descriptors);
  [[nodiscard]] Result<HolderAnswer> ofBacking(const std::string& owner,
                                               const HolderRequest& request,
                                               const std::vector<OwnedFd>& descriptors);
  [[nodiscard]] HolderAnswer handOver(std::size_t position) const;
  [[nodiscard]] HolderAnswer describe(const HeldMounts::Mount* mount, bool descriptors) const;
  [[nodiscard]] HolderAnswer describe(const HeldMemory::Kept* kept, bool descriptors) const;

  HeldMounts& mounts_;
  const HolderHello hello_;
};

}  // namespace hearth
