// A context's calls about folders: their entries, and advice for the files below them.
#include <cerrno>
#include <cstring>

#include "client/client_context.h"
#include "client/completion_status.h"
#include "client/file_type.h"
#include "memory/guarded_memory.h"

namespace hearth::gd2fs {
namespace {

xfer_gd2fs_dirent direntOf(const FolderPage::Entry& entry) {
  xfer_gd2fs_dirent into{};
  into.size = entry.size;
  into.mode = typeBits(entry.kind);
  std::memcpy(into.name, entry.name.data(), entry.name.size());
  return into;
}

}  // namespace

int ClientContext::list(void* id, const char* path, const char* after,
                        std::span<xfer_gd2fs_dirent> into) {
  std::string located;
  if (const int bad = locate(path, located); bad != 0) return bad;
  const std::size_t length = after == nullptr ? 0 : strnlen(after, sizeof into.front().name);
  if (length == sizeof into.front().name) return -ENAMETOOLONG;
  ListRequest asked{std::move(located), std::string(after == nullptr ? "" : after, length)};
  return submit(id, [&](AgentLink& link, std::shared_ptr<Request> request) {
    return listOn(link, std::move(request), std::move(asked), into);
  });
}

Task<void> ClientContext::listOn(AgentLink& link, std::shared_ptr<Request> request,
                                 ListRequest asked, std::span<xfer_gd2fs_dirent> into) {
  for (bool last = false; !last && !into.empty();) {
    ControlMessage question{static_cast<std::uint16_t>(ClientMessage::kList), encode(asked)};
    Task<Result<ControlMessage>> asking = link.ask(std::move(question), request->deadline);
    const Result<ControlMessage> answer = co_await asking;
    if (!answer.ok()) co_return request->fail(statusOf(answer.code()));
    const Result<FolderPage> page = decodeFolderPage(answer->body);
    if (!page.ok()) co_return request->fail(statusOf(page.code()));
    last = page->last || page->entries.empty();
    for (const FolderPage::Entry& entry : page->entries) {
      if (into.empty()) break;
      if (entry.name.size() >= sizeof into.front().name)
        co_return request->fail(statusOf(ErrorCode::kProtocolError));
      const xfer_gd2fs_dirent filled = direntOf(entry);
      if (!copyIfThere(std::as_writable_bytes(into.first(1)), std::as_bytes(std::span(&filled, 1))))
        co_return request->fail(requestStatus(EFAULT));
      into = into.subspan(1);
      request->add(1);
      asked.after = entry.name;
    }
  }
}

int ClientContext::advise(void* id, const char* path, int advice, int scope) {
  std::string located;
  if (const int bad = locate(path, located); bad != 0) return bad;
  const bool known = (advice == XFER_GD2FS_WILLNEED || advice == XFER_GD2FS_DONTNEED) &&
                     (scope == XFER_GD2FS_NODE || scope == XFER_GD2FS_CLUSTER);
  if (!known) return -EINVAL;
  AdviseRequest asked{
      std::move(located),
      advice == XFER_GD2FS_WILLNEED ? ClientAdvice::kWillNeed : ClientAdvice::kDontNeed,
      scope == XFER_GD2FS_NODE ? AdviceScope::kNode : AdviceScope::kCluster};
  return submit(id, [&](AgentLink& link, std::shared_ptr<Request> request) {
    return adviseOn(*this, link, std::move(request), std::move(asked));
  });
}

Task<void> ClientContext::adviseOn(ClientContext& context, AgentLink& link,
                                   std::shared_ptr<Request> request, AdviseRequest asked) {
  ControlMessage message{static_cast<std::uint16_t>(ClientMessage::kAdvise), encode(asked)};
  if (asked.scope == AdviceScope::kNode) {
    Task<std::optional<Status>> telling =
        context.localFiles_->tell(message, request->deadline, link.reactor());
    const std::optional<Status> told = co_await telling;
    if (told) {
      if (!told->ok()) request->fail(statusOf(told->code()));
      co_return;
    }
  }
  Task<Result<ControlMessage>> asking = link.ask(std::move(message), request->deadline);
  const Result<ControlMessage> answer = co_await asking;
  if (!answer.ok()) request->fail(statusOf(answer.code()));
}

}  // namespace hearth::gd2fs
