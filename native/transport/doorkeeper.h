// Bounds the connections that have not yet proved who they are: in all, and of one source, so that
// one host cannot keep the others out. When there is no place the oldest connection makes one: who
// is honest says at once what it has to say. On one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

namespace hearth {

class Doorkeeper {
 public:
  Doorkeeper(std::size_t places, std::size_t placesPerSource)
      : places_(places), placesPerSource_(placesPerSource) {}

  // One place among the strangers, given back when it goes: before the doorkeeper, and before what
  // `end` uses.
  class Place {
   public:
    ~Place() { keeper_.leave(*this); }
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;
    // From now on it is not taken away.
    void keep() { end_ = nullptr; }
    [[nodiscard]] bool takenAway() const { return !counted_; }

   private:
    friend Doorkeeper;
    Place(Doorkeeper& keeper, std::string source, std::uint64_t number, std::function<void()> end)
        : keeper_(keeper), source_(std::move(source)), number_(number), end_(std::move(end)) {}

    Doorkeeper& keeper_;
    std::string source_;
    std::uint64_t number_;
    std::function<void()> end_;
    bool counted_ = true;
  };

  // `end` ends the connection: it is called, at most once, when its place is needed for a newer
  // one, and must not enter. The place taken away is that of the oldest connection of the same
  // source when it has too many, else the oldest of the source that has most. Null when none of
  // these may be taken away.
  [[nodiscard]] std::shared_ptr<Place> enter(const std::string& source, std::function<void()> end);
  [[nodiscard]] std::size_t taken() const { return taken_; }

 private:
  using Places = std::map<std::uint64_t, Place*>;  // of one source, oldest first

  bool takeAway(Places& places);
  void leave(Place& place);

  std::size_t places_, placesPerSource_;
  std::size_t taken_ = 0;
  std::uint64_t lastNumber_ = 0;
  std::map<std::string, Places> bySource_;  // none is empty
};

}  // namespace hearth
