#include "bench/hit_ratio/model_trace.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <random>

namespace hearth::hit_ratio {
namespace {

constexpr double kGigabyte = 1e9;
constexpr std::uint32_t kRanks = 64;   // of Zipf's law
constexpr double kShelfHalfLives = 4;  // a model older than that is loaded no more
constexpr double kRolloutBoost = 25;
constexpr std::size_t kStreams = 4;

class SeededRandom {
 public:
  explicit SeededRandom(std::uint64_t seed) : engine_(seed) {}
  // [0, 1)
  double unit() { return static_cast<double>(engine_() >> 11) * 0x1p-53; }
  double between(double low, double high) { return low + (high - low) * unit(); }
  double logBetween(double low, double high) { return low * std::pow(high / low, unit()); }
  std::uint32_t below(std::uint32_t count) {
    return static_cast<std::uint32_t>(unit() * static_cast<double>(count));
  }
  // Of mean `mean`.
  double exponential(double mean) { return -mean * std::log(1 - unit()); }

 private:
  std::mt19937_64 engine_;
};

class TraceGenerator {
 public:
  TraceGenerator(std::uint64_t seed, std::uint32_t loads)
      : random_(seed),
        loads_(loads),
        skew_(random_.between(0.7, 1.2)),
        birthEvery_(random_.logBetween(8, 50)),
        shelfSize_(random_.between(100, 250)),
        halfLife_(birthEvery_ * shelfSize_ / kShelfHalfLives),
        rolloutEvery_(random_.logBetween(15, 120)),
        scanEvery_(random_.logBetween(30, 120)) {}

  ModelTrace make();

 private:
  struct Model {
    std::vector<FileId> files;
    double bytes = 0;
    double weight;  // at birth
    double born;    // in loads
    double rolledOutUntil = -1;
  };
  struct Stream {
    std::vector<FileId> files;
    std::size_t next = 0;
    double busyUntil = 0;  // in bytes read by it
  };

  FileId addFile(double bytes, std::uint32_t model);
  void addModel(double born);
  [[nodiscard]] double lastingWeight(const Model& model, double now) const;
  // Changes between loads: births, deaths, roll-outs; then the weights from now on.
  void advance(double now);
  [[nodiscard]] std::uint32_t drawModel();
  [[nodiscard]] std::vector<FileId> scan();
  void start(std::vector<FileId> files);
  void readOne();

  SeededRandom random_;
  const std::uint32_t loads_;
  const double skew_, birthEvery_, shelfSize_, halfLife_, rolloutEvery_, scanEvery_;
  ModelTrace trace_;
  std::vector<Model> models_;
  std::size_t oldest_ = 0;  // those before are loaded no more
  double nextBirth_ = 0;
  double shelfSum_ = 0;
  std::vector<float> weights_;
  double weightSum_ = 0;
  std::array<Stream, kStreams> streams_;
};

FileId TraceGenerator::addFile(double bytes, std::uint32_t model) {
  trace_.files.push_back({static_cast<std::uint64_t>(bytes), model});
  return static_cast<FileId>(trace_.files.size() - 1);
}

void TraceGenerator::addModel(double born) {
  Model model;
  model.born = born;
  model.weight = std::pow(1 + random_.below(kRanks), -skew_);
  const auto number = static_cast<std::uint32_t>(models_.size());
  const auto small = [&](std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i)
      model.files.push_back(addFile(random_.logBetween(1e3, 2e7), number));
  };
  small(2 + random_.below(3));  // config.json, generation_config.json
  const double shard = random_.logBetween(1, 10) * kGigabyte;
  for (double left = random_.logBetween(1, 100) * kGigabyte; left > 0; left -= shard)
    model.files.push_back(addFile(std::min(left, shard), number));
  small(3 + random_.below(6));  // tokenizer.json, vocab.json
  for (const FileId file : model.files)
    model.bytes += static_cast<double>(trace_.files[file].bytes);
  models_.push_back(std::move(model));
}

double TraceGenerator::lastingWeight(const Model& model, double now) const {
  return model.weight * std::exp2(-(now - model.born) / halfLife_);
}

void TraceGenerator::advance(double now) {
  for (; nextBirth_ <= now; nextBirth_ += random_.exponential(birthEvery_)) {
    addModel(nextBirth_);
    // A new model is rolled out.
    models_.back().rolledOutUntil = nextBirth_ + random_.exponential(10);
  }
  while (models_[oldest_].born + kShelfHalfLives * halfLife_ < now) ++oldest_;
  const auto live = static_cast<std::uint32_t>(models_.size() - oldest_);
  if (random_.unit() < 1 / rolloutEvery_)
    models_[oldest_ + random_.below(live)].rolledOutUntil = now + random_.exponential(20);
  weights_.assign(models_.size(), 0);
  ModelTrace::Popularity& known = trace_.popularity.emplace_back();
  known = {trace_.reads.size(), weights_, weights_};
  weightSum_ = 0;
  for (std::size_t i = oldest_; i < models_.size(); ++i) {
    const double lasting = lastingWeight(models_[i], now);
    const double boost = now < models_[i].rolledOutUntil ? kRolloutBoost : 1;
    known.lasting[i] = static_cast<float>(lasting);
    known.weights[i] = weights_[i] = static_cast<float>(boost * lasting);
    weightSum_ += weights_[i];
    shelfSum_ += models_[i].bytes;
  }
}

std::uint32_t TraceGenerator::drawModel() {
  double rest = random_.unit() * weightSum_;
  for (std::size_t i = oldest_; i < models_.size(); ++i) {
    rest -= weights_[i];
    if (rest < 0) return static_cast<std::uint32_t>(i);
  }
  return static_cast<std::uint32_t>(models_.size() - 1);
}

std::vector<FileId> TraceGenerator::scan() {
  std::vector<FileId> files;
  if (random_.unit() < 0.5) {
    const std::uint32_t count = 50 + random_.below(350);
    for (std::uint32_t i = 0; i < count; ++i)
      files.push_back(addFile(random_.logBetween(0.1, 2) * kGigabyte, kNoModel));
    return files;
  }
  const double share = random_.between(0.05, 0.3);
  for (std::size_t i = oldest_; i < models_.size(); ++i)
    if (random_.unit() < share)
      files.insert(files.end(), models_[i].files.begin(), models_[i].files.end());
  return files;
}

void TraceGenerator::readOne() {
  Stream* least = nullptr;
  for (Stream& stream : streams_)
    if (stream.next < stream.files.size() &&
        (least == nullptr || stream.busyUntil < least->busyUntil))
      least = &stream;
  const FileId file = least->files[least->next++];
  least->busyUntil += static_cast<double>(trace_.files[file].bytes);
  trace_.reads.push_back(file);
}

void TraceGenerator::start(std::vector<FileId> files) {
  if (files.empty()) return;
  for (;;) {
    double latest = 0;
    for (const Stream& stream : streams_) latest = std::max(latest, stream.busyUntil);
    for (Stream& stream : streams_) {
      if (stream.next < stream.files.size()) continue;
      stream = {.files = std::move(files), .next = 0, .busyUntil = latest};
      return;
    }
    readOne();
  }
}

ModelTrace TraceGenerator::make() {
  // The shelf as it is after a long time.
  for (double born = -kShelfHalfLives * halfLife_; born < 0;
       born += random_.exponential(birthEvery_))
    addModel(born);
  for (std::uint32_t load = 0; load < loads_; ++load) {
    advance(load);
    if (random_.unit() < 1 / scanEvery_) start(scan());
    start(models_[drawModel()].files);
  }
  const auto busy = [](const Stream& stream) { return stream.next < stream.files.size(); };
  while (std::any_of(streams_.begin(), streams_.end(), busy)) readOne();
  trace_.shelfBytes = static_cast<std::uint64_t>(shelfSum_ / loads_);
  return std::move(trace_);
}

}  // namespace

ModelTrace makeModelTrace(std::uint64_t seed, std::uint32_t loads) {
  return TraceGenerator(seed, loads).make();
}

}  // namespace hearth::hit_ratio
