// libcuda and libcufile of this process, for tests: GPUs whose memory processors cannot touch, and
// copies that run as late as CUDA allows. Each call is held to its contract; breaches are collected
// and never answered with an error alone. There is one for the process, as with the real drivers.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "gpu/cuda_functions.h"
#include "gpu/cufile_functions.h"

namespace hearth::testing_gpu {

struct FakeOptions {
  std::uint64_t seed = 1;
  int devices = 2;
  std::uint64_t memoryBytes = std::uint64_t{64} << 20;  // of each device
  int cudaVersion = 12090;
  bool hasDmaBuf = true;
  // Of 1000 calls that may fail so many do.
  unsigned failures = 0;
  // Calls by name that fail with this CUresult or CUfileOpError, until it is erased.
  std::map<std::string, int> failing;
  std::size_t pinnedLimit = SIZE_MAX;

  enum class Storage : std::uint8_t { kNvidiaFs, kPeerToPeer, kCompatibilityOnly };
  Storage storage = Storage::kNvidiaFs;
  bool alwaysAllowsCompatibility = false;  // as cufile.json may say where no parameter can be set
};

class FakeGpu {
 public:
  static FakeGpu& instance();

  // Forgets everything. No call may be under way.
  void reset(const FakeOptions& options);
  [[nodiscard]] static CudaFunctions cuda();
  [[nodiscard]] static CufileFunctions cufile();

  // Any thread, at any time.
  void fail(const std::string& call, int result);
  void succeed(const std::string& call);
  // Later calls of this name block until release().
  void hang(const std::string& call);
  void release();
  // Calls that block now.
  [[nodiscard]] int hanging() const;
  // Sentences.
  [[nodiscard]] std::vector<std::string> breaches() const;
  // Things that were made and not given back: "2 of pinned memory".
  [[nodiscard]] std::vector<std::string> live() const;
  [[nodiscard]] std::size_t pinnedPieces() const;
  [[nodiscard]] std::uint64_t calls(const std::string& call) const;
  [[nodiscard]] std::uint64_t mostInFlight() const;
  // Contents of the device's memory, without a copy stream.
  [[nodiscard]] std::vector<std::byte> peek(std::uint64_t address, std::size_t bytes) const;
  void poke(std::uint64_t address, std::span<const std::byte> bytes);

 private:
  friend struct FakeCuda;
  friend struct FakeCufile;
  struct Copy {
    bool toDevice;
    std::uint64_t address;
    std::byte* memory;
    std::size_t bytes;
    CudaEvent event;  // instead of a copy
  };
  struct Stream {
    int device;
    std::deque<Copy> queue;
  };
  struct Event {
    int device;
    CudaStream recordedOn = nullptr;  // while the stream has not reached it
  };
  struct Device {
    std::byte* window = nullptr;  // addresses, which no processor may touch
    std::byte* shadow = nullptr;  // contents
    std::map<std::uint64_t, std::size_t> allocations;
    int retained = 0;
  };
  struct Use {
    std::uint64_t address;
    std::size_t bytes;
  };
  using Lock = std::unique_lock<std::mutex>;

  FakeGpu() = default;
  // Counts the call, lets it hang, and answers with what it has to fail with, else 0.
  int enter(Lock& lock, const char* call, bool mayFail = true);
  void breach(std::string sentence) { breaches_.push_back(std::move(sentence)); }
  // The device whose context is current; -1 and a breach without.
  int currentDevice(const char* call);
  // Runs what is queued up to and including `event`, or all of it.
  void run(Stream& stream, CudaEvent event);
  void runSome();
  void loseContexts();
  [[nodiscard]] Device* deviceOf(std::uint64_t address);
  [[nodiscard]] bool isAllocated(std::uint64_t address, std::size_t bytes);
  [[nodiscard]] std::byte* shadowOf(std::uint64_t address);
  [[nodiscard]] bool isPinned(const std::byte* memory, std::size_t bytes) const;
  [[nodiscard]] bool isQueued(std::uint64_t address, std::size_t bytes) const;

  mutable std::mutex mutex_;
  std::condition_variable released_;
  FakeOptions options_;
  std::mt19937_64 random_;
  std::set<std::string> hangs_;
  int hanging_ = 0;
  std::map<std::string, std::uint64_t> calls_;
  std::vector<std::string> breaches_;
  bool started_ = false, lost_ = false;
  int scopes_ = 0;  // contexts pushed and not popped, on all threads
  std::vector<Device> devices_;
  std::map<std::byte*, std::size_t> pinned_;
  std::map<CudaStream, Stream> streams_;
  std::map<CudaEvent, Event> events_;
  std::uintptr_t nextHandle_ = 0x1000;

  bool driverOpen_ = false, compatibility_ = true, peerToPeer_ = false;
  std::map<CufileHandle, int> handles_;              // descriptors
  std::map<std::uint64_t, std::size_t> registered_;  // memory
  std::multiset<CufileHandle> handlesInUse_;
  std::vector<Use> inFlight_;
  std::uint64_t mostInFlight_ = 0;
};

}  // namespace hearth::testing_gpu
