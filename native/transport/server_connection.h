// The answering side of a connection: starts a handler for each request and sends what it answers,
// from the handler's memory. Holds the other side to its credit. On the reactor's thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "transport/connection.h"
#include "transport/handshake.h"

namespace hearth {

class ServerConnection final : public Connection {
 public:
  // `with` has proved the secret. `creditBytes`: see Credit in wire/frame.h.
  ServerConnection(Reactor& reactor, Gate& gate, Channel channel, Clock::duration probeInterval,
                   Agreed with, std::uint64_t creditBytes, PeerHandler& handler);

  // Tells the other side its credit. After start().
  void giveCredit();
  [[nodiscard]] const std::string& node() const { return with_.node; }
  [[nodiscard]] const std::string& incarnation() const { return with_.incarnation; }

 private:
  struct Serving {
    FrameType answer;
    std::uint64_t cost = 0;
    Interest interest{};
    bool cancelled = false;
  };

  Result<bool> onFrame(const Frame& frame) override;
  Task<Status> onPayload() override;
  void onEnd() override;
  void onReaderEnd() override {}
  void onSending(const SendQueue::Item& item) override;

  [[nodiscard]] Status admit(std::uint64_t requestId, FrameType answer, std::uint64_t cost,
                             Interest interest = Interest());
  void cancel(std::uint64_t requestId);
  using Self = std::shared_ptr<ServerConnection>;
  [[nodiscard]] Self self();
  static Task<void> serveRead(Self self, std::uint64_t requestId, ReadRequest request,
                              Interest interest);
  static Task<void> serveManifest(Self self, std::uint64_t requestId, ManifestRequest request);
  static Task<void> serveControl(Self self, std::uint64_t requestId, ControlRequest request);
  template <class Answer>
  void answerData(std::uint64_t requestId, Result<BytesAnswer> result, std::uint32_t shortest,
                  std::uint32_t longest);
  void queue(std::uint64_t requestId, std::vector<std::byte> frame, BytesAnswer data);

  Agreed with_;
  std::uint64_t creditBytes_;
  PeerHandler& handler_;
  std::map<std::uint64_t, Serving> serving_;  // by request id; until the answer begins to be sent
  std::uint64_t lastId_ = 0;
  std::uint64_t bytesOut_ = 0;
};

}  // namespace hearth
