// The object behind xfer_gd2fs_ctx: threads, registered memory, requests. Any thread, unless said
// otherwise. Numbers that are returned are 0 or a negative errno.
#pragma once

#include <cerrno>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <shared_mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "client/agent_link.h"
#include "client/client_options.h"
#include "client/completion_status.h"
#include "client/local_files.h"
#include "client/request.h"

namespace hearth::gd2fs {

class KvBatch;

// One value of a batch, and the memory that it comes from or goes to.
struct ObjectTransfer {
  ObjectName name;
  std::vector<MemorySlice> slices;
  std::vector<std::shared_ptr<IoMemory>> memory;
  std::uint64_t bytes = 0;  // of the slices
};
enum class KeysQuestion : std::uint8_t { kExist, kPrefix, kDelete };

class ClientContext : public std::enable_shared_from_this<ClientContext> {
 public:
  // Blocks until an agent has answered. Errors as xfer_gd2fs_connect().
  [[nodiscard]] static Result<std::shared_ptr<ClientContext>> connect(ClientOptions options);
  // As close().
  ~ClientContext() { close(); }
  ClientContext(const ClientContext&) = delete;
  ClientContext& operator=(const ClientContext&) = delete;

  // Blocks until no request is in flight. Completions stay in completions(). One thread.
  void close();
  [[nodiscard]] const std::shared_ptr<CompletionQueue>& completions() const { return completions_; }
  // As CompletionQueue::take(); also after close().
  [[nodiscard]] int wait(std::span<xfer_gd2fs_completion> into, int timeoutMs);

  // A number that is never 0, and never used again by this process. kInvalidArgument: it begins in
  // memory of a GPU and ends elsewhere.
  [[nodiscard]] Result<std::uintptr_t> registerMemory(std::uintptr_t address, std::size_t size);
  [[nodiscard]] int deregisterMemory(std::uintptr_t memory);
  // As xfer_gd2fs_drain().
  [[nodiscard]] int drain(std::uintptr_t memory, int timeoutMs);

  [[nodiscard]] int stat(void* id, const char* path, xfer_gd2fs_stat* into);
  [[nodiscard]] int create(void* id, const char* path);
  [[nodiscard]] int read(void* id, const char* path, std::uint64_t offset,
                         std::span<const xfer_gd2fs_sge> sges);
  // In client_writes.cc, with unlink().
  [[nodiscard]] int write(void* id, const char* path, std::uint64_t offset,
                          std::span<const xfer_gd2fs_sge> sges);
  [[nodiscard]] int unlink(void* id, const char* path);
  // In client_folders.cc, with advise(). `after` may be null.
  [[nodiscard]] int list(void* id, const char* path, const char* after,
                         std::span<xfer_gd2fs_dirent> into);
  [[nodiscard]] int advise(void* id, const char* path, int advice, int scope);

  [[nodiscard]] Clock::duration timeout() const { return options_.timeout; }

  // Objects of batches (client/kv_batch.h), in client_objects.cc. The memory of SGEs;
  // `writesMemory` refuses those that overlap.
  [[nodiscard]] int gather(std::span<const xfer_gd2fs_sge> sges, bool writesMemory,
                           ObjectTransfer& into);
  // Begin the batch, which has as many items. 0, or -EAGAIN or -EBADF.
  [[nodiscard]] int putObjects(const std::shared_ptr<KvBatch>& batch,
                               std::vector<ObjectTransfer> transfers);
  [[nodiscard]] int getObjects(const std::shared_ptr<KvBatch>& batch,
                               std::vector<ObjectTransfer> transfers);
  [[nodiscard]] int askKeys(const std::shared_ptr<KvBatch>& batch, KeysRequest keys,
                            KeysQuestion question);

 private:
  struct Part;
  // Where a path has led, for a while: most programs read many ranges of few files.
  struct Known {
    ResolvedPath resolved;
    Clock::time_point until;
    std::list<std::string>::iterator use;
  };

  // The path of a dataset that a program's path stands for. 0 or a negative errno.
  [[nodiscard]] int locate(const char* path, std::string& located) const;
  explicit ClientContext(ClientOptions options);
  [[nodiscard]] Status start();
  [[nodiscard]] AgentLink& nextLink() { return *links_[next_++ % links_.size()]; }
  // Admits a request and begins `work(link, request)`, a Task<void>, on the next link, or on the
  // one that `linkOf()`, a pointer, names when that is not null. 0, or -EAGAIN or -EBADF.
  template <class Work, class LinkOf>
  [[nodiscard]] int submit(void* id, Work work, LinkOf linkOf);
  template <class Work>
  [[nodiscard]] int submit(void* id, Work work) {
    return submit(id, std::move(work), [] { return static_cast<AgentLink*>(nullptr); });
  }
  // Has this thread send what was posted to a lent link.
  void sendOn(AgentLink& link);
  // The SGEs as slices without an owner, and what has to stay registered; or a negative errno.
  [[nodiscard]] int gather(std::span<const xfer_gd2fs_sge> sges, std::vector<MemorySlice>& slices,
                           std::vector<std::shared_ptr<IoMemory>>& memory);
  // Two of the slices share a byte.
  [[nodiscard]] static bool overlap(std::span<const MemorySlice> slices);
  // The bytes of the slices into `size`; -EOVERFLOW: no file has so many from `offset` on.
  [[nodiscard]] static int measure(std::span<const MemorySlice> slices, std::uint64_t offset,
                                   std::uint64_t& size);
  [[nodiscard]] Task<Result<ResolvedPath>> resolve(AgentLink& link, std::string path,
                                                   Clock::time_point deadline);
  [[nodiscard]] std::optional<ResolvedPath> known(const std::string& path);
  // The link to the shard that has the file; null when that is not known, or the link has much to
  // do.
  [[nodiscard]] AgentLink* nearest(const std::string& path);
  void know(const std::string& path, const ResolvedPath& resolved);
  void forget(const std::string& path);
  // The file as this node's agent has passed it; null: it is read over the network.
  [[nodiscard]] Task<std::shared_ptr<LocalFile>> localFile(AgentLink& link, std::string path,
                                                           ResolvedPath resolved);
  static Task<void> statOn(AgentLink& link, std::shared_ptr<Request> request, std::string path,
                           xfer_gd2fs_stat* into);
  static Task<void> createOn(AgentLink& link, std::shared_ptr<Request> request, std::string path);
  static Task<void> listOn(AgentLink& link, std::shared_ptr<Request> request, ListRequest asked,
                           std::span<xfer_gd2fs_dirent> into);
  static Task<void> adviseOn(ClientContext& context, AgentLink& link,
                             std::shared_ptr<Request> request, AdviseRequest asked);
  static Task<void> readOn(ClientContext& context, AgentLink& link,
                           std::shared_ptr<Request> request, std::string path, std::uint64_t offset,
                           MemoryVector into);
  // Asks for a change of a path of a volume.
  static Task<void> changeOn(AgentLink& link, std::shared_ptr<Request> request,
                             ClientMessage change, std::string path);
  static Task<void> writeOn(AgentLink& link, std::shared_ptr<Request> request, WriteRange range,
                            MemoryVector from);
  // The file's bytes from `offset` to `end`, into as much of `into`.
  static Task<void> readParts(ClientContext& context, AgentLink& link,
                              std::shared_ptr<Request> request,
                              std::shared_ptr<const FileOfAgent> file,
                              std::shared_ptr<LocalFile> local, std::uint64_t offset,
                              std::uint64_t end, MemoryVector into);
  // Begins `begin(link, request, index)`, a Task<void>, for `count` requests of the batch.
  template <class Begin>
  [[nodiscard]] int submitAll(KvBatch& batch, std::size_t count, std::uintptr_t firstId,
                              Begin begin);
  template <class Begin>
  [[nodiscard]] int transferAll(KvBatch& batch, std::vector<ObjectTransfer> transfers, Begin begin);
  static Task<void> putOn(AgentLink& link, std::shared_ptr<Request> request, ObjectName name,
                          MemoryVector from);
  static Task<void> getOn(ClientContext& context, AgentLink& link, std::shared_ptr<Request> request,
                          std::shared_ptr<KvBatch> batch, std::size_t item, ObjectName name,
                          MemoryVector into);
  static Task<void> askKeysOn(AgentLink& link, std::shared_ptr<Request> request,
                              std::shared_ptr<KvBatch> batch, KeysRequest keys,
                              KeysQuestion question);
  static Task<void> readPart(ClientContext& context, AgentLink& link, Part part);
  // Into host memory, by the local file or over the network.
  [[nodiscard]] static Task<Status> readInto(ClientContext& context, AgentLink& link, Part& part,
                                             MemoryVector into);
  // Through pinned memory.
  [[nodiscard]] static Task<Status> readBounced(ClientContext& context, AgentLink& link,
                                                Part& part);
  [[nodiscard]] std::shared_ptr<GpuMemory> gpuMemory(std::shared_ptr<Device> device);
  // Gives the drivers back what reads needed, for options_.timeout at most.
  void releaseGpus();

  const ClientOptions options_;
  AgentList agents_;
  const std::shared_ptr<CompletionQueue> completions_ = std::make_shared<CompletionQueue>();
  std::vector<std::unique_ptr<AgentLink>> links_;
  std::unique_ptr<LocalFiles> localFiles_;  // on the thread of the first link
  std::atomic<std::size_t> next_{0};
  std::atomic<AgentLink*> quick_{nullptr};  // that the last request named, if it did
  std::shared_mutex submitting_;            // shared by threads that submit, which use links_
  std::mutex mutex_;
  bool closed_ = false;
  std::map<std::uintptr_t, std::shared_ptr<IoMemory>> memory_;
  std::vector<std::shared_ptr<GpuMemory>> gpus_;  // that memory was registered of
  std::unordered_map<std::string, Known> known_;
  std::list<std::string> uses_;  // of known_, the last one first
};

template <class Work, class LinkOf>
int ClientContext::submit(void* id, Work work, LinkOf linkOf) {
  // A closing context is refused before the lock, so that its end does not wait for newcomers.
  if (agents_.closing.load()) return -EBADF;
  const std::shared_lock submitting(submitting_);
  auto request = std::make_shared<Request>(completions_, id, Clock::now() + options_.timeout);
  AgentLink* const named = linkOf();
  AgentLink& link = named != nullptr ? *named : nextLink();
  Task<void> task = work(link, request);
  // A completion follows from now on, also when memory is missing for the rest.
  if (const int refused = request->admit(); refused != 0) return refused;
  try {
    link.post(std::move(task));
  } catch (const std::bad_alloc&) {
    request->fail(memoryStatus());
    return 0;
  }
  request.reset();
  AgentLink* const before = quick_.exchange(named);
  if (before != nullptr && before != named) before->lent().takeBack();
  if (named != nullptr && link.lent().isLent()) sendOn(link);
  return 0;
}

}  // namespace hearth::gd2fs
