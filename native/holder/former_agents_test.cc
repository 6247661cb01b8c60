#include "holder/former_agents.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <utility>
#include <vector>

#include "base/testing/eventually.h"
#include "holder/peer_process.h"
#include "holder/testing/other_process.h"

namespace hearth {
namespace {

// A process that lives until it is ended.
class Other {
 public:
  Other() : pid_(fork()) {
    if (pid_ == 0) {
      pause();
      _exit(0);
    }
  }
  ~Other() { end(); }
  Other(const Other&) = delete;
  Other& operator=(const Other&) = delete;
  [[nodiscard]] OwnedFd process() const {
    return OwnedFd(static_cast<int>(syscall(SYS_pidfd_open, pid_, 0)));
  }
  void end() { holder_testing::endChild(pid_); }

 private:
  pid_t pid_;
};

TEST(FormerAgents, HaveEndedWhenEachHas) {
  Other first, second, third;
  FormerAgents agents;
  EXPECT_TRUE(agents.allEnded()) << "there were none";
  agents.arrive(first.process(), false);
  EXPECT_TRUE(agents.allEnded()) << "but for the one that is there";
  agents.leave();
  EXPECT_FALSE(agents.allEnded());
  agents.arrive(second.process(), false);
  agents.leave();
  agents.arrive(third.process(), false);
  first.end();
  EXPECT_FALSE(agents.allEnded()) << "the second lives";
  second.end();
  EXPECT_TRUE(agents.allEnded());
}

TEST(FormerAgents, AreNotTheOneThatContinues) {
  Other agent;
  FormerAgents agents;
  agents.arrive(agent.process(), false);
  agents.leave();
  agents.arrive(agent.process(), true);
  EXPECT_TRUE(agents.allEnded());
  agents.leave();
  EXPECT_FALSE(agents.allEnded()) << "until it ends";
}

// Which is not always the one that left last.
TEST(FormerAgents, AreAllButTheOneThatContinues) {
  Other first, second;
  FormerAgents agents;
  agents.arrive(first.process(), false);
  agents.leave();
  agents.arrive(second.process(), false);
  agents.leave();
  agents.arrive(first.process(), true);
  EXPECT_FALSE(agents.allEnded()) << "the second lives";
  second.end();
  EXPECT_TRUE(agents.allEnded());
}

TEST(FormerAgents, AreCountedOnceEach) {
  Other agent;
  FormerAgents agents;
  for (std::size_t i = 0; i <= FormerAgents::kMax; ++i) {
    agents.arrive(agent.process(), false);
    agents.leave();
  }
  EXPECT_FALSE(agents.allEnded());
  agent.end();
  EXPECT_TRUE(agents.allEnded());
}

TEST(FormerAgents, OfWhomNothingIsKnownMayLive) {
  FormerAgents agents;
  agents.arrive(OwnedFd(), false);
  agents.leave();
  EXPECT_FALSE(agents.allEnded());
  agents.forget();
  EXPECT_TRUE(agents.allEnded()) << "what they knew is no more";
}

TEST(FormerAgents, AreBounded) {
  std::array<Other, FormerAgents::kMax + 1> others;
  FormerAgents agents;
  for (Other& other : others) {
    agents.arrive(other.process(), false);
    agents.leave();
  }
  for (Other& other : others) other.end();
  EXPECT_FALSE(agents.allEnded()) << "it is not known any more";
}

TEST(FormerAgents, AreInheritedFromTheHolderBefore) {
  Other agent;
  FormerAgents gone, living, attached;
  gone.inherit(true, false);
  EXPECT_TRUE(gone.allEnded());
  living.inherit(false, false);
  EXPECT_FALSE(living.allEnded());
  attached.inherit(true, true);
  EXPECT_FALSE(attached.allEnded()) << "its agent has not come yet";
  FormerAgents another;
  another.inherit(true, true);
  another.arrive(agent.process(), false);
  EXPECT_FALSE(another.allEnded()) << "this is another one";
  attached.arrive(agent.process(), true);
  EXPECT_TRUE(attached.allEnded());
}

}  // namespace
}  // namespace hearth
