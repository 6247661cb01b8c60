#include "volume/log_folder.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <utility>
#include <vector>

#include "volume/log_names.h"

namespace hearth {

Task<Status> makeLogFolder(FileSystem& files, std::string folder) {
  std::string parent = folder.substr(0, folder.rfind('/'));
  const std::string above = parent.substr(0, parent.rfind('/'));
  const std::string top = above.substr(0, above.rfind('/'));
  for (const std::string& made : {above, parent, folder}) {
    const Status done = co_await files.makeDirectory(made, 0700);
    if (!done.ok() && done.code() != ErrorCode::kAlreadyExists) co_return done;
  }
  for (const std::string& changed : {top, above, parent}) {
    Status synced = co_await files.syncDirectory(changed);
    if (!synced.ok()) co_return synced;
  }
  co_return Status();
}

Task<Result<bool>> hasLogFolder(FileSystem& files, std::string folder) {
  const auto info = co_await files.info(std::move(folder));
  if (info.ok()) co_return true;
  if (info.code() == ErrorCode::kNotFound) co_return false;
  co_return info.error();
}

Task<Status> emptyLogFolder(FileSystem& files, Background background, std::string folder,
                            std::string tail) {
  // The tail first: its groups continue a segment that would be there no more.
  if (!tail.empty()) {
    const int failed = co_await background.run(
        [&tail] { return ::unlink(tail.c_str()) == 0 || errno == ENOENT ? 0 : errno; });
    if (failed != 0) co_return errnoError(failed, "remove " + tail);
  }
  const auto listed = co_await files.list(folder, ListDetail::kKinds);
  if (!listed.ok()) co_return listed.error();
  // The last segment goes first, and a checkpoint after all of them: a crash leaves a beginning of
  // the log.
  std::vector<std::string> segments, others;
  for (const DirectoryEntry& entry : *listed) {
    (numberIn(entry.name, kSegmentPrefix) ? segments : others).push_back(entry.name);
  }
  std::ranges::sort(segments, std::greater());
  for (const std::vector<std::string>* names : {&segments, &others}) {
    for (const std::string& name : *names) {
      Status removed = co_await files.unlink(folder + "/" + name);
      if (!removed.ok() && removed.code() != ErrorCode::kNotFound) co_return removed;
    }
    Status synced = co_await files.syncDirectory(folder);
    if (!synced.ok()) co_return synced;
  }
  co_return Status();
}

}  // namespace hearth
