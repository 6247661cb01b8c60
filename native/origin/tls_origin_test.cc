#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <memory>

#include "origin/origin_fixture.h"
#include "origin/scripted_server.h"

namespace hearth {
namespace {

const std::string kObject = patternedObject(3'000'000);

using Key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;
using Certificate = std::unique_ptr<X509, decltype(&X509_free)>;
using TlsContext = std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)>;

Certificate makeCertificate(EVP_PKEY* key, const char* name, const char* alternative, X509* issuer,
                            EVP_PKEY* issuerKey) {
  Certificate certificate(X509_new(), X509_free);
  X509* const made = certificate.get();
  X509_set_version(made, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(made), issuer == nullptr ? 1 : 2);
  X509_gmtime_adj(X509_getm_notBefore(made), -3600);
  X509_gmtime_adj(X509_getm_notAfter(made), 3600);
  X509_set_pubkey(made, key);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(made), "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(name), -1, -1, 0);
  X509_set_issuer_name(made, X509_get_subject_name(issuer == nullptr ? made : issuer));
  const auto extend = [made](int what, const char* value) {
    X509_EXTENSION* const extension = X509V3_EXT_conf_nid(nullptr, nullptr, what, value);
    X509_add_ext(made, extension, -1);
    X509_EXTENSION_free(extension);
  };
  extend(NID_basic_constraints, issuer == nullptr ? "critical,CA:TRUE" : "CA:FALSE");
  if (alternative != nullptr) extend(NID_subject_alt_name, alternative);
  X509_sign(made, issuerKey, EVP_sha256());
  return certificate;
}

// An authority made for this test and a server certificate that it signed.
class TlsOriginTest : public OriginFixture {
 protected:
  void SetUp() override {
    OriginFixture::SetUp();
    authorityFile =
        std::filesystem::temp_directory_path() / ("origin-ca-" + std::to_string(getpid()) + ".pem");
    authority =
        makeCertificate(authorityKey.get(), "Test CA", nullptr, nullptr, authorityKey.get());
    FILE* const file = std::fopen(authorityFile.c_str(), "w");
    PEM_write_X509(file, authority.get());
    std::fclose(file);
  }
  void TearDown() override {
    OriginFixture::TearDown();
    std::remove(authorityFile.c_str());
  }
  TlsContext serverContext(const char* alternative) {
    const Certificate certificate = makeCertificate(serverKey.get(), "server", alternative,
                                                    authority.get(), authorityKey.get());
    TlsContext context(SSL_CTX_new(TLS_server_method()), SSL_CTX_free);
    SSL_CTX_use_certificate(context.get(), certificate.get());
    SSL_CTX_use_PrivateKey(context.get(), serverKey.get());
    return context;
  }
  static bool serve(const ScriptedRequest& request, ScriptedConnection& to) {
    return serveObject(kObject, request, to);
  }

  std::string authorityFile;
  Key authorityKey{EVP_EC_gen("P-256"), EVP_PKEY_free};
  Key serverKey{EVP_EC_gen("P-256"), EVP_PKEY_free};
  Certificate authority{nullptr, X509_free};
};

INSTANTIATE_TEST_SUITE_P(Backends, TlsOriginTest,
                         testing::Values(Reactor::Backend::kIoUring, Reactor::Backend::kEpoll),
                         &OriginFixture::backendName);

TEST_P(TlsOriginTest, ReadsFromAServerWhoseAuthorityIsGiven) {
  options.certificateAuthorities = authorityFile;
  const TlsContext context = serverContext("IP:127.0.0.1");
  ScriptedServer server(serve, context.get());
  for (int i = 0; i < 3; ++i) {
    const auto result = fetch(at(server.url()), {kObject.size(), ""}, 1'000'000, {1'500'000});
    ASSERT_TRUE(result.status.ok()) << result.status.error().message;
    EXPECT_TRUE(result.bytes == kObject.substr(1'000'000, 1'500'000));
  }
  EXPECT_EQ(server.connections(), 1);
}

TEST_P(TlsOriginTest, RefusesAnAuthorityThatIsNotTrusted) {
  const TlsContext context = serverContext("IP:127.0.0.1");
  ScriptedServer server(serve, context.get());
  const auto result = fetch(at(server.url("/x?secret")), {}, 0, {10});
  EXPECT_EQ(result.status.code(), ErrorCode::kUnauthenticated);
  EXPECT_NE(result.status.error().message.find("set certificateAuthorities"), std::string::npos);
  EXPECT_EQ(result.status.error().message.find("secret"), std::string::npos);
  EXPECT_EQ(server.connections(), 1);
  EXPECT_TRUE(server.requests().empty());
}

TEST_P(TlsOriginTest, RefusesACertificateOfAnotherHost) {
  options.certificateAuthorities = authorityFile;
  const TlsContext context = serverContext("DNS:elsewhere.example");
  ScriptedServer server(serve, context.get());
  EXPECT_EQ(fetch(at(server.url()), {}, 0, {10}).status.code(), ErrorCode::kUnauthenticated);
  EXPECT_TRUE(server.requests().empty());
}

TEST_P(TlsOriginTest, RefusesARedirectFromHttpsToHttp) {
  options.certificateAuthorities = authorityFile;
  const TlsContext context = serverContext("IP:127.0.0.1");
  ScriptedServer plain(serve);
  ScriptedServer server(
      [&plain](const auto&, auto& to) {
        return answer(to, "302 Found", "Location: " + plain.url() + "\r\n");
      },
      context.get());
  EXPECT_EQ(fetch(at(server.url()), {}, 0, {10}).status.code(), ErrorCode::kProtocolError);
  EXPECT_TRUE(plain.requests().empty());
}

TEST_P(TlsOriginTest, RetriesWhenThePeerDoesNotSpeakTls) {
  options.connectTimeout = std::chrono::seconds(2);
  options.attempts = 2;
  ScriptedServer plain(serve);
  std::string url = plain.url();
  url.replace(0, 4, "https");
  EXPECT_EQ(fetch(at(url), {}, 0, {10}).status.code(), ErrorCode::kUnavailable);
}

TEST_P(TlsOriginTest, NamesAFileOfAuthoritiesThatCannotBeRead) {
  options.certificateAuthorities = "/nonexistent/ca.pem";
  const auto created = OriginClient::create(reactor(), options);
  ASSERT_FALSE(created.ok());
  EXPECT_EQ(created.code(), ErrorCode::kInvalidArgument);
  EXPECT_NE(created.error().message.find("/nonexistent/ca.pem"), std::string::npos);
}

}  // namespace
}  // namespace hearth
