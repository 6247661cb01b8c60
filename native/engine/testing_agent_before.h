// A previous agent, in a process of its own. For tests.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <utility>

#include "base/owned_fd.h"

namespace hearth::testing_cluster {

// The previous agent, which lives until it is killed. Forks before this process has threads, and
// waits for run().
class AgentBefore {
 public:
  // Calls `live` where it is to be killed, at the latest when it returns.
  using Body = std::function<void(const std::function<void()>& live)>;

  explicit AgentBefore(const Body& body) {
    int go[2], done[2];
    EXPECT_EQ(::pipe2(go, O_CLOEXEC), 0);
    EXPECT_EQ(::pipe2(done, O_CLOEXEC), 0);
    child_ = ::fork();
    if (child_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::close(go[1]);
      char byte = 0;
      if (::read(go[0], &byte, 1) != 1) ::_exit(0);
      const auto live = [&] {
        const char code = ::testing::Test::HasFailure() ? 'f' : 'k';
        (void)!::write(done[1], &code, 1);
        for (;;) ::pause();
      };
      body(live);
      live();
    }
    go_.reset(go[1]);
    done_.reset(done[0]);
    ::close(go[0]);
    ::close(done[1]);
  }
  ~AgentBefore() { kill(); }
  AgentBefore(const AgentBefore&) = delete;
  AgentBefore& operator=(const AgentBefore&) = delete;

  void run() {
    char code = 0;
    EXPECT_EQ(::write(go_.get(), "g", 1), 1);
    EXPECT_EQ(::read(done_.get(), &code, 1), 1);
    EXPECT_EQ(code, 'k') << "the agent before has failed";
  }
  void kill() {
    if (child_ == 0) return;
    ::kill(child_, SIGKILL);
    ::waitpid(std::exchange(child_, 0), nullptr, 0);
  }

 private:
  pid_t child_ = 0;
  OwnedFd go_, done_;
};

}  // namespace hearth::testing_cluster
