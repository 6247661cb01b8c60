// A residency log as Hearth 0.1 wrote it (version 1), kept byte by byte: every later version reads
// it.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace hearth::testing_support {

// Claims of keyOf(1) to keyOf(4): 9000 bytes; 200000 bytes; kChunkBytes + 70000 bytes, chunk 1 and
// then 0; a drop of keyOf(1), a retraction of chunk 0 of keyOf(3), and 1 byte of keyOf(4). The
// block checksums are those of chunkData().
inline constexpr std::string_view kVersion1Log =
    "484541525448524c01000000f5fe279dd80fbde601000100015925339cdd59e3dec62603f08480506ef3c5bb"
    "a961465519eef9b895cc40b32823000000000000000000000000000010c7fb9cbf8a179b0100040002e7d395"
    "856457e84a03be4250eef05791c4b9e2251346ca4ea16480ba2ead09400d0300000000000000000000000000"
    "b538537d81d4a6fe365a37cfaef97538fb76bdd40100020003cc9ab2e3fea11c505026a2d7dd140ffca3478a"
    "38b6001d59eb8329ccb3f82a701141000000000001000000000000003b88b4755462aa0ab85b7e4201004000"
    "03cc9ab2e3fea11c505026a2d7dd140ffca3478a38b6001d59eb8329ccb3f82a701141000000000000000000"
    "00000000d7c40003d3ab62a332f79a54e3b615444bf92a41af899ff2d75ddedf2034dedfe0f7c5274597be39"
    "2a91349f5ba6208d97a8e6d608bb6f5b2bf0f7d95e6d64181f9a5f49acc75956d960454f9b4af7c6e63b7106"
    "e6e23ef30a127b00e204da3a54a3547e8373273f01d805c3545b95400189c0dd7814193fe516e48d5e116467"
    "6943dfcedd2783e8eed93de9852b0340e2bc9ef3e8334fc841de6ca444c266465342df385642dcba0f8a7c4e"
    "bd64f82f531e3d86aad1795a27bc0ab9b9ab48b5f618a3e5e7a70d6201ddbca3e24bcf63bf7227234ac0d2e4"
    "676f8e21332b181e6ae04a5b60c6ecb77268e153fbf885d0a05b51c5083efd33791ba23d91251d8ce2a81485"
    "02000000015925339cdd59e3dec62603f08480506ef3c5bba961465519eef9b895cc40b30000000000000000"
    "00000000000000000f7b78ee0300000003cc9ab2e3fea11c505026a2d7dd140ffca3478a38b6001d59eb8329"
    "ccb3f82a00000000000000000000000000000000e4cdba4f01000100046068e2f4d1c369386c9aafbd668929"
    "2565fd30ba046a06068b2e5aea7e8be9010000000000000000000000000000002aebe022";

// The bytes of hexadecimal digits.
inline std::vector<std::byte> bytesOfHex(std::string_view hex) {
  const auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes.push_back(static_cast<std::byte>(digit(hex[i]) * 16 + digit(hex[i + 1])));
  return bytes;
}

}  // namespace hearth::testing_support
