/* TLS for a context, by OpenSSL. Link libhiredis_ssl as well. */
#ifndef __HIREDIS_SSL_H
#define __HIREDIS_SSL_H

#include "hiredis.h"

#ifdef __cplusplus
extern "C" {
#endif

struct ssl_st; /* OpenSSL's SSL */

/* What many connections share: authorities, certificate, names. */
typedef struct redisSSLContext redisSSLContext;

typedef enum {
    REDIS_SSL_CTX_NONE = 0,
    REDIS_SSL_CTX_CREATE_FAILED,
    REDIS_SSL_CTX_CERT_KEY_REQUIRED,
    REDIS_SSL_CTX_CA_CERT_LOAD_FAILED,
    REDIS_SSL_CTX_CLIENT_CERT_LOAD_FAILED,
    REDIS_SSL_CTX_CLIENT_DEFAULT_CERT_FAILED,
    REDIS_SSL_CTX_PRIVATE_KEY_LOAD_FAILED,
    REDIS_SSL_CTX_OS_CERTSTORE_OPEN_FAILED,
    REDIS_SSL_CTX_OS_CERT_ADD_FAILED,
    REDIS_SSL_CTX_VERIFY_NAME_FAILED
} redisSSLContextError;

/* As OpenSSL's SSL_VERIFY_... */
#define REDIS_SSL_VERIFY_NONE 0x00
#define REDIS_SSL_VERIFY_PEER 0x01
#define REDIS_SSL_VERIFY_FAIL_IF_NO_PEER_CERT 0x02
#define REDIS_SSL_VERIFY_CLIENT_ONCE 0x04
#define REDIS_SSL_VERIFY_POST_HANDSHAKE 0x08

typedef struct {
    const char *cacert_filename; /* certificates of authorities; without it and capath, the system's */
    const char *capath;
    const char *cert_filename; /* of the client: both or none */
    const char *private_key_filename;
    const char *server_name; /* told to the server, and not compared with its certificate */
    int verify_mode;
    /* The name or the IP address that the server's certificate must have; NULL accepts every one of the
     * authorities. It needs REDIS_SSL_VERIFY_PEER. An empty one is refused. */
    const char *verify_name;
} redisSSLOptions;

const char *redisSSLContextGetError(redisSSLContextError error);
int redisInitOpenSSL(void);

/* NULL, and the reason where `error` is not NULL. */
redisSSLContext *redisCreateSSLContext(const char *cacert_filename, const char *capath,
                                       const char *cert_filename, const char *private_key_filename,
                                       const char *server_name, redisSSLContextError *error);
redisSSLContext *redisCreateSSLContextWithOptions(redisSSLOptions *options, redisSSLContextError *error);
void redisFreeSSLContext(redisSSLContext *context);

/* Shake hands on a connected context. The second takes the program's own SSL, which belongs to the context
 * then. */
int redisInitiateSSLWithContext(redisContext *c, redisSSLContext *context);
int redisInitiateSSL(redisContext *c, struct ssl_st *ssl);

#ifdef __cplusplus
}
#endif

#endif
