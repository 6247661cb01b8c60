// A process is stopped after each instruction with which it fills, publishes, uses and frees a
// slot (ptrace(2)): had it been killed there, the next one would find the old state or the new one.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <vector>

#include "arena/testing/filled_arena.h"
#include "memory/aligned_mapping.h"

namespace hearth {
namespace {

using testing_arena::FilledArena;

constexpr std::size_t kSlotBytes = kBlockBytes + 1000;

[[noreturn]] void runStepped(const FilledArena& filled, const SlotContents& contents) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) ::_exit(77);
  ::raise(SIGSTOP);
  ArenaIndex& index = *filled.index;
  index.beginFill(0);
  index.publish(0, contents);
  index.noteBusy(0);
  index.noteIdle(0);
  index.free(0);
  ::_exit(0);
}

// Reads everything the next process would find, and changes nothing.
class Finder {
 public:
  explicit Finder(const FilledArena& filled) : filled_(filled) {
    file_ = std::move(*AlignedMapping::map(filled.index->file().get(), 0, 8192, true)).release();
  }
  ~Finder() { ::munmap(file_, 8192); }
  [[nodiscard]] const ArenaRecord& record() const {
    return *reinterpret_cast<const ArenaRecord*>(file_ + kArenaIndexHeaderBytes);
  }
  // Looks, and notes what has changed.
  void look(const SlotContents& wanted) {
    const SlotState state = assess(record());
    if (found.empty() || found.back() != state) found.push_back(state);
    const std::uint64_t generation = record().generation.load();
    EXPECT_GE(generation, generation_) << "a generation went back";
    generation_ = generation;
    if (state != SlotState::kValid) return;
    const SlotContents contents{{record().key}, record().chunk, record().bytes, record().crcs};
    EXPECT_EQ(contents, wanted);
    EXPECT_TRUE(filled_.index->verify(0, filled_.arena->bytes(0)));
  }

  std::vector<SlotState> found;

 private:
  const FilledArena& filled_;
  std::byte* file_ = nullptr;
  std::uint64_t generation_ = 0;
};

TEST(ArenaStep, EveryInstructionLeavesTheOldStateOrTheNew) {
  const FilledArena filled = FilledArena::create(1);
  const ContentKey key = FilledArena::keyOf(1);
  const auto bytes = filled.arena->bytes(0).first(kSlotBytes);
  FilledArena::write(bytes, key, 5);
  const SlotContents contents = FilledArena::contentsOf(bytes, key, 5);
  Finder finder(filled);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) runStepped(filled, contents);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
    GTEST_SKIP() << "a process may not be traced here (ptrace)";
  ASSERT_TRUE(WIFSTOPPED(status));
  std::size_t steps = 0;
  while (WIFSTOPPED(status) && !testing::Test::HasFailure()) {
    finder.look(contents);
    ASSERT_EQ(::ptrace(PTRACE_SINGLESTEP, child, nullptr, nullptr), 0);
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ++steps;
  }
  if (WIFSTOPPED(status)) {
    ::kill(child, SIGKILL);
    ::waitpid(child, &status, 0);
  }
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_GT(steps, 300u) << "they were one by one";
  using enum SlotState;
  EXPECT_EQ(finder.found,
            (std::vector<SlotState>{kFree, kQuarantined, kValid, kQuarantined, kValid, kFree}));
  RecordProperty("steps", static_cast<int>(steps));
}

}  // namespace
}  // namespace hearth
