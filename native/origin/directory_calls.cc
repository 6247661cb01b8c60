#include "origin/directory_calls.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <thread>

#include "files/open_below.h"
#include "files/posix_file.h"

namespace hearth {
namespace {

// A thread that has nothing to do ends after this long.
constexpr auto kIdle = std::chrono::seconds(10);
// How long the end waits for calls that do return.
constexpr auto kFarewell = std::chrono::seconds(1);

class KernelOriginFile final : public OriginFile {
 public:
  KernelOriginFile(int descriptor, std::string path)
      : descriptor_(descriptor), path_(std::move(path)) {}
  ~KernelOriginFile() override { ::close(descriptor_); }
  KernelOriginFile(const KernelOriginFile&) = delete;
  KernelOriginFile& operator=(const KernelOriginFile&) = delete;

  Result<OriginFileInfo> info() override {
    struct stat from {};
    if (fstat(descriptor_, &from) != 0) return errnoError(errno, "stat " + path_);
    return OriginFileInfo{fileInfoOf(from), from.st_uid, from.st_gid};
  }
  Result<std::size_t> readAt(std::span<std::byte> into, std::uint64_t offset) override {
    return readFrom(descriptor_, into, offset, path_);
  }
  void willRead(std::uint64_t offset, std::uint64_t length) override {
    (void)posix_fadvise(descriptor_, static_cast<off_t>(offset), static_cast<off_t>(length),
                        POSIX_FADV_SEQUENTIAL);
  }

 private:
  const int descriptor_;
  const std::string path_;
};

class KernelOriginFiles final : public OriginFiles {
 public:
  Result<std::unique_ptr<OriginFile>> open(const std::string& root,
                                           const std::string& path) override {
    const Result<int> opened = openRegularBelow(root, path);
    if (!opened.ok()) return opened.error();
    return std::unique_ptr<OriginFile>(
        std::make_unique<KernelOriginFile>(*opened, root + "/" + path));
  }
};

}  // namespace

std::unique_ptr<OriginFiles> kernelOriginFiles() { return std::make_unique<KernelOriginFiles>(); }

std::string treeOf(const std::string& root, const std::string& path) {
  const std::size_t slash = path.find('/');
  return slash == std::string::npos ? root : root + "/" + path.substr(0, slash);
}

// Outlives the DirectoryCalls while a thread hangs.
struct DirectoryCalls::State {
  struct Tree {
    std::deque<std::function<void(Progress&)>> waiting;
    std::size_t running = 0;
    std::shared_ptr<Progress> progress = std::make_shared<Progress>();
  };

  explicit State(Limits bounds) : limits(bounds) {}
  // A tree for which a thread may do something, in turn.
  [[nodiscard]] Tree* next();

  const Limits limits;
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::string, Tree> trees;  // those with calls
  std::string last;                   // the tree that was served last
  std::size_t waiting = 0;            // calls of all trees
  std::size_t threads = 0, idle = 0, running = 0;
  bool ending = false;
};

DirectoryCalls::State::Tree* DirectoryCalls::State::next() {
  auto at = trees.upper_bound(last);
  for (std::size_t looked = 0; looked < trees.size(); ++looked, ++at) {
    if (at == trees.end()) at = trees.begin();
    Tree& tree = at->second;
    if (tree.waiting.empty() || tree.running == limits.threadsPerTree) continue;
    if (running >= limits.threads && tree.running != 0) continue;  // may hang as well
    last = at->first;
    return &tree;
  }
  return nullptr;
}

DirectoryCalls::DirectoryCalls(std::unique_ptr<OriginFiles> files, Limits limits)
    : limits_(limits), files_(std::move(files)), state_(std::make_shared<State>(limits)) {}

DirectoryCalls::~DirectoryCalls() {
  std::unique_lock lock(state_->mutex);
  state_->ending = true;
  state_->changed.notify_all();
  state_->changed.wait_for(lock, kFarewell, [this] { return state_->threads == 0; });
}

Result<std::shared_ptr<DirectoryCalls::Progress>> DirectoryCalls::run(
    const std::string& tree, std::function<void(Progress&)> call) {
  State& state = *state_;
  const std::lock_guard lock(state.mutex);
  const bool known = state.trees.contains(tree);
  State::Tree& mine = state.trees[tree];
  if (!known) note(*mine.progress);
  const bool hangs = mine.running == limits_.threadsPerTree &&
                     Clock::now() - timeOf(*mine.progress) > limits_.stall;
  if (hangs || mine.waiting.size() >= limits_.waitingPerTree) {
    return Error{ErrorCode::kUnavailable,
                 tree + " does not answer: " + std::to_string(mine.running) +
                     " calls on it hang; look after the file system, or the server, that it is on"};
  }
  mine.waiting.push_back(std::move(call));
  ++state.waiting;
  const bool ofUse = mine.running + mine.waiting.size() <= limits_.threadsPerTree;
  const std::size_t most = mine.running == 0 ? limits_.threadsWhenHanging : limits_.threads;
  if (ofUse && state.idle < state.waiting && state.threads < most) {
    ++state.threads;
    std::thread([state = state_] { loop(state); }).detach();
  }
  state.changed.notify_one();
  return mine.progress;
}

void DirectoryCalls::loop(const std::shared_ptr<State>& state) {
  std::unique_lock lock(state->mutex);
  while (!state->ending) {
    State::Tree* const tree = state->next();
    if (tree == nullptr) {
      ++state->idle;
      const bool called = state->changed.wait_for(lock, kIdle) == std::cv_status::no_timeout;
      --state->idle;
      if (!called && state->next() == nullptr) break;
      continue;
    }
    const std::string name = state->last;
    ++tree->running;
    ++state->running;
    {
      const auto call = std::move(tree->waiting.front());
      tree->waiting.pop_front();
      --state->waiting;
      lock.unlock();
      call(*tree->progress);
    }
    lock.lock();
    note(*tree->progress);
    --state->running;
    if (--tree->running == 0 && tree->waiting.empty()) state->trees.erase(name);
  }
  --state->threads;
  state->changed.notify_all();
}

}  // namespace hearth
