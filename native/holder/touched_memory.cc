#include "holder/touched_memory.h"

#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <span>
#include <string_view>

#include "base/byte_codec.h"
#include "memory/aligned_mapping.h"
#include "memory/memory_touch.h"

namespace hearth {
namespace {

constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max();
// For all else that the holder and its children need meanwhile.
constexpr std::uint64_t kReserve = std::uint64_t{16} << 20;

std::optional<std::uint64_t> numberIn(const std::string& path) {
  std::ifstream file(path);
  std::uint64_t value = 0;
  // "max" is none.
  if (!(file >> value)) return {};
  return value;
}

// Page cache of the group at `folder` that the kernel gives back before it ends a process: what is
// to be written first is not counted, nor is memory in files without a disk (shmem), which is in
// the lists of anonymous memory.
std::uint64_t cleanCacheOf(const std::string& folder) {
  std::uint64_t cached = 0, unwritten = 0;
  std::ifstream file(folder + "/memory.stat");
  std::string name;
  for (std::uint64_t bytes = 0; file >> name >> bytes;) {
    if (name == "inactive_file" || name == "active_file") cached += bytes;
    if (name == "file_dirty" || name == "file_writeback") unwritten += bytes;
  }
  return cached - std::min(cached, unwritten);
}

// The folder of our group below the mounted tree: in a container that may be its root.
std::string groupOf(const std::string& root) {
  constexpr std::string_view kVersion2 = "0::";
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    if (line.starts_with(kVersion2)) return line.substr(kVersion2.size());
  }
  return "/";
}

ChildAnswer touchInChild(std::uint64_t offset, std::uint64_t bytes) {
  const auto touched = touchMemory(ChildCalls::kDescriptor, offset, bytes);
  ByteWriter huge;
  huge.u64(touched.ok() ? touched->hugeBytes : 0);
  const std::vector<std::byte> number = huge.take();
  ChildAnswer answer = ChildCalls::packed(touched.ok() ? Status() : Status(touched.error()));
  answer.bytes.insert(0, reinterpret_cast<const char*>(number.data()), number.size());
  return answer;
}

}  // namespace

std::uint64_t controlGroupRoom(const std::string& root) {
  std::uint64_t room = kUnlimited;
  std::string group = groupOf(root);
  for (;;) {
    const std::string folder = root + "/sys/fs/cgroup" + group;
    const auto most = numberIn(folder + "/memory.max");
    const auto now = numberIn(folder + "/memory.current");
    if (most && now) {
      const std::uint64_t used = *now - std::min(*now, cleanCacheOf(folder));
      room = std::min(room, *most - std::min(used, *most));
    }
    const std::size_t slash = group.rfind('/');
    if (group.size() <= 1 || slash == std::string::npos) break;
    group.resize(std::max<std::size_t>(slash, 1));
  }
  return room;
}

std::uint64_t memoryRoom(const std::string& root) {
  const std::uint64_t group = controlGroupRoom(root);
  std::ifstream file(root + "/proc/meminfo");
  std::string name, unit;
  for (std::uint64_t kib = 0; file >> name >> kib && std::getline(file, unit);) {
    if (name == "MemAvailable:") return std::min(group, kib << 10);
  }
  return group;
}

Result<ChildCalls::Running> beginTouch(ChildCalls& calls, const OwnedFd& memory,
                                       std::uint64_t offset, std::uint64_t bytes) {
  const auto page = pageBytesOf(memory.get());
  if (!page) return page.error();
  struct stat about {};
  if (::fstat(memory.get(), &about) != 0) return errnoError(errno, "looking at memory");
  // Pages that are set apart are counted apart (hugetlb), and pages that are there already are
  // charged already.
  const auto size = static_cast<std::uint64_t>(about.st_size);
  const auto there = static_cast<std::uint64_t>(about.st_blocks) * 512;
  const std::uint64_t missing = std::min(bytes, size - std::min(there, size));
  const std::uint64_t room = memoryRoom();
  if (*page == kSmallPageBytes && missing != 0 && room < missing + kReserve) {
    return Error{ErrorCode::kOutOfSpace,
                 "the holder may take " + std::to_string(room) + " bytes of memory more, and " +
                     std::to_string(missing + kReserve) +
                     " are needed to touch what is asked for; raise its memory limit, or make the "
                     "arena smaller"};
  }
  return calls.begin(
      "touching " + std::to_string(bytes) + " bytes of memory",
      [offset, bytes] { return touchInChild(offset, bytes); }, memory.get());
}

Result<std::uint64_t> finishTouch(ChildCalls& calls, ChildCalls::Running running) {
  const std::string what = running.what;
  auto answer = calls.finish(std::move(running));
  if (answer.code() == ErrorCode::kDeadlineExceeded) {
    return Error{ErrorCode::kDeadlineExceeded,
                 what + " did not end in time: the machine is short of memory, or of processors"};
  }
  if (!answer) return answer.error();
  ByteReader in(std::as_bytes(std::span(answer->bytes)));
  const std::uint64_t huge = in.u64();
  if (!in.ok()) return Error{ErrorCode::kInternal, what + ": the answer is cut off"};
  answer->bytes.erase(0, sizeof huge);
  const Status done = ChildCalls::unpacked(*answer);
  if (!done) return done.error();
  return huge;
}

}  // namespace hearth
