/* The binary interface of hiredis 1.3 where pointers have 64 bits: a difference does not compile. What is
 * behind the fields of 1.3 (maxdepth of redisReader, verify_name of redisSSLOptions) came later, at its end. */
#include <stddef.h>

#include "hiredis/async.h"
#include "hiredis/hiredis_ssl.h"

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define ASSERT(condition) \
    typedef char JOIN(assertion_, __LINE__)[(condition) ? 1 : -1] __attribute__((unused))
#define SIZE(type, bytes) ASSERT(sizeof(type) == (bytes))
#define AT(type, field, bytes) ASSERT(offsetof(type, field) == (bytes))
#define IS(name, value) ASSERT((name) == (value))

#if UINTPTR_MAX == UINT64_MAX
SIZE(redisReply, 64);
AT(redisReply, type, 0);
AT(redisReply, integer, 8);
AT(redisReply, dval, 16);
AT(redisReply, len, 24);
AT(redisReply, str, 32);
AT(redisReply, vtype, 40);
AT(redisReply, elements, 48);
AT(redisReply, element, 56);
SIZE(redisReader, 224);
AT(redisReader, err, 0);
AT(redisReader, errstr, 4);
AT(redisReader, buf, 136);
AT(redisReader, pos, 144);
AT(redisReader, len, 152);
AT(redisReader, maxbuf, 160);
AT(redisReader, maxelements, 168);
AT(redisReader, task, 176);
AT(redisReader, tasks, 184);
AT(redisReader, ridx, 188);
AT(redisReader, reply, 192);
AT(redisReader, fn, 200);
AT(redisReader, privdata, 208);
AT(redisReader, maxdepth, 216);
SIZE(redisReadTask, 48);
AT(redisReadTask, type, 0);
AT(redisReadTask, elements, 8);
AT(redisReadTask, idx, 16);
AT(redisReadTask, obj, 24);
AT(redisReadTask, parent, 32);
AT(redisReadTask, privdata, 40);
SIZE(redisReplyObjectFunctions, 56);
AT(redisReplyObjectFunctions, createString, 0);
AT(redisReplyObjectFunctions, createArray, 8);
AT(redisReplyObjectFunctions, createInteger, 16);
AT(redisReplyObjectFunctions, createDouble, 24);
AT(redisReplyObjectFunctions, createNil, 32);
AT(redisReplyObjectFunctions, createBool, 40);
AT(redisReplyObjectFunctions, freeObject, 48);
SIZE(redisContext, 272);
AT(redisContext, funcs, 0);
AT(redisContext, err, 8);
AT(redisContext, errstr, 12);
AT(redisContext, fd, 140);
AT(redisContext, flags, 144);
AT(redisContext, obuf, 152);
AT(redisContext, reader, 160);
AT(redisContext, connection_type, 168);
AT(redisContext, connect_timeout, 176);
AT(redisContext, command_timeout, 184);
AT(redisContext, tcp.host, 192);
AT(redisContext, tcp.source_addr, 200);
AT(redisContext, tcp.port, 208);
AT(redisContext, unix_sock.path, 216);
AT(redisContext, saddr, 224);
AT(redisContext, addrlen, 232);
AT(redisContext, privdata, 240);
AT(redisContext, free_privdata, 248);
AT(redisContext, privctx, 256);
AT(redisContext, push_cb, 264);
SIZE(redisContextFuncs, 48);
AT(redisContextFuncs, close, 0);
AT(redisContextFuncs, free_privctx, 8);
AT(redisContextFuncs, async_read, 16);
AT(redisContextFuncs, async_write, 24);
AT(redisContextFuncs, read, 32);
AT(redisContextFuncs, write, 40);
SIZE(redisOptions, 80);
AT(redisOptions, type, 0);
AT(redisOptions, options, 4);
AT(redisOptions, connect_timeout, 8);
AT(redisOptions, command_timeout, 16);
AT(redisOptions, endpoint.tcp.source_addr, 24);
AT(redisOptions, endpoint.tcp.ip, 32);
AT(redisOptions, endpoint.tcp.port, 40);
AT(redisOptions, endpoint.unix_socket, 24);
AT(redisOptions, endpoint.fd, 24);
AT(redisOptions, privdata, 48);
AT(redisOptions, free_privdata, 56);
AT(redisOptions, push_cb, 64);
AT(redisOptions, async_push_cb, 72);
SIZE(redisCallback, 32);
AT(redisCallback, next, 0);
AT(redisCallback, fn, 8);
AT(redisCallback, pending_subs, 16);
AT(redisCallback, unsubscribe_sent, 20);
AT(redisCallback, privdata, 24);
SIZE(redisCallbackList, 16);
AT(redisCallbackList, head, 0);
AT(redisCallbackList, tail, 8);
SIZE(redisAsyncContext, 464);
AT(redisAsyncContext, c, 0);
AT(redisAsyncContext, err, 272);
AT(redisAsyncContext, errstr, 280);
AT(redisAsyncContext, data, 288);
AT(redisAsyncContext, dataCleanup, 296);
AT(redisAsyncContext, ev.data, 304);
AT(redisAsyncContext, ev.addRead, 312);
AT(redisAsyncContext, ev.delRead, 320);
AT(redisAsyncContext, ev.addWrite, 328);
AT(redisAsyncContext, ev.delWrite, 336);
AT(redisAsyncContext, ev.cleanup, 344);
AT(redisAsyncContext, ev.scheduleTimer, 352);
AT(redisAsyncContext, onDisconnect, 360);
AT(redisAsyncContext, onConnect, 368);
AT(redisAsyncContext, onConnectNC, 376);
AT(redisAsyncContext, replies, 384);
AT(redisAsyncContext, saddr, 400);
AT(redisAsyncContext, addrlen, 408);
AT(redisAsyncContext, sub.replies, 416);
AT(redisAsyncContext, sub.channels, 432);
AT(redisAsyncContext, sub.patterns, 440);
AT(redisAsyncContext, sub.pending_unsubs, 448);
AT(redisAsyncContext, push_cb, 456);
SIZE(redisSSLOptions, 56);
AT(redisSSLOptions, cacert_filename, 0);
AT(redisSSLOptions, capath, 8);
AT(redisSSLOptions, cert_filename, 16);
AT(redisSSLOptions, private_key_filename, 24);
AT(redisSSLOptions, server_name, 32);
AT(redisSSLOptions, verify_mode, 40);
AT(redisSSLOptions, verify_name, 48);
SIZE(hiredisAllocFuncs, 40);
AT(hiredisAllocFuncs, mallocFn, 0);
AT(hiredisAllocFuncs, callocFn, 8);
AT(hiredisAllocFuncs, reallocFn, 16);
AT(hiredisAllocFuncs, strdupFn, 24);
AT(hiredisAllocFuncs, freeFn, 32);
#endif

IS(REDIS_ERR, -1);
IS(REDIS_OK, 0);
IS(REDIS_ERR_IO, 1);
IS(REDIS_ERR_OTHER, 2);
IS(REDIS_ERR_EOF, 3);
IS(REDIS_ERR_PROTOCOL, 4);
IS(REDIS_ERR_OOM, 5);
IS(REDIS_ERR_TIMEOUT, 6);
IS(REDIS_REPLY_STRING, 1);
IS(REDIS_REPLY_ARRAY, 2);
IS(REDIS_REPLY_INTEGER, 3);
IS(REDIS_REPLY_NIL, 4);
IS(REDIS_REPLY_STATUS, 5);
IS(REDIS_REPLY_ERROR, 6);
IS(REDIS_REPLY_DOUBLE, 7);
IS(REDIS_REPLY_BOOL, 8);
IS(REDIS_REPLY_MAP, 9);
IS(REDIS_REPLY_SET, 10);
IS(REDIS_REPLY_ATTR, 11);
IS(REDIS_REPLY_PUSH, 12);
IS(REDIS_REPLY_BIGNUM, 13);
IS(REDIS_REPLY_VERB, 14);
IS(REDIS_BLOCK, 1);
IS(REDIS_CONNECTED, 2);
IS(REDIS_DISCONNECTING, 4);
IS(REDIS_FREEING, 8);
IS(REDIS_IN_CALLBACK, 16);
IS(REDIS_SUBSCRIBED, 32);
IS(REDIS_MONITORING, 64);
IS(REDIS_REUSEADDR, 128);
IS(REDIS_SUPPORTS_PUSH, 256);
IS(REDIS_NO_AUTO_FREE, 512);
IS(REDIS_NO_AUTO_FREE_REPLIES, 1024);
IS(REDIS_PREFER_IPV4, 2048);
IS(REDIS_PREFER_IPV6, 4096);
IS(REDIS_OPT_NONBLOCK, 1);
IS(REDIS_OPT_REUSEADDR, 2);
IS(REDIS_OPT_NOAUTOFREE, 4);
IS(REDIS_OPT_NO_PUSH_AUTOFREE, 8);
IS(REDIS_OPT_NOAUTOFREEREPLIES, 16);
IS(REDIS_OPT_PREFER_IPV4, 32);
IS(REDIS_OPT_PREFER_IPV6, 64);
IS(REDIS_OPT_SET_SOCK_CLOEXEC, 128);
IS(REDIS_CONN_TCP, 0);
IS(REDIS_CONN_UNIX, 1);
IS(REDIS_CONN_USERFD, 2);
IS(REDIS_SSL_CTX_VERIFY_NAME_FAILED, 9);
IS(REDIS_SSL_VERIFY_POST_HANDSHAKE, 8);

int main(void) { return 0; }
