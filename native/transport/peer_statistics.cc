#include <algorithm>

#include "transport/peer_transport.h"

namespace hearth {

void RailStatistics::add(const RailStatistics& other) {
  usable = usable || other.usable;
  if (!other.error.empty()) error = other.error;
  requests += other.requests;
  bytesReceived += other.bytesReceived;
  answers += other.answers;
  bytesSent += other.bytesSent;
  bytesInPlace += other.bytesInPlace;
  bytesCopied += other.bytesCopied;
  retries += other.retries;
  pauses += other.pauses;
  failures += other.failures;
  idleCloses += other.idleCloses;
  // Each shard has measured its own part of the port.
  bytesPerSecond += other.bytesPerSecond;
  latency.add(other.latency);
}

void PeerStatistics::add(const PeerStatistics& other) {
  node = other.node;
  connected = connected || other.connected;
  streams += other.streams;
  bytesReceived += other.bytesReceived;
  bytesSent += other.bytesSent;
  requests += other.requests;
  hedged += other.hedged;
  paused += other.paused;
  if (!other.error.empty()) error = other.error;
  wireVersion = std::max(wireVersion, other.wireVersion);
  featuresOff |= other.featuresOff;
  rdmaRequests += other.rdmaRequests;
  rdmaBytesReceived += other.rdmaBytesReceived;
  rdmaBytesSent += other.rdmaBytesSent;
  rdmaFailures += other.rdmaFailures;
  if (rdmaError.empty()) rdmaError = other.rdmaError;
  for (const RailStatistics& rail : other.rdmaRails) {
    const auto known = std::ranges::find(rdmaRails, rail.port, &RailStatistics::port);
    if (known == rdmaRails.end()) {
      rdmaRails.push_back(rail);
    } else {
      known->add(rail);
    }
  }
  describeRdma();
}

void PeerStatistics::describeRdma() {
  rdma.clear();
  std::string reason;
  for (const RailStatistics& rail : rdmaRails) {
    if (rail.usable) rdma += (rdma.empty() ? "" : ", ") + rail.port;
    if (reason.empty()) reason = rail.error;
  }
  if (!rdma.empty() || !reason.empty()) rdmaError = rdma.empty() ? reason : "";
}

}  // namespace hearth
