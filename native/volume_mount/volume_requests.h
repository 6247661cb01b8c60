// The requests of the kernel as calls of a volume. Each coroutine answers its request once, and
// ends by the volume's deadline. On the volume's reactor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "fuse/fuse_reads.h"
#include "fuse/fuse_request.h"
#include "volume_mount/node_table.h"
#include "volume_mount/open_volume_files.h"
#include "volume_mount/volume_answers.h"
#include "volume_mount/volume_files.h"

namespace hearth {

// A request with the bytes that its arguments point into.
struct VolumeRequest {
  std::vector<std::byte> message;
  FuseRequest fuse;
  std::uint32_t process = 0;  // of FLUSH, and of opens for writing: callerOf()
};

class VolumeRequests {
 public:
  using Request = std::shared_ptr<const VolumeRequest>;

  // All of them outlive this object.
  VolumeRequests(VolumeFiles& files, OpenVolumeFiles& opens, NodeTable& nodes,
                 VolumeAnswers& answers, FuseReads& reads)
      : files_(files), opens_(opens), nodes_(nodes), answers_(answers), reads_(reads) {}

  // Any request but INIT, FORGET and INTERRUPT. READ: of a node that this agent has not opened;
  // `read` says how it is answered.
  [[nodiscard]] Task<void> serve(Request request);
  [[nodiscard]] Task<void> readInherited(FuseReads::Request read, std::uint64_t node);
  // READ of a handle that was opened idle: of the file as it is now.
  [[nodiscard]] Task<void> readIdle(FuseReads::Request read, std::uint64_t node);

 private:
  // name_requests.cc
  [[nodiscard]] Task<void> lookUp(Request request);
  [[nodiscard]] Task<void> makeNode(Request request);
  [[nodiscard]] Task<void> makeFolder(Request request);
  [[nodiscard]] Task<void> symlink(Request request);
  [[nodiscard]] Task<void> link(Request request);
  [[nodiscard]] Task<void> remove(Request request);
  [[nodiscard]] Task<void> rename(Request request);
  [[nodiscard]] Task<void> answerMade(Request request, tree::ClientChange change);
  // For a change that cannot be made twice; goes when the request is answered.
  [[nodiscard]] std::shared_ptr<RequestNote> noteOf(const FuseRequest& request);
  void answerEntry(const FuseRequest& request, const std::optional<tree::Attributes>& attributes);

  // attribute_requests.cc
  [[nodiscard]] Task<void> getAttributes(Request request);
  [[nodiscard]] Task<void> setAttributes(Request request);
  [[nodiscard]] Task<void> getXattr(Request request);
  [[nodiscard]] Task<void> listXattrs(Request request);
  [[nodiscard]] Task<void> setXattr(Request request);
  [[nodiscard]] Task<void> removeXattr(Request request);
  [[nodiscard]] Task<void> readLink(Request request);
  [[nodiscard]] Task<void> statistics(Request request);
  [[nodiscard]] Task<void> readFolder(Request request);
  void answerText(const FuseRequest& request, const std::string& value);
  // Of a folder's list that fits; then the names that the kernel does not get count as forgotten.
  [[nodiscard]] std::vector<std::byte> recordsOf(const QueryReply& list, const FuseRequest& request,
                                                 std::vector<std::uint64_t>& lookedUp);

  // file_requests.cc
  [[nodiscard]] Task<void> create(Request request);
  [[nodiscard]] Task<void> open(Request request);
  [[nodiscard]] Task<void> openFile(Request request, tree::InodeId inode, std::uint32_t flags);
  [[nodiscard]] Task<void> write(Request request);
  [[nodiscard]] Task<void> flush(Request request);
  [[nodiscard]] Task<void> synchronise(Request request);
  [[nodiscard]] Task<void> allocate(Request request);
  [[nodiscard]] Task<void> release(Request request);
  // The request was counted by an earlier agent, which did not answer it.
  [[nodiscard]] bool isCounted(const FuseRequest& request) const;
  // Of a create that was counted. False: the file is not open any more.
  [[nodiscard]] bool answerCounted(const VolumeRequest& request, const tree::Attributes& about,
                                   bool writes);
  void answerOpen(const VolumeRequest& request, std::uint64_t node, const fuse_entry_out* entry,
                  const VolumeOpenAnswer& opened, bool writes, bool idle = false);

  // 0, or ESTALE for a node that this mount has not given out.
  [[nodiscard]] std::int32_t inodeOf(const FuseRequest& request, tree::InodeId& inode);
  void fail(const FuseRequest& request, std::int32_t error) {
    answers_.replyErrno(request.unique, error);
  }

  VolumeFiles& files_;
  OpenVolumeFiles& opens_;
  NodeTable& nodes_;
  VolumeAnswers& answers_;
  FuseReads& reads_;
};

}  // namespace hearth
