#include "engine/volume_listing.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "sessions/content_run.h"

namespace hearth {
namespace {

// Questions to the leader at a time, each of which is small.
constexpr std::size_t kQuestions = 32;

// Calls `one` for each index below `count`, kQuestions at a time. The first errno that is not 0.
template <class One>
Task<std::int32_t> forEach(Reactor& reactor, std::size_t count, One one) {
  struct Worker {
    static Task<void> run(std::size_t& next, std::size_t count, One& one, std::int32_t& failed) {
      while (next < count && failed == 0) {
        const std::int32_t error = co_await one(next++);
        if (error != 0 && failed == 0) failed = error;
      }
    }
  };
  std::size_t next = 0;
  std::int32_t failed = 0;
  Gate asking(reactor);
  for (std::size_t i = 0; i < std::min(count, kQuestions); ++i)
    asking.spawn(Worker::run(next, count, one, failed));
  co_await asking.close();
  co_return failed;
}

}  // namespace

Error VolumeListing::missing() const {
  return {ErrorCode::kNotFound, "the volume is not known on this node, or was deleted"};
}

Error VolumeListing::failure(std::int32_t error, const std::string& what) const {
  const std::string volume = "volume " + volume_->options.name;
  switch (error) {
    case ETIMEDOUT:
      return {ErrorCode::kUnavailable, "the leader of " + volume + " did not answer in time"};
    case ESHUTDOWN:
      return {ErrorCode::kCancelled, "the engine is shutting down"};
    case ESTALE:
      return {ErrorCode::kOriginChanged, what + " of " + volume + " is gone"};
    case ENOTDIR:
    case ENOENT:
      return {ErrorCode::kNotFound, "there is no " + what + " in " + volume};
    default:
      return errnoError(error, what + " of " + volume);
  }
}

Task<Result<tree::Attributes>> VolumeListing::lookUp(std::string path) const {
  if (volume_ == nullptr) co_return missing();
  co_await volume_->shard.reactor->enter();
  Result<tree::Attributes> found = co_await lookUpOnShard(std::move(path));
  co_await home_.enter();
  co_return found;
}

Task<Result<tree::Attributes>> VolumeListing::lookUpOnShard(std::string path) const {
  QueryReply reply = co_await volume_->client.query(AttributesQuery{tree::kRootInode});
  for (std::size_t at = 0; at < path.size() && reply.error == 0;) {
    const std::size_t end = std::min(path.find('/', at), path.size());
    std::string name = path.substr(at, end - at);
    at = end + 1;
    if (name.empty()) continue;
    const tree::InodeId folder = reply.attributes->id;
    reply = co_await volume_->client.query(LookUpQuery{{folder, std::move(name)}});
  }
  if (reply.error == 0 && reply.attributes) co_return *reply.attributes;
  co_return failure(reply.error, "/" + path);
}

Task<Result<PublishedFolder>> VolumeListing::list(tree::InodeId folder, std::uint64_t after,
                                                  bool contents) const {
  if (volume_ == nullptr) co_return missing();
  co_await volume_->shard.reactor->enter();
  Result<PublishedFolder> listed = co_await listOnShard(folder, after, contents);
  co_await home_.enter();
  co_return listed;
}

Task<Result<PublishedFolder>> VolumeListing::listOnShard(tree::InodeId folder, std::uint64_t after,
                                                         bool contents) const {
  QueryReply reply = co_await volume_->client.query(ListQuery{folder, after, kMaxListed});
  if (reply.error != 0) co_return failure(reply.error, "a folder");
  PublishedFolder listed;
  listed.more = reply.more;
  for (ListedEntry& entry : reply.entries)
    listed.entries.push_back({std::move(entry.name), entry.cookie, entry.attributes, {}, {}});
  if (!contents) co_return listed;
  const auto one = [&](std::size_t at) { return describe(listed.entries[at]); };
  const std::int32_t error = co_await forEach(*volume_->shard.reactor, listed.entries.size(), one);
  if (error != 0) co_return failure(error, "a file");
  co_return listed;
}

Task<std::int32_t> VolumeListing::describe(PublishedEntry& entry) const {
  const tree::InodeId inode = entry.attributes.id;
  if (entry.attributes.inode.kind == tree::Kind::kSymlink) {
    QueryReply reply = co_await volume_->client.query(TargetQuery{inode});
    entry.target = std::move(reply.text);
    co_return reply.error;
  }
  if (entry.attributes.inode.kind != tree::Kind::kFile) co_return 0;
  std::optional<PublishedFileContent> content;
  if (entry.attributes.size != 0) {
    const std::int32_t error = co_await contentOf(inode, content);
    if (error != 0) co_return error;
  }
  const VolumeOptions& about = volume_->options;
  // Of that moment, for the file may have been published again since the leader listed it.
  entry.attributes.size = content ? content->size : 0;
  entry.key = content ? content->key : keyOf({about.store, about.id, tree::kNoSession, 0, 0});
  co_return 0;
}

Task<std::int32_t> VolumeListing::contentOf(tree::InodeId file,
                                            std::optional<PublishedFileContent>& content) const {
  const QueryReply reply = co_await volume_->client.query(OpenQuery{file, std::nullopt});
  if (reply.error != 0) co_return reply.error;
  if (!reply.content || reply.content->length == 0) co_return 0;
  const auto run = soleRun(*reply.content);
  if (!run) co_return EOPNOTSUPP;
  const std::uint64_t length = reply.content->length;
  const VolumeOptions& about = volume_->options;
  content = PublishedFileContent{
      keyOf(ContentRun{about.store, about.id, run->session, run->first, length}), length,
      co_await volume_->client.nodeOf(run->holder)};
  co_return 0;
}

Task<Result<std::vector<std::optional<PublishedFileContent>>>> VolumeListing::contents(
    std::vector<tree::InodeId> files) const {
  if (volume_ == nullptr) co_return missing();
  co_await volume_->shard.reactor->enter();
  std::vector<std::optional<PublishedFileContent>> all(files.size());
  const auto one = [&](std::size_t at) -> Task<std::int32_t> {
    const std::int32_t error = co_await contentOf(files[at], all[at]);
    co_return error == ESTALE || error == EISDIR ? 0 : error;
  };
  const std::int32_t error = co_await forEach(*volume_->shard.reactor, files.size(), one);
  co_await home_.enter();
  if (error != 0) co_return failure(error, "a file");
  co_return all;
}

}  // namespace hearth
