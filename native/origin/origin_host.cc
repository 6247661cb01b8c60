#include "origin/origin_host.h"

#include <algorithm>
#include <chrono>

namespace hearth {
namespace {

constexpr std::size_t kFirstByteSamples = 64;
constexpr std::size_t kRateSamples = 32;
// Fewer say nothing.
constexpr std::size_t kMinSamples = 8;
constexpr double kHighQuantile = 0.95;
constexpr double kFirstByteFactor = 3;
// A straggler has this part of the median rate. Transfers share the link, so theirs is a fraction
// of what one alone has: from one connection to sixteen rates fall by far more than noise does, and
// by then the median has followed.
constexpr double kSlowPart = 1.0 / 8;
// The rate of a shorter transfer is that of buffers on the way.
constexpr std::uint64_t kMinRateBytes = std::uint64_t{256} << 10;
// Until a connection is as fast as it gets: TCP, TLS, the request, and two of slow start.
constexpr double kRoundTrips = 5;
// How long a host that asked for fewer requests is asked for nothing twice.
constexpr auto kThrottledFor = std::chrono::seconds(10);

double secondsOf(Clock::duration time) { return std::chrono::duration<double>(time).count(); }

}  // namespace

OriginHost::OriginHost(Reactor& reactor, const OriginOptions& options)
    : options_(options.hedging),
      climb_(options.connections),
      permits_(reactor, climb_.parallelism()),
      firstBytes_(kFirstByteSamples),
      rates_(kRateSamples),
      budget_(options.hedging.budgetBytes) {}

void OriginHost::release(const std::string& owner, Clock::time_point now) {
  permits_.release(owner);
  climb_.saturated(permits_.full(), now);
}

void OriginHost::came(std::uint64_t bytes, Clock::time_point now) {
  climb_.came(bytes, now);
  if (climb_.parallelism() != permits_.permits()) permits_.resize(climb_.parallelism());
}

void OriginHost::firstByte(Clock::duration time) {
  firstBytes_.add(secondsOf(time));
  // New connections take round trips until they are as fast as the others.
  const std::chrono::duration<double> roundTrips(kRoundTrips * firstBytes_.quantile(0.5));
  climb_.setWindow(std::chrono::duration_cast<Clock::duration>(roundTrips));
}

void OriginHost::transferred(std::uint64_t bytes, Clock::duration time) {
  budget_.earn(bytes);
  if (bytes < kMinRateBytes) return;
  rates_.add(static_cast<double>(bytes) / std::max(secondsOf(time), 1e-6));
}

void OriginHost::throttled(Clock::time_point began, Clock::time_point now) {
  throttledUntil_ = now + kThrottledFor;
  reset(began, now);
}

void OriginHost::reset(Clock::time_point began, Clock::time_point now) {
  climb_.throttled(began, now);
  permits_.resize(climb_.parallelism());
}

Clock::duration OriginHost::firstByteBound() const {
  if (firstBytes_.count() < kMinSamples) {
    return std::max(options_.firstByteUnknown, options_.firstByteFloor);
  }
  const std::chrono::duration<double> bound(kFirstByteFactor * firstBytes_.quantile(kHighQuantile));
  return std::max(options_.firstByteFloor, std::chrono::duration_cast<Clock::duration>(bound));
}

std::optional<double> OriginHost::stragglerRate() const {
  if (rates_.count() < kMinSamples) return std::nullopt;
  return rates_.quantile(0.5) * kSlowPart;
}

bool OriginHost::tryHedge(std::uint64_t bytes, Clock::time_point now) {
  return now >= throttledUntil_ && budget_.trySpend(bytes);
}

}  // namespace hearth
