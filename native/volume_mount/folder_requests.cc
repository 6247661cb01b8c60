#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "volume_mount/volume_attributes.h"
#include "volume_mount/volume_requests.h"

namespace hearth {
namespace {

// The folder above is not known here; libfuse gives this number, too.
constexpr std::uint64_t kUnknownInode = 0xffffffff;
constexpr std::uint32_t kMaxFolderBytes = 1U << 20;

}  // namespace

std::vector<std::byte> VolumeRequests::recordsOf(const QueryReply& list, const FuseRequest& request,
                                                 std::vector<std::uint64_t>& lookedUp) {
  const auto& in = std::get<fuse_read_in>(request.arguments);
  const bool plus = request.opcode == FUSE_READDIRPLUS;
  const std::size_t room = std::min(in.size, kMaxFolderBytes);
  std::vector<std::byte> records;
  records.reserve(room);
  const auto add = [&](const DirectoryRecord& record, const fuse_entry_out& entry) {
    appendDirectoryRecord(records, record, plus ? &entry : nullptr);
  };
  const auto fits = [&](std::string_view name) {
    return records.size() + directoryRecordBytes(name, plus) <= room;
  };
  // The kernel takes no entry of "." and "..": node id 0 says so.
  if (in.offset < 1 && fits(".")) add({".", request.node, 1, S_IFDIR}, {});
  if (in.offset < 2 && fits("..")) add({"..", kUnknownInode, 2, S_IFDIR}, {});
  for (const ListedEntry& item : list.entries) {
    if (!fits(item.name)) break;
    const tree::Attributes& about = item.attributes;
    const DirectoryRecord record{item.name, static_cast<std::uint64_t>(about.id), item.cookie,
                                 typeOf(about.inode.kind)};
    fuse_entry_out entry{};
    if (plus) {
      const std::uint64_t node = opens_.lookUp(about);
      if (node != 0) entry = entryAnswer(node, about);
      lookedUp.push_back(node);
    }
    add(record, entry);
  }
  return records;
}

Task<void> VolumeRequests::readFolder(Request request) {
  const FuseRequest& fuse = request->fuse;
  const auto& in = std::get<fuse_read_in>(fuse.arguments);
  ListQuery query;
  if (const std::int32_t error = inodeOf(fuse, query.folder); error != 0)
    co_return fail(fuse, error);
  query.after = in.offset < tree::kFirstCookie ? 0 : in.offset;
  const bool plus = fuse.opcode == FUSE_READDIRPLUS;
  const std::size_t smallest = directoryRecordBytes("a", plus);
  query.most = std::clamp<std::uint32_t>(
      static_cast<std::uint32_t>(std::min(in.size, kMaxFolderBytes) / smallest), 1, kMaxListed);
  const QueryReply reply = co_await files_.query(query);
  if (reply.error != 0) co_return fail(fuse, reply.error);
  std::vector<std::uint64_t> lookedUp;
  const std::vector<std::byte> records = recordsOf(reply, fuse, lookedUp);
  if (answers_.reply(fuse.unique, records)) co_return;
  for (const std::uint64_t node : lookedUp) opens_.forget(node, 1);
}

}  // namespace hearth
