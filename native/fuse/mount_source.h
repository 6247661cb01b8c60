// The seam between the FUSE protocol and the cache: the calls of a mount to the engine.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"
#include "manifest/manifest.h"

namespace hearth {

// Resident, verified bytes in one or two places; `keep` and `keepRest` own the memory while they
// are being answered.
struct MappedBytes {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> keep;
  std::span<const std::byte> rest;  // follows `bytes`
  std::shared_ptr<const void> keepRest;

  [[nodiscard]] std::size_t size() const { return bytes.size() + rest.size(); }
};

// Advice of an application on a file or a tree, by ioctl (hearth_ioctl.h).
enum class Advice : std::uint8_t {
  kWillNeed,         // fetch it to this node
  kWillNeedCluster,  // fetch what no agent of the cluster holds
  kDontNeed,         // this node's cached copy may go, and what is in memory of it
  kDontNeedMemory,   // what is in memory of it may go
};

// Any thread calls any of these; none blocks, except openFile (it may open a file of the local
// disk).
class MountSource {
 public:
  // A file of this mount; it is in use, and read, while the object lives. The mount has one a file.
  class OpenFile {
   public:
    virtual ~OpenFile() = default;
    // Descriptor of the complete cache file for passthrough, or kNotFound while incomplete, or the
    // reason why passthrough is not possible.
    [[nodiscard]] virtual Result<int> backing() = 0;
    // The bytes when they are in memory (checked against their checksums); kNotFound when something
    // is missing, or on the disk alone. `length` is at most 4 MiB and may cross a chunk; ends at
    // the end of the file.
    [[nodiscard]] virtual Result<MappedBytes> tryRead(std::uint64_t offset,
                                                      std::uint32_t length) = 0;
    // The same after fetching what is missing, and reading what is on the disk. `answer` is called
    // once, on any thread, possibly after this object has gone. `wanted`, asked on any thread until
    // then: false once no reader waits for the answer, so that the read ends its own waiting; null:
    // always true.
    virtual void read(std::uint64_t offset, std::uint32_t length,
                      std::function<void(Result<MappedBytes>)> answer,
                      std::function<bool()> wanted = nullptr) = 0;
    // Read-ahead hint: these bytes will be wanted soon.
    virtual void willNeed(std::uint64_t offset, std::uint64_t length) = 0;
    // A reader is close before these bytes: where they are resident they should be in memory.
    virtual void loadAhead(std::uint64_t offset, std::uint64_t length) = 0;
  };

  virtual ~MountSource() = default;
  [[nodiscard]] virtual const Manifest& manifest() const = 0;
  // True when the entry's file is complete now. Any thread, fast.
  [[nodiscard]] virtual bool complete(std::uint32_t entry) = 0;
  // True when a complete file is opened by passthrough; always the same for one file.
  [[nodiscard]] virtual bool passesThrough([[maybe_unused]] const ManifestEntry& file) const {
    return true;
  }
  [[nodiscard]] virtual Result<std::shared_ptr<OpenFile>> openFile(std::uint32_t entry) = 0;
  // Another number than before after bytes of the entry that readers may have been given were found
  // wrong; from then on right ones are read. 0 as long as that has not come to pass.
  [[nodiscard]] virtual std::uint64_t withdrawn([[maybe_unused]] std::uint32_t entry) { return 0; }
  // Values of user.hearth.source, user.hearth.resident ("bytes/total") and user.hearth.datapath are
  // made of these.
  [[nodiscard]] virtual std::string sourceName() const = 0;
  [[nodiscard]] virtual std::uint64_t residentBytes(std::uint32_t entry) = 0;
  // Lately readers got bytes that could not be kept.
  [[nodiscard]] virtual bool readsThrough() const { return false; }
  // An open or a read of the entry was answered with an error, of which the application sees an
  // errno alone: to be reported elsewhere.
  virtual void failed(std::uint32_t entry, const Error& reason) = 0;
  // The ioctl: begins in the background. kUnavailable while too much is under way for `reader`, a
  // number that distinguishes those of a mount; kInvalidArgument for too many files.
  [[nodiscard]] virtual Status advise(std::uint32_t entry, Advice advice, std::uint64_t reader) = 0;
};

}  // namespace hearth
