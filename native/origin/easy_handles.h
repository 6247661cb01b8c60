// libcurl's easy handles of one client, kept between requests for their TLS sessions and buffers.
// Private to this room. Reactor's thread only.
#pragma once

#include <curl/curl.h>

#include <memory>
#include <utility>
#include <vector>

namespace hearth {

struct CurlEasyDeleter {
  void operator()(CURL* easy) const { curl_easy_cleanup(easy); }
};
using CurlEasy = std::unique_ptr<CURL, CurlEasyDeleter>;

class EasyHandles {
 public:
  // With no option set. The caller owns it until it is given back.
  [[nodiscard]] CurlEasy take() {
    if (idle_.empty()) return CurlEasy(curl_easy_init());
    CurlEasy easy = std::move(idle_.back());
    idle_.pop_back();
    return easy;
  }
  // Of no transfer any more. Its options, which may point to what is gone, are dropped; connections
  // stay.
  void giveBack(CurlEasy easy) {
    curl_easy_reset(easy.get());
    idle_.push_back(std::move(easy));
  }
  void clear() { idle_.clear(); }

 private:
  std::vector<CurlEasy> idle_;
};

}  // namespace hearth
