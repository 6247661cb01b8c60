// libcurl's multi interface driven by a reactor: libcurl says which sockets it waits for and when
// it wants to be called, the reactor does the waiting (curl_multi_socket_action(3)). Private to
// this room. Reactor's thread only.
#pragma once

#include <curl/curl.h>

#include <cstddef>
#include <memory>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "reactor/reactor.h"
#include "reactor/synchronization.h"

namespace hearth {

class CurlMulti {
 public:
  // One transfer of an easy handle, which the caller owns and has configured. Lives until finish().
  struct Transfer {
    // `reactor` and `handle` must remain live while this object is used.
    Transfer(Reactor& reactor, CURL* handle) : easy(handle), ended(reactor) {}
    CURL* const easy;
    Event ended;  // set when libcurl is done with it; the owner may set it to wake itself up
    CURLcode result = CURLE_OK;
    bool added = false;
  };

  // At most `connections` open at once, idle ones included. `reactor` must remain live while the
  // result is used.
  [[nodiscard]] static Result<std::unique_ptr<CurlMulti>> create(Reactor& reactor,
                                                                 std::size_t connections);
  // After close().
  ~CurlMulti();
  CurlMulti(const CurlMulti&) = delete;
  CurlMulti& operator=(const CurlMulti&) = delete;

  // Begins. May be called from inside libcurl's callbacks (it is then put off until libcurl
  // returns).
  void start(Transfer& transfer);
  // Ends: takes the handle out, breaking the connection off when the transfer still runs. Never
  // from inside a callback.
  void finish(Transfer& transfer);
  // Goes on with a transfer whose write callback has paused it. Never from inside a callback.
  void resume(Transfer& transfer);
  // Closes the idle connections and waits until no poll is left. No transfer may run.
  [[nodiscard]] Task<void> close();

  // For CURLOPT_CLOSESOCKETFUNCTION, with this object as its data: a descriptor's number may be
  // used again at once, so its polls are given up before it is closed.
  static int closeSocket(void* multi, curl_socket_t fd);

 private:
  // One direction of a socket. A poll reports once, so a coroutine polls as long as libcurl wants
  // it.
  struct Direction {
    bool wanted = false;
    bool running = false;
    Operation* pending = nullptr;
  };
  struct Socket {
    curl_socket_t fd;
    Direction reading, writing;
  };

  explicit CurlMulti(Reactor& reactor) : reactor_(reactor), timer_(reactor), watchers_(reactor) {}

  static int socketChanged(CURL* easy, curl_socket_t fd, int what, void* self, void* socket);
  static int timeoutChanged(CURLM* multi, long milliseconds, void* self);
  static Task<void> watch(CurlMulti& multi, std::shared_ptr<Socket> socket, bool writing);

  void want(const std::shared_ptr<Socket>& socket, bool writing, bool wanted);
  void forget(curl_socket_t fd);
  void act(curl_socket_t fd, int events);
  template <class Call>
  void enterLibcurl(Call call);
  void add(Transfer& transfer);
  void collectEnded();

  Reactor& reactor_;
  CURLM* handle_ = nullptr;
  Reactor::Timer timer_;
  Gate watchers_;
  std::unordered_map<curl_socket_t, std::shared_ptr<Socket>> sockets_;
  std::vector<Transfer*> putOff_;  // started from inside a callback
  bool inside_ = false;            // libcurl is on the stack and must not be entered again
};

}  // namespace hearth
