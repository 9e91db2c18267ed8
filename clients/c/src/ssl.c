/* TLS under a context, by OpenSSL 1.1.0 or later. */
#include "config.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>

#include "async_internal.h"
#include "hiredis/hiredis_ssl.h"
#include "hiredis/net.h"

struct redisSSLContext {
    SSL_CTX *shared;
    char *server_name;
};

/* privctx of a context. */
struct session {
    SSL *ssl;
    size_t again;    /* length of a write that OpenSSL wants to be tried again, 0 for none */
    int write_waits; /* for bytes from the server */
    int read_waits;  /* for room to send */
};

/* ---- What connections share ---- */

int redisInitOpenSSL(void) { return REDIS_OK; }

const char *redisSSLContextGetError(redisSSLContextError error) {
    switch (error) {
    case REDIS_SSL_CTX_NONE: return "No Error";
    case REDIS_SSL_CTX_CREATE_FAILED: return "Failed to create OpenSSL SSL_CTX";
    case REDIS_SSL_CTX_CERT_KEY_REQUIRED: return "Client cert and key must both be specified or skipped";
    case REDIS_SSL_CTX_CA_CERT_LOAD_FAILED: return "Failed to load CA Certificate or CA Path";
    case REDIS_SSL_CTX_CLIENT_CERT_LOAD_FAILED: return "Failed to load client certificate";
    case REDIS_SSL_CTX_CLIENT_DEFAULT_CERT_FAILED:
        return "Failed to set client default certificate directory";
    case REDIS_SSL_CTX_PRIVATE_KEY_LOAD_FAILED: return "Failed to load private key";
    case REDIS_SSL_CTX_OS_CERTSTORE_OPEN_FAILED: return "Failed to open system certificate store";
    case REDIS_SSL_CTX_OS_CERT_ADD_FAILED:
        return "Failed to add CA certificates obtained from system to the SSL context";
    case REDIS_SSL_CTX_VERIFY_NAME_FAILED:
        return "Failed to set the expected peer certificate name for verification";
    default: return "Unknown error code";
    }
}

void redisFreeSSLContext(redisSSLContext *context) {
    if (context == NULL) return;
    SSL_CTX_free(context->shared);
    hi_free(context->server_name);
    hi_free(context);
}

/* The peer's certificate must have this name. 0 where that can not be enforced. */
static int require_name(SSL_CTX *shared, const char *name) {
    if (name[0] == 0 || !(SSL_CTX_get_verify_mode(shared) & SSL_VERIFY_PEER)) return 0;
    X509_VERIFY_PARAM *parameters = SSL_CTX_get0_param(shared);
    X509_VERIFY_PARAM_set_hostflags(parameters, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    return X509_VERIFY_PARAM_set1_ip_asc(parameters, name) == 1 ||
           X509_VERIFY_PARAM_set1_host(parameters, name, strlen(name)) == 1;
}

static redisSSLContextError configure(redisSSLContext *context, const redisSSLOptions *options) {
    SSL_CTX *shared = context->shared = SSL_CTX_new(TLS_client_method());
    if (shared == NULL) return REDIS_SSL_CTX_CREATE_FAILED;
    SSL_CTX_set_min_proto_version(shared, TLS1_2_VERSION);
    SSL_CTX_set_verify(shared, options->verify_mode, NULL);
    if (options->verify_name != NULL && !require_name(shared, options->verify_name)) {
        return REDIS_SSL_CTX_VERIFY_NAME_FAILED;
    }
    const char *certificate = options->cert_filename, *key = options->private_key_filename;
    if ((certificate == NULL) != (key == NULL)) return REDIS_SSL_CTX_CERT_KEY_REQUIRED;
    if (options->capath != NULL || options->cacert_filename != NULL) {
        if (SSL_CTX_load_verify_locations(shared, options->cacert_filename, options->capath) != 1) {
            return REDIS_SSL_CTX_CA_CERT_LOAD_FAILED;
        }
    } else if (SSL_CTX_set_default_verify_paths(shared) != 1) {
        return REDIS_SSL_CTX_CLIENT_DEFAULT_CERT_FAILED;
    }
    if (certificate != NULL) {
        if (SSL_CTX_use_certificate_chain_file(shared, certificate) != 1)
            return REDIS_SSL_CTX_CLIENT_CERT_LOAD_FAILED;
        if (SSL_CTX_use_PrivateKey_file(shared, key, SSL_FILETYPE_PEM) != 1) {
            return REDIS_SSL_CTX_PRIVATE_KEY_LOAD_FAILED;
        }
    }
    if (options->server_name != NULL && (context->server_name = hi_strdup(options->server_name)) == NULL) {
        return REDIS_SSL_CTX_CREATE_FAILED;
    }
    return REDIS_SSL_CTX_NONE;
}

redisSSLContext *redisCreateSSLContextWithOptions(redisSSLOptions *options, redisSSLContextError *error) {
    redisSSLContext *context = hi_calloc(1, sizeof *context);
    redisSSLContextError found = context == NULL ? REDIS_SSL_CTX_CREATE_FAILED : configure(context, options);
    if (error != NULL) *error = found;
    if (found == REDIS_SSL_CTX_NONE) return context;
    redisFreeSSLContext(context);
    return NULL;
}

redisSSLContext *redisCreateSSLContext(const char *cacert_filename, const char *capath,
                                       const char *cert_filename, const char *private_key_filename,
                                       const char *server_name, redisSSLContextError *error) {
    redisSSLOptions options = {0};
    options.cacert_filename = cacert_filename;
    options.capath = capath;
    options.cert_filename = cert_filename;
    options.private_key_filename = private_key_filename;
    options.server_name = server_name;
    options.verify_mode = REDIS_SSL_VERIFY_PEER;
    return redisCreateSSLContextWithOptions(&options, error);
}

/* ---- Bytes ---- */

static void free_session(void *data) {
    struct session *session = data;
    if (session == NULL) return;
    SSL_free(session->ssl);
    hi_free(session);
}

/* Of a call that has returned `result`, with errno as it was then: 0 to try again, -1 with the error set. */
static ssize_t again_or_fail(redisContext *c, int result, int reading) {
    struct session *session = c->privctx;
    int number = errno;
    int why = SSL_get_error(session->ssl, result);
    if (!(c->flags & REDIS_BLOCK)) {
        if (why == SSL_ERROR_WANT_READ) {
            if (!reading) session->write_waits = 1;
            return 0;
        }
        if (why == SSL_ERROR_WANT_WRITE) {
            if (reading) session->read_waits = 1;
            return 0;
        }
    } else if ((why == SSL_ERROR_SYSCALL || why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE) &&
               number == EINTR) {
        return 0;
    }
    if (reading && (why == SSL_ERROR_ZERO_RETURN || (why == SSL_ERROR_SYSCALL && number == 0) ||
                    (why == SSL_ERROR_SSL && number == 0 && result == 0))) {
        __redisSetError(c, REDIS_ERR_EOF, "Server closed the connection");
        return -1;
    }
    const char *reason = NULL;
    if (why == SSL_ERROR_SSL) reason = ERR_reason_error_string(ERR_peek_last_error());
    if (reason == NULL) reason = number != 0 ? strerror(number) : "TLS failed";
    errno = number;
    __redisSetError(c, REDIS_ERR_IO, reason);
    return -1;
}

static ssize_t read_tls(redisContext *c, char *buffer, size_t capacity) {
    struct session *session = c->privctx;
    ERR_clear_error();
    errno = 0;
    int count = SSL_read(session->ssl, buffer, capacity > 1 << 20 ? 1 << 20 : (int)capacity);
    return count > 0 ? count : again_or_fail(c, count, 1);
}

static ssize_t write_tls(redisContext *c) {
    struct session *session = c->privctx;
    size_t length = session->again != 0 ? session->again : sdslen(c->obuf);
    if (length > 1 << 30) length = 1 << 30;
    ERR_clear_error();
    errno = 0;
    int count = SSL_write(session->ssl, c->obuf, (int)length);
    session->again = count > 0 ? 0 : length;
    return count > 0 ? count : again_or_fail(c, count, 0);
}

/* Write, and say what is waited for. REDIS_ERR: the context is gone. */
static int write_now(redisAsyncContext *ac) {
    struct session *session = ac->c.privctx;
    int done = 0;
    session->write_waits = 0;
    if (redisBufferWrite(&ac->c, &done) != REDIS_OK) {
        __redisAsyncDisconnect(ac);
        return REDIS_ERR;
    }
    /* A write that waits for the server is tried again when that has been read. */
    async_want_write(ac, (!done && !session->write_waits) || session->read_waits);
    async_want_read(ac);
    return REDIS_OK;
}

static void async_read_tls(redisAsyncContext *ac) {
    struct session *session = ac->c.privctx;
    session->read_waits = 0;
    /* All of what OpenSSL has decrypted: the socket says nothing of it. */
    do {
        if (redisBufferRead(&ac->c) != REDIS_OK) {
            __redisAsyncDisconnect(ac);
            return;
        }
    } while (SSL_pending(session->ssl) > 0);
    if ((session->write_waits || session->read_waits) && write_now(ac) != REDIS_OK) return;
    async_want_read(ac);
    redisProcessCallbacks(ac);
}

static void async_write_tls(redisAsyncContext *ac) {
    struct session *session = ac->c.privctx;
    if (session->read_waits) {
        async_read_tls(ac);
        return;
    }
    write_now(ac);
}

static const redisContextFuncs tls_functions = {
    redisNetClose, free_session, async_read_tls, async_write_tls, read_tls, write_tls,
};

/* ---- Shaking hands ---- */

static int fail_handshake(redisContext *c, int why) {
    if (c->err != 0) return REDIS_ERR;
    char text[sizeof c->errstr];
    int number = errno;
    const char *reason =
        why == SSL_ERROR_SYSCALL ? strerror(number) : ERR_reason_error_string(ERR_peek_last_error());
    snprintf(text, sizeof text, "SSL_connect failed: %s", reason != NULL ? reason : "unknown error");
    __redisSetError(c, REDIS_ERR_IO, text);
    return REDIS_ERR;
}

int redisInitiateSSL(redisContext *c, SSL *ssl) {
    if (c->privctx != NULL) {
        __redisSetError(c, REDIS_ERR_OTHER, "redisContext was already associated");
        return REDIS_ERR;
    }
    struct session *session = hi_calloc(1, sizeof *session);
    if (session == NULL) {
        __redisSetError(c, REDIS_ERR_OOM, "Out of memory");
        return REDIS_ERR;
    }
    session->ssl = ssl;
    SSL_set_mode(ssl, SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_ENABLE_PARTIAL_WRITE);
    SSL_set_fd(ssl, c->fd);
    SSL_set_connect_state(ssl);
    ERR_clear_error();
    int result = SSL_connect(ssl), why = result == 1 ? SSL_ERROR_NONE : SSL_get_error(ssl, result);
    int goes_on = !(c->flags & REDIS_BLOCK) && (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE);
    if (result != 1 && !goes_on) {
        hi_free(session);
        return fail_handshake(c, why);
    }
    c->funcs = &tls_functions;
    c->privctx = session;
    return REDIS_OK;
}

int redisInitiateSSLWithContext(redisContext *c, redisSSLContext *context) {
    if (c == NULL || context == NULL || c->privctx != NULL) return REDIS_ERR;
    SSL *ssl = SSL_new(context->shared);
    if (ssl == NULL) {
        __redisSetError(c, REDIS_ERR_OTHER, "Couldn't create new SSL instance");
        return REDIS_ERR;
    }
    if (context->server_name != NULL && SSL_set_tlsext_host_name(ssl, context->server_name) != 1) {
        __redisSetError(c, REDIS_ERR_OTHER, "Failed to set server_name/SNI");
    } else if (redisInitiateSSL(c, ssl) == REDIS_OK) {
        return REDIS_OK;
    }
    SSL_free(ssl);
    return REDIS_ERR;
}
