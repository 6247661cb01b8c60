// hearth_bench_volume_log FOLDER STORE VOLUME FILES: writes the log of a volume with so many empty
// files `file0`, `file1` and so on in its root, as its leader would have written it in epoch 1.
// Ids are 32 hexadecimal digits. The folder is empty or absent.
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "files/posix_file_system.h"
#include "volume/volume_log.h"

namespace hearth::bench {
namespace {

// So that what waits for its write stays below VolumeLog::kMostPendingBytes.
constexpr std::uint64_t kGroup = 10'000;

std::optional<tree::WideId> idFrom(std::string_view digits) {
  tree::WideId id{};
  if (digits.size() != 2 * id.size()) return std::nullopt;
  for (std::size_t i = 0; i < id.size(); ++i) {
    const char* first = digits.data() + 2 * i;
    if (std::from_chars(first, first + 2, id[i], 16).ptr != first + 2) return std::nullopt;
  }
  return id;
}

tree::Record fileRecord(std::uint64_t number, std::uint64_t file) {
  const tree::InodeId inode{tree::idOf(1, 1000 + file)};
  tree::Record record{1, number, {}};
  record.changes.push_back(
      {tree::Key::of(tree::KeyKind::kInode, inode), tree::Inode{.mode = 0644, .links = 1}});
  record.changes.push_back({tree::Key::ofEntry(tree::kRootInode, number + tree::kFirstCookie - 1),
                            tree::Entry{inode, "file" + std::to_string(file)}});
  return record;
}

Task<Status> writeLog(Reactor& reactor, FileSystem& files, VolumeLog::Options options,
                      std::uint64_t count) {
  tree::Namespace tree(options.tree);
  auto log = co_await VolumeLog::open(reactor, files, options, tree);
  if (!log.ok()) co_return log.error();
  const auto begun = tree.lead(1, 0);
  if (!begun.ok()) co_return begun.error();
  (*log)->append(*begun);
  for (std::uint64_t file = 0; file < count; ++file) {
    const tree::Record record = fileRecord(tree.lastRecord() + 1, file);
    if (Status applied = tree.apply(record); !applied.ok()) co_return applied;
    (*log)->append(record);
    if (file % kGroup != kGroup - 1 && file + 1 != count) continue;
    if (Status written = co_await (*log)->durable(tree.lastRecord()); !written.ok()) {
      co_return written;
    }
  }
  if (Status checkpoint = co_await (*log)->checkpoint(); !checkpoint.ok()) co_return checkpoint;
  co_return co_await (*log)->close();
}

int run(const std::string& folder, const char* store, const char* volume, std::uint64_t count) {
  const auto storeId = idFrom(store);
  const auto volumeId = idFrom(volume);
  if (!storeId || !volumeId) {
    std::fprintf(stderr, "an id has 32 hexadecimal digits\n");
    return 2;
  }
  std::filesystem::create_directories(folder);
  auto reactor = Reactor::create();
  if (!reactor.ok()) {
    std::fprintf(stderr, "%s\n", reactor.error().message.c_str());
    return 1;
  }
  PosixFileSystem files(**reactor);
  VolumeLog::Options options{.folder = folder, .tree = {.store = *storeId, .volume = *volumeId}};
  options.durability = LogDurability::kWritten;
  const Status status =
      (*reactor)->runUntilComplete(writeLog(**reactor, files, std::move(options), count));
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", status.error().message.c_str());
  return 1;
}

}  // namespace
}  // namespace hearth::bench

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "Usage: hearth_bench_volume_log FOLDER STORE VOLUME FILES\n");
    return 2;
  }
  return hearth::bench::run(argv[1], argv[2], argv[3], std::stoull(argv[4]));
}
