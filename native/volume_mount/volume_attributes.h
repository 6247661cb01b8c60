// A volume's attributes as the kernel wants them, and records of READDIR. Pure, any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "fuse/fuse_abi.h"
#include "namespace/namespace.h"

namespace hearth {

// S_IFREG and its like.
[[nodiscard]] std::uint32_t typeOf(tree::Kind kind);

[[nodiscard]] fuse_attr fuseAttributes(const tree::Attributes& attributes);
// The kernel may keep folders for a second, and nothing else (rule R9).
[[nodiscard]] fuse_attr_out attributesAnswer(const tree::Attributes& attributes);
[[nodiscard]] fuse_entry_out entryAnswer(std::uint64_t node, const tree::Attributes& attributes);

// Capabilities and labels have no place in a volume: its mounts are nosuid.
[[nodiscard]] bool keepsXattr(std::string_view name);

struct DirectoryRecord {
  std::string_view name;
  std::uint64_t inode = 0;
  std::uint64_t cookie = 0;  // reading goes on behind it
  std::uint32_t type = 0;    // S_IFREG and its like
};
// The size of a record in a READDIR answer, or in a READDIRPLUS answer (`plus`).
[[nodiscard]] std::size_t directoryRecordBytes(std::string_view name, bool plus);
// Appends a record; `entry` precedes it in READDIRPLUS answers, else null.
void appendDirectoryRecord(std::vector<std::byte>& out, const DirectoryRecord& record,
                           const fuse_entry_out* entry);

}  // namespace hearth
