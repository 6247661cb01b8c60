// Asks the leader of one volume, wherever it is: here, or on another agent. On the volume's
// reactor.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "reactor/reactor.h"
#include "volume/change_message.h"
#include "volume/query_message.h"
#include "volume/request_note.h"
#include "volume/upkeep_message.h"

namespace hearth {

// Errors of all calls: ETIMEDOUT when no leader has answered by the volume's deadline, ENOENT when
// the volume was deleted, ESHUTDOWN when the engine closes.
class VolumeClient {
 public:
  virtual ~VolumeClient() = default;

  // Each change gets the next number of this client, and is executed once (R10): it is sent again,
  // to this leader or the next, until it is answered or the volume's deadline is over. Then the
  // reply's error is ETIMEDOUT, and the change may still be executed. With a note the leader keeps
  // the answer until the note goes.
  [[nodiscard]] virtual Task<ChangeReply> change(tree::ClientChange change,
                                                 std::shared_ptr<RequestNote> note = nullptr) = 0;
  // The answer that a change of an earlier start of this agent got. Nothing: it was not executed,
  // and never will be. EIO: the leader does not know any more.
  [[nodiscard]] virtual Task<std::optional<ChangeReply>> answerTo(AskedChange earlier) = 0;
  [[nodiscard]] virtual Task<QueryReply> query(VolumeQuery query) = 0;
  // The node's name of an agent that a chunk run or a session names; empty: not known (any more).
  [[nodiscard]] virtual Task<std::string> nodeOf(tree::AgentId agent) = 0;
  // This node's agent, as the holder of the chunks that it publishes; kNoAgent: it could not join
  // the volume by the deadline.
  [[nodiscard]] virtual Task<tree::AgentId> self() = 0;
  // Tells the leader about orphans and garbage, and asks for others. For a loop that asks every
  // second or so: with nothing to say it costs the leader next to nothing.
  [[nodiscard]] virtual Task<UpkeepReply> upkeep(Released released) = 0;
};

}  // namespace hearth
