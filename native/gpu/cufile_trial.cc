#include "gpu/cufile_trial.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "base/clock.h"
#include "base/owned_fd.h"

extern char** environ;

namespace hearth {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kMaxOutput = 64UL << 10;
constexpr milliseconds kBurial{500};

struct SpawnTerms {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  explicit SpawnTerms(int output) {
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, output, 1);
    posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    posix_spawnattr_setpgroup(&attributes, 0);
  }
  ~SpawnTerms() {
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
  }
  SpawnTerms(const SpawnTerms&) = delete;
  SpawnTerms& operator=(const SpawnTerms&) = delete;
};

// Collects the output of the process until it closes its output; false at the deadline.
bool collect(int output, Clock::time_point end, std::string& text) {
  for (;;) {
    const auto left = std::chrono::duration_cast<milliseconds>(end - Clock::now()).count();
    pollfd wait{output, POLLIN, 0};
    if (left <= 0) return false;
    if (poll(&wait, 1, static_cast<int>(left)) <= 0) continue;
    char part[4096];
    const ssize_t got = read(output, part, sizeof part);
    if (got == 0) return true;
    if (got > 0 && text.size() < kMaxOutput) text.append(part, static_cast<std::size_t>(got));
    if (got < 0 && errno != EINTR) return true;
  }
}

// -1: the process does not even end when it is killed (uninterruptible sleep).
int statusOf(pid_t process, Clock::time_point end) {
  for (;;) {
    int status = 0;
    const pid_t got = waitpid(process, &status, WNOHANG);
    if (got == process) return status;
    if ((got < 0 && errno != EINTR) || Clock::now() >= end) return -1;
    std::this_thread::sleep_for(milliseconds(2));
  }
}

std::string lastLine(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  const std::size_t start = text.rfind('\n');
  return start == std::string::npos ? text : text.substr(start + 1);
}

}  // namespace

Status runTrial(const std::vector<std::string>& command, milliseconds deadline) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return errnoError(errno, "make a pipe");
  const OwnedFd output(ends[0]);
  OwnedFd theirs(ends[1]);
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  pid_t process = -1;
  const SpawnTerms terms(theirs.get());
  const int failure =
      posix_spawn(&process, words[0], &terms.actions, &terms.attributes, words.data(), environ);
  if (failure != 0) return errnoError(failure, "run " + command.front());
  theirs.reset();

  const auto end = Clock::now() + deadline;
  std::string text;
  const bool closed = collect(output.get(), end, text);
  int status = closed ? statusOf(process, end) : -1;
  const bool ended = status != -1;
  if (!ended) {
    kill(-process, SIGKILL);
    status = statusOf(process, Clock::now() + kBurial);
  }
  const std::string line = lastLine(std::move(text));
  const std::string after = line.empty() ? "" : " after: " + line;
  if (!ended) {
    return Error{ErrorCode::kDeadlineExceeded,
                 "no answer within " + std::to_string(deadline.count()) + " ms" + after};
  }
  if (WIFSIGNALED(status)) {
    const char* name = sigabbrev_np(WTERMSIG(status));
    return Error{ErrorCode::kUnavailable,
                 "crashed with SIG" + std::string(name == nullptr ? "?" : name) + after};
  }
  if (WEXITSTATUS(status) == 0) return {};
  return Error{ErrorCode::kUnsupported,
               line.empty() ? "exit status " + std::to_string(WEXITSTATUS(status)) : line};
}

Result<std::string> findTrialProgram() {
  if (const char* given = std::getenv("HEARTH_LOAD"); given != nullptr) return std::string(given);
  Dl_info info{};
  char real[PATH_MAX];
  std::string here;
  if (dladdr(reinterpret_cast<void*>(&findTrialProgram), &info) != 0 && info.dli_fname != nullptr &&
      realpath(info.dli_fname, real) != nullptr) {
    here = real;
  } else if (const ssize_t size = readlink("/proc/self/exe", real, sizeof real); size > 0) {
    here.assign(real, static_cast<std::size_t>(size));
  }
  const std::string program = here.substr(0, here.rfind('/') + 1) + "hearth-load";
  if (access(program.c_str(), X_OK) == 0) return program;
  return Error{ErrorCode::kNotFound, "the direct path is not tried, as " + program +
                                         " is not there; put it there or set HEARTH_LOAD"};
}

}  // namespace hearth
