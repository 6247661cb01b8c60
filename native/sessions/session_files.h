// The files of a volume's sessions on one node, in the node's cache directories:
//
//   <cache directory>/volumes/<volume>/<inode>-<session>-<base session>-<base counter>
//   <cache directory>/volumes/<volume>/sealed/<session>-<first chunk>-<content key>[-synced]
//
//   <cache directory>/volumes/<volume>/spare-<inode of its file system>
//   <cache directory>/volumes/<volume>/boot    the kernel's boot_id when an agent began last
//
// A session file is what its session writes, and is named after the content that it was computed
// from. A sealed file is published, complete and never written again; the cache has it as a hard
// link, and its name here says across restarts that this node has the volume's only copy. A spare
// file is empty, or a session's that has not renamed it yet. Numbers are hexadecimal. Functions
// block for calls on the local disk; any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/content_key.h"
#include "base/owned_fd.h"
#include "base/result.h"
#include "namespace/ids.h"

namespace hearth {

struct SessionName {
  tree::InodeId inode = tree::kNoInode;
  tree::SessionId session = tree::kNoSession;
  tree::ContentVersion base;
  [[nodiscard]] bool operator==(const SessionName&) const = default;
};
[[nodiscard]] std::string textOf(const SessionName& name);
[[nodiscard]] std::optional<SessionName> parseSessionName(std::string_view text);

struct SealedName {
  tree::SessionId session = tree::kNoSession;
  std::uint32_t first = 0;
  ContentKey key;
  bool synced = false;  // fsync(2) was called when all of it had been written
  [[nodiscard]] bool operator==(const SealedName&) const = default;
};
[[nodiscard]] std::string textOf(const SealedName& name);
[[nodiscard]] std::optional<SealedName> parseSealedName(std::string_view text);

// When a call that moves many bytes has moved the last of them: a volume's deadline counts from
// then. Any thread.
class Progress {
 public:
  void moved() { last_ = Clock::now(); }
  [[nodiscard]] Clock::time_point last() const { return last_; }

 private:
  std::atomic<Clock::time_point> last_{Clock::time_point()};
};

// Size and times of a session file. Two that are equal have nothing written between them by
// write(2), truncation or a first store into a mapped page.
struct FileMark {
  std::uint64_t size = 0;
  std::int64_t modifiedNs = 0;
  std::int64_t changedNs = 0;
  [[nodiscard]] bool operator==(const FileMark&) const = default;
};
[[nodiscard]] Result<FileMark> markOf(int descriptor);

// "<cache directory>/volumes/<volume>"; makeVolumeFolder makes it and the folder of sealed files.
[[nodiscard]] std::string volumeFolder(const std::string& cacheDirectory,
                                       const std::string& volume);
[[nodiscard]] Status makeVolumeFolder(const std::string& folder);
[[nodiscard]] std::string sealedFolder(const std::string& volumeFolder);

// The machine has run since noteRun() was called last for the folder: what was written since then
// and never synced is still there.
[[nodiscard]] Result<bool> ranSince(const std::string& volumeFolder);
[[nodiscard]] Status noteRun(const std::string& volumeFolder);

// A new file, open for reading alone: who writes is the kernel, for its programs.
[[nodiscard]] Result<OwnedFd> makeSessionFile(const std::string& path);
[[nodiscard]] Result<OwnedFd> openSessionFile(const std::string& path);
// A spare file, open for reading alone. It gets its name when it is there (O_TMPFILE), so the
// search for its inode holds no lock of the folder. kUnsupported among others: the file system
// makes none.
struct SpareFile {
  std::string path;
  OwnedFd file;
};
[[nodiscard]] Result<SpareFile> makeSpareFile(const std::string& volumeFolder);
// Makes it the session file at `path`, in place of one that is there, as if it were made now.
[[nodiscard]] Status nameSpareFile(const SpareFile& spare, const std::string& path);
// The path of a spare file that is there with this inode; empty: none.
[[nodiscard]] std::string findSpareFile(const std::string& volumeFolder, std::uint64_t device,
                                        std::uint64_t inode);
// Of all spare files. An error of the disk reads as none.
[[nodiscard]] std::vector<std::string> spareFilesIn(const std::string& volumeFolder);
// A name beside `path` for a file that is not whole yet; removed by removeAside().
[[nodiscard]] std::string asideOf(const std::string& path);
void removeAside(const std::string& volumeFolder);
[[nodiscard]] Status renameFile(const std::string& from, const std::string& to);
// Makes a file of the first bytes of another one of this node, shared with it where the file system
// can.
[[nodiscard]] Status copySessionFile(const std::string& path, int from, std::uint64_t length,
                                     Progress& progress);
[[nodiscard]] Status writeSessionFile(const std::string& path, std::uint64_t offset,
                                      std::span<const std::byte> bytes);
// fsync(2), piece by piece.
[[nodiscard]] Status syncSessionFile(int descriptor, Progress& progress);
// In bytes.
[[nodiscard]] Result<std::uint64_t> sizeOfFile(const std::string& path);
[[nodiscard]] Status setTimes(const std::string& path, std::optional<std::int64_t> accessedNs,
                              std::optional<std::int64_t> modifiedNs);

// An errno; 0: done.
[[nodiscard]] std::int32_t cutSessionFile(const std::string& path, std::uint64_t size);
[[nodiscard]] std::int32_t allocateIn(const std::string& path, std::uint32_t mode,
                                      std::uint64_t offset, std::uint64_t length);

// Nobody can write to the file any more: no descriptor for writing and no writable mapping is left
// (F_SETLEASE, fcntl(2)). kConflict: somebody can; errors of file systems without leases.
[[nodiscard]] Status noWriterLeft(int descriptor);

struct FoundFiles {
  std::vector<SessionName> sessions;
  std::vector<SealedName> sealed;
};
// Files in a volume's folder; none of one that is not there. Other names are left alone.
[[nodiscard]] Result<FoundFiles> findFiles(const std::string& volumeFolder);

}  // namespace hearth
