// Every order of the steps of two agents that write one file, one of which is started again (as in
// model "session" of the design): the bytes are always those of the agent that had the session.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "namespace/testing/led_namespace.h"

namespace hearth::tree {
namespace {

// An agent with its steps; after an error it stops.
struct Writer {
  ClientId client;
  bool adopts = false;
  bool takes = false;  // the lease of a holder has lapsed
  std::size_t step = 0;
  bool over = false;
  Answer granted;
  std::vector<Request> sent;
};

struct Race {
  LedNamespace volume;
  InodeId file = kNoInode;
  std::vector<Writer> writers;
  // As the answers say: the client that has the session, and the last publish.
  ClientId holder;
  ContentVersion published;

  Race() {
    const ClientId first = volume.join("a");
    file = volume.ask(first, Create{.place = inRoot("f")}).inode;
    writers = {{.client = first}, {.client = volume.join("b"), .takes = true}};
    writers.push_back({.client = {first.agent, {2}}, .adopts = true});
  }

  void step(Writer& writer) {
    const std::size_t number = writer.step++;
    if (writer.over) return;
    if (number == 0) return open(writer);
    publish(writer, static_cast<std::uint32_t>(number));
  }
  void open(Writer& writer) {
    OpenForWriting change{.inode = file};
    const Session* const held = volume.tree.session(file);
    if (writer.takes && held != nullptr) change.lapsed = held->id;
    if (writer.adopts) {
      ASSERT_EQ(volume.join("a", 2), writer.client);
      change.adopts = {writers[0].granted.session, writers[0].granted.content};
    }
    const Answer answer = send(writer, change);
    writer.over = answer.error != 0;
    if (writer.over) return;
    writer.granted = answer;
    holder = writer.client;
    ASSERT_EQ(answer.content, published);
  }
  // Two publishes; the second ends the session.
  void publish(Writer& writer, std::uint32_t counter) {
    Publish change = LedNamespace::publishOf(writer.client, writer.granted, 1, counter == 2);
    change.content.version.counter = counter;
    change.content.runs[0].first = counter - 1;
    change.usedChunks = counter;
    const Answer answer = send(writer, change);
    ASSERT_EQ(answer.error == 0, holder == writer.client) << counter;
    writer.over = answer.error != 0;
    if (writer.over) return;
    published = writer.granted.content = change.content.version;
    if (counter == 2) holder = {};
  }
  Answer send(Writer& writer, ClientChange change) {
    writer.sent.push_back(volume.request(writer.client, std::move(change)));
    return volume.execute(writer.sent.back());
  }
  // All requests arrive once more, in any order: nothing changes.
  void repeatAll() {
    Bytes before, after;
    volume.tree.checkpoint(before);
    for (const Writer& writer : writers) {
      for (const Request& request : writer.sent) {
        const auto again = volume.tree.execute(request);
        ASSERT_TRUE(again.repeated || again.answer.refusal == Refusal::kSuperseded);
      }
    }
    volume.tree.checkpoint(after);
    ASSERT_EQ(before, after);
  }
};

TEST(SessionOrders, BytesAreThoseOfTheHolder) {
  std::vector<std::size_t> order{0, 0, 0, 1, 1, 1, 2, 2, 2};
  std::size_t orders = 0;
  do {
    Race run;
    for (const std::size_t writer : order) {
      run.step(run.writers[writer]);
      const Content* const content = run.volume.tree.content(run.file);
      ASSERT_EQ(content == nullptr ? ContentVersion{} : content->version, run.published);
      if (HasFatalFailure()) return;
    }
    run.repeatAll();
    if (HasFatalFailure()) return;
    ++orders;
  } while (std::ranges::next_permutation(order).found);
  EXPECT_EQ(orders, 1680u);
}

}  // namespace
}  // namespace hearth::tree
