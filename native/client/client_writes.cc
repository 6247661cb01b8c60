// Changes of a context: ranges of files of volumes, and their names.
#include <algorithm>
#include <cerrno>
#include <utility>

#include "client/client_context.h"
#include "client/completion_status.h"

namespace hearth::gd2fs {

int ClientContext::write(void* id, const char* path, std::uint64_t offset,
                         std::span<const xfer_gd2fs_sge> sges) {
  std::string located;
  if (const int bad = locate(path, located); bad != 0) return bad;
  if (!liesIn(kVolumeRoot, located)) return -EROFS;
  if (sges.empty()) return -EINVAL;
  std::vector<MemorySlice> slices;
  std::vector<std::shared_ptr<IoMemory>> memory;
  if (const int bad = gather(sges, slices, memory); bad != 0) return bad;
  std::uint64_t size = 0;
  if (const int bad = measure(slices, offset, size); bad != 0) return bad;
  const auto isHost = [](const MemorySlice& slice) { return slice.region->isHost(); };
  if (!std::ranges::all_of(slices, isHost)) return -EOPNOTSUPP;
  return submit(id, [&](AgentLink& link, std::shared_ptr<Request> request) {
    request->use(std::move(memory));
    for (MemorySlice& slice : slices) slice.owner = request;
    return writeOn(link, std::move(request), {std::move(located), offset, size},
                   MemoryVector(std::move(slices)));
  });
}

int ClientContext::unlink(void* id, const char* path) {
  std::string located;
  if (const int bad = locate(path, located); bad != 0) return bad;
  if (!liesIn(kVolumeRoot, located)) return -EROFS;
  return submit(id, [&](AgentLink& link, std::shared_ptr<Request> request) {
    return changeOn(link, std::move(request), ClientMessage::kRemove, std::move(located));
  });
}

Task<void> ClientContext::changeOn(AgentLink& link, std::shared_ptr<Request> request,
                                   ClientMessage change, std::string path) {
  ControlMessage message{static_cast<std::uint16_t>(change), encodePath(path)};
  Task<Result<ControlMessage>> changing = link.ask(std::move(message), request->deadline);
  const Result<ControlMessage> changed = co_await changing;
  if (!changed.ok()) request->fail(statusOf(changed.code()));
}

Task<void> ClientContext::writeOn(AgentLink& link, std::shared_ptr<Request> request,
                                  WriteRange range, MemoryVector from) {
  const std::uint64_t size = range.length;
  if (size == 0) co_return;
  Task<Status> writing = link.write(std::move(range), std::move(from), *request);
  const Status written = co_await writing;
  if (written.ok()) co_return request->add(size);
  request->fail(statusOf(written.code()));
}

}  // namespace hearth::gd2fs
