// The objects of the fabric inside the process, as in_process_verbs.h makes them. All are guarded
// by Fabric::State::mutex. Of these tests alone.
#pragma once

#include <cerrno>
#include <deque>
#include <map>
#include <vector>

#include "verbs/testing/in_process_verbs.h"

namespace hearth::testing_verbs {

using FabricLock = std::lock_guard<std::recursive_mutex>;

// The way in which a function of the library that gives a pointer fails.
template <class T>
T* failedWith(int error) {
  errno = error;
  return nullptr;
}

// A descriptor that is readable for as long as it counts events.
[[nodiscard]] int newEvents();

struct Context;

// A device with one port.
struct Host : ibv_device {
  PortOptions options;
  bool linkUp = true;
  bool gone = false;
  std::uint64_t lockedBytes = 0;
  std::vector<Context*> contexts;
  [[nodiscard]] ibv_gid gid() const;
};

struct Context : ibv_context {
  Host* host = nullptr;
  std::deque<ibv_async_event> events;
};

struct Region : ibv_mr {
  int access = 0;
  int windows = 0;  // that are bound
};

struct MemoryWindow : ibv_mw {
  Region* region = nullptr;  // none: it is not bound
  std::uint64_t address = 0, bytes = 0;
  std::uint32_t queuePair = 0;
};

struct Channel : ibv_comp_channel {
  std::deque<ibv_cq*> events;
};

struct Queue : ibv_cq {
  Channel* to = nullptr;
  bool armed = false;
  std::deque<ibv_wc> completions;
};

struct SendWork {
  ibv_send_wr request{};
  std::vector<ibv_sge> pieces;
  std::vector<std::byte> inlined;
};

struct QueuePair : ibv_qp {
  Host* host = nullptr;
  ibv_qp_cap cap{};
  ibv_qp_attr path{};  // of RTR and RTS
  std::deque<SendWork> sends;
  // Executed without a signal: their places come back with the next completion.
  std::uint32_t unreported = 0;
  struct Receive {
    std::uint64_t id;
    std::vector<ibv_sge> pieces;
  };
  std::deque<Receive> receives;
  bool waitsForReceive = false;
};

struct Fabric::State {
  mutable std::recursive_mutex mutex;
  std::map<std::uint32_t, QueuePair*> pairs;
  std::map<std::uint32_t, Region*> regions;        // by key
  std::map<std::uint32_t, MemoryWindow*> windows;  // by key, while bound
  std::vector<Host*> hosts;
  Judge judge;
  PostJudge postJudge;
  std::uint32_t nextNumber = 16;
  std::uint32_t nextKey = 1;
  std::size_t objects = 0;
  Counts counts;

  [[nodiscard]] std::uint32_t newKey() { return nextKey++ << 8; }
  [[nodiscard]] Host* hostOf(std::uint8_t address);
  // Executes what can be executed of the queue.
  void progress(QueuePair& pair);
  // To the error state: what is under way is flushed.
  void fail(QueuePair& pair);
  void complete(QueuePair& pair, const ibv_wc& completion, ibv_cq* queue);
  void raise(Host& host, ibv_async_event event);

 private:
  [[nodiscard]] ibv_wc_status execute(QueuePair& pair, const SendWork& work, bool& waits);
  [[nodiscard]] ibv_wc_status bind(QueuePair& pair, const ibv_send_wr& request);
  [[nodiscard]] ibv_wc_status invalidate(QueuePair& pair, std::uint32_t key);
  // The other end, if packets reach it.
  [[nodiscard]] QueuePair* peerOf(const QueuePair& pair) const;
  [[nodiscard]] ibv_wc_status gather(const QueuePair& pair, const SendWork& work,
                                     std::vector<std::byte>& bytes) const;
  [[nodiscard]] bool opens(const QueuePair& target, std::uint32_t key, std::uint64_t address,
                           std::uint64_t bytes) const;
  [[nodiscard]] ibv_wc_status deliver(QueuePair& target, const SendWork& work,
                                      const std::vector<std::byte>& bytes);
};

}  // namespace hearth::testing_verbs
