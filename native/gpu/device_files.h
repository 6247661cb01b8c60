// Moves bytes between local files and the memory of a device by the best path that the machine has,
// and says which path that was. The door of the room; Device describes the memory (device.h).
//
//   auto device = openDevice("cuda:0");
//   auto memory = (*device)->allocate(bytes);
//   auto files = DeviceFiles::open(*device, {});
//   auto moved = (*files)->read({{"/cache/model.safetensors", 0, {*memory, 0, bytes}}});
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gpu/device.h"
#include "memory/memory_vector.h"

namespace hearth {

// In order of preference.
enum class TransferPath : std::uint8_t {
  kDirect,   // the storage device writes into the GPU
  kBounced,  // through pinned memory of the host
  kHost,     // the memory is the host's
};
// "direct", "bounced", "host".
[[nodiscard]] std::string_view transferPathName(TransferPath path);

// "cpu" or "cuda:N"; "cuda" is cuda:0. kInvalidArgument for other names, kNotFound when there is
// no such GPU, kUnavailable when the driver refuses, kUnsupported without a usable driver; the
// message gives the next step.
[[nodiscard]] Result<std::shared_ptr<Device>> openDevice(std::string_view name);

// Bytes of one file and their place in memory.
struct FilePiece {
  std::string path;
  std::uint64_t offset = 0;
  MemorySlice memory;  // its size is the number of bytes
};

struct Transferred {
  std::uint64_t directBytes = 0;
  std::uint64_t bouncedBytes = 0;
  std::uint64_t hostBytes = 0;
  // Why bytes did not go the direct path: the first obstacle, otherwise what was measured. Empty
  // when all of them did.
  std::string whyNotDirect;

  [[nodiscard]] std::uint64_t bytes() const { return directBytes + bouncedBytes + hostBytes; }
  // The path of most bytes.
  [[nodiscard]] TransferPath path() const;
};

class DeviceFiles {
 public:
  enum class Choice : std::uint8_t {
    kMeasured,  // the faster path, by measurement for each size class
    kDirect,    // the direct path or an error
    kBounced,   // never the direct path
  };
  struct Options {
    Choice choice = Choice::kMeasured;
    // Threads that move slices, each with two pinned buffers of `sliceBytes`; 0: one for each
    // processor, at most 16.
    unsigned lanes = 0;
    std::size_t sliceBytes = std::size_t{4} << 20;  // a multiple of 4096
    // Also what is not in the page cache is read through it, and all that is bounced is written
    // through it, which is for files that will be read again soon. Otherwise the page cache serves
    // what it has and gets nothing new.
    bool throughPageCache = false;
    // When no slice completes for so long, calls end with kDeadlineExceeded, and the object serves
    // no further calls: what hangs may still touch its memory, which therefore is never freed.
    std::chrono::milliseconds stallTimeout{30000};
  };

  // kOutOfSpace when pinned memory cannot be had.
  [[nodiscard]] static Result<std::unique_ptr<DeviceFiles>> open(std::shared_ptr<Device> device,
                                                                 Options options);
  virtual ~DeviceFiles() = default;

  // Both block until all pieces are there or one has failed, on any thread; calls on several
  // threads share the lanes. Afterwards the bytes are visible to work that is given to the GPU
  // later; work that was given before must no longer use the memory. After an error any part of
  // the memory (of the files) may have been overwritten.
  //
  // kInvalidArgument: memory of another device, or that is freed; a piece that reaches beyond the
  // end of its file. kIoError, kNotFound...: as open(2) and read(2) answer.
  [[nodiscard]] virtual Result<Transferred> read(std::span<const FilePiece> pieces) = 0;
  // Into files that exist and have their full size.
  [[nodiscard]] virtual Result<Transferred> write(std::span<const FilePiece> pieces) = 0;
};

}  // namespace hearth
