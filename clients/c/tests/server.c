/* With a server: server HOST PORT UNIX_SOCKET [TLS_PORT CA CERTIFICATE KEY], "-" for no Unix socket. What
 * programs do with hiredis's interface, on connections of each kind, waiting and by callbacks. */
#include <errno.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "hiredis/adapters/poll.h"
#include "hiredis/async.h"
#include "mantissa/client.h"
#ifdef TEST_TLS
#include "hiredis/hiredis_ssl.h"
#endif

static const char *host, *unix_path;
static int port;
#ifdef TEST_TLS
static redisSSLContext *tls;
static int tls_port;
#endif

enum kind { TCP, UNIX, TLS, KINDS };
static enum kind kind;

static redisOptions options_for_kind(void) {
    redisOptions options = {0};
    REDIS_OPTIONS_SET_TCP(&options, host, port);
    if (kind == UNIX) REDIS_OPTIONS_SET_UNIX(&options, unix_path);
#ifdef TEST_TLS
    if (kind == TLS) options.endpoint.tcp.port = tls_port;
#endif
    return options;
}

static void secure(redisContext *c) {
#ifdef TEST_TLS
    if (kind == TLS && redisInitiateSSLWithContext(c, tls) != REDIS_OK) printf("TLS: %s\n", c->errstr);
#endif
    (void)c;
}

static redisContext *open_with(redisOptions *options) {
    redisContext *c = redisConnectWithOptions(options);
    if (c == NULL || c->err != 0) {
        printf("no connection: %s\n", c == NULL ? "" : c->errstr);
        exit(1);
    }
    secure(c);
    return c;
}

static redisContext *open_context(void) {
    redisOptions options = options_for_kind();
    return open_with(&options);
}

/* The reply's text, which is checked and freed. */
#define REPLIES(expected, ...)                                                       \
    do {                                                                             \
        redisReply *reply_ = redisCommand(__VA_ARGS__);                              \
        struct text text_ = {0};                                                     \
        if (reply_ != NULL) text_add_reply(&text_, reply_);                          \
        checks++;                                                                    \
        if (text_.at == NULL || strcmp(text_.at, expected) != 0) {                   \
            failures++;                                                              \
            printf("%s:%d: %s\n", __FILE__, __LINE__, text_.at ? text_.at : "NULL"); \
        }                                                                            \
        free(text_.at);                                                              \
        freeReplyObject(reply_);                                                     \
    } while (0)

static void test_commands(void) {
    redisContext *c = open_context();
    REPLIES("(5 0 'OK)", c, "FLUSHALL");
    REPLIES("(5 0 'PONG)", c, "PING");
    REPLIES("(5 0 'OK)", c, "SET %s %b", "foo", "a\0b", (size_t)3);
    redisReply *reply = redisCommand(c, "GET %s", "foo");
    CHECK(reply != NULL && reply->len == 3 && memcmp(reply->str, "a\0b", 4) == 0);
    freeReplyObject(reply);
    REPLIES("(4 0 )", c, "GET none");
    REPLIES("(3 7 )", c, "INCRBY n %d", 7);
    REPLIES("(3 2 )", c, "RPUSH l a %s", "b c");
    REPLIES("(2 0 (1 0 'a)(1 0 'b c))", c, "LRANGE l 0 -1");
    REPLIES("(3 1 )", c, "ZADD z %r m", 2.5);
    REPLIES("(1 0 '2.5)", c, "ZSCORE z m");
    REPLIES("(5 0 'OK)", c, "MULTI");
    REPLIES("(5 0 'QUEUED)", c, "LRANGE l 0 -1");
    REPLIES("(5 0 'QUEUED)", c, "PING");
    REPLIES("(2 0 (2 0 (1 0 'a)(1 0 'b c))(5 0 'PONG))", c, "EXEC");
    const char *argv[] = {"APPEND", "n", "5"};
    reply = redisCommandArgv(c, 3, argv, NULL);
    CHECK(reply != NULL && reply->type == REDIS_REPLY_INTEGER && reply->integer == 2);
    freeReplyObject(reply);
    reply = redisCommand(c, "NO-SUCH-COMMAND");
    CHECK(reply != NULL && reply->type == REDIS_REPLY_ERROR && strncmp(reply->str, "ERR", 3) == 0);
    freeReplyObject(reply);
    CHECK(redisCommand(c, "%y") == NULL && c->err == REDIS_ERR_OTHER);
    redisFree(c);
}

static void test_pipelines(void) {
    redisContext *c = open_context();
    void *reply;
    for (int i = 0; i < 1000; i++) CHECK(redisAppendCommand(c, "ECHO %d", i) == REDIS_OK);
    char *command;
    int length = redisFormatCommand(&command, "PING");
    CHECK(redisAppendFormattedCommand(c, command, (size_t)length) == REDIS_OK);
    redisFreeCommand(command);
    for (int i = 0; i < 1000; i++) {
        CHECK(redisGetReply(c, &reply) == REDIS_OK && atoi(((redisReply *)reply)->str) == i);
        freeReplyObject(reply);
    }
    CHECK(redisGetReply(c, NULL) == REDIS_OK);
    /* A large value, both ways. */
    size_t size = 3 << 20;
    char *large = malloc(size);
    memset(large, 'x', size);
    REPLIES("(5 0 'OK)", c, "SET large %b", large, size);
    redisReply *got = redisCommand(c, "GET large");
    CHECK(got != NULL && got->len == size && memcmp(got->str, large, size) == 0);
    freeReplyObject(got);
    free(large);
    /* A bounded queue. */
    mantissaSetOutputLimit(c, 100);
    int added = 0;
    while (redisAppendCommand(c, "PING") == REDIS_OK) added++;
    CHECK(added == 7 && c->err == 0);
    while (added-- > 0) CHECK(redisGetReply(c, NULL) == REDIS_OK);
    redisFree(c);
}

static void test_views(void) {
    redisContext *c = open_context();
    mantissaViews *views = mantissaViewsCreate();
    const mantissaView *view;
    redisAppendCommand(c, "LRANGE l 0 -1");
    CHECK(mantissaGetViews(c, views, &view) == REDIS_OK && view->length == 2);
    CHECK(view[1].length == 1 && view[1].is.text[0] == 'a' && memcmp(view[2].is.text, "b c", 3) == 0);
    freeReplyObject(redisCommand(c, "DEL numbers"));
    for (int i = 0; i < 5000; i++) redisAppendCommand(c, "RPUSH numbers %r", i / 8.0);
    for (int i = 0; i < 5000; i++) CHECK(redisGetReply(c, NULL) == REDIS_OK);
    static double numbers[5000];
    redisAppendCommand(c, "LRANGE numbers 0 -1");
    CHECK(mantissaGetViews(c, views, &view) == REDIS_OK && mantissaViewNumbers(view, numbers, 5000) == 5000);
    for (int i = 0; i < 5000; i++) CHECK(numbers[i] == i / 8.0);
    REPLIES("(5 0 'PONG)", c, "PING");
    mantissaViewsFree(views);
    redisFree(c);
}

static int pushes;
static void on_push(void *privdata, void *reply) {
    CHECK(privdata == &pushes && redisIsPushReply(reply));
    pushes++;
    freeReplyObject(reply);
}

static void count_free_privdata(void *privdata) { ++*(int *)privdata; }

static void test_resp3(void) {
    redisOptions options = options_for_kind();
    int freed = 0;
    REDIS_OPTIONS_SET_PRIVDATA(&options, &freed, count_free_privdata);
    redisFree(open_with(&options));
    CHECK(freed == 1);
    redisContext *c = open_context();
    c->privdata = &pushes;
    pushes = 0;
    CHECK(redisSetPushCallback(c, on_push) != NULL);
    redisReply *reply = redisCommand(c, "HELLO 3");
    CHECK(reply != NULL && reply->type == REDIS_REPLY_MAP && reply->elements % 2 == 0);
    freeReplyObject(reply);
    REPLIES("(3 1 )", c, "HSET h f v");
    REPLIES("(9 0 (1 0 'f)(1 0 'v))", c, "HGETALL h");
    REPLIES("(7 0 4004000000000000'2.5)", c, "ZSCORE z m");
    REPLIES("(5 0 'OK)", c, "CLIENT TRACKING ON");
    REPLIES("(1 0 'v)", c, "HGET h f");
    REPLIES("(3 0 )", c, "HSET h f w");
    REPLIES("(5 0 'PONG)", c, "PING");
    CHECK(pushes == 1);
    redisFree(c);
}

static void test_timeouts(void) {
    redisContext *c = open_context();
    struct timeval soon = {0, 20000};
    CHECK(redisSetTimeout(c, soon) == REDIS_OK);
    CHECK(redisCommand(c, "BLPOP none 0") == NULL && c->err == REDIS_ERR_IO && errno == EAGAIN);
    CHECK(redisReconnect(c) == REDIS_OK && c->err == 0);
    secure(c);
    struct timeval late = {20, 0};
    CHECK(redisSetTimeout(c, late) == REDIS_OK);
    REPLIES("(5 0 'PONG)", c, "PING");
    CHECK(redisEnableKeepAlive(c) == (kind == UNIX ? REDIS_ERR : REDIS_OK) && c->err == 0);
    if (kind != UNIX) CHECK(redisSetTcpUserTimeout(c, 1000) == REDIS_OK);
    freeReplyObject(redisCommand(c, "QUIT"));
    CHECK(redisCommand(c, "PING") == NULL && (c->err == REDIS_ERR_EOF || c->err == REDIS_ERR_IO));
    redisFree(c);
    redisOptions options = options_for_kind();
    struct timeval invalid = {0, 10000001};
    options.connect_timeout = &invalid;
    c = redisConnectWithOptions(&options);
    CHECK(c->err == REDIS_ERR_IO && strcmp(c->errstr, "Invalid timeout specified") == 0);
    redisFree(c);
}

static void test_refused(void) {
    redisContext *c = redisConnect("127.0.0.1", 1);
    CHECK(c->err == REDIS_ERR_IO && strcmp(c->errstr, "Connection refused") == 0);
    redisFree(c);
    c = redisConnectUnix("/nonexistent/socket");
    CHECK(c->err == REDIS_ERR_IO);
    redisFree(c);
    c = redisConnect("no.such.host.invalid", 1);
    CHECK(c->err == REDIS_ERR_OTHER);
    redisFree(c);
    redisFree(NULL);
    freeReplyObject(NULL);
    redisAsyncFree(NULL);
    c = redisConnectNonBlock(host, port);
    redisFD fd = redisFreeKeepFd(c);
    CHECK(fd >= 0 && close(fd) == 0);
}

/* ---- Callbacks ---- */

struct state {
    int connected, disconnected, replies, nulls, messages, unsubscribed;
    int status;
};

static void on_connect(redisAsyncContext *ac, int status) {
    struct state *state = ac->data;
    state->connected += status == REDIS_OK;
    state->status = status;
}

static void on_disconnect(const redisAsyncContext *ac, int status) {
    struct state *state = ac->data;
    state->disconnected++;
    state->status = status;
}

static redisAsyncContext *open_async(struct state *state) {
    redisOptions options = options_for_kind();
    redisAsyncContext *ac = redisAsyncConnectWithOptions(&options);
    memset(state, 0, sizeof *state);
    CHECK(ac != NULL && ac->err == 0 && redisPollAttach(ac) == REDIS_OK && redisPollAttach(ac) == REDIS_ERR);
    secure(&ac->c);
    ac->data = state;
    CHECK(redisAsyncSetConnectCallbackNC(ac, on_connect) == REDIS_OK);
    CHECK(redisAsyncSetConnectCallbackNC(ac, on_connect) == REDIS_ERR);
    CHECK(redisAsyncSetDisconnectCallback(ac, on_disconnect) == REDIS_OK);
    return ac;
}

/* Handle events until the connection is gone. */
static void run(redisAsyncContext *ac, struct state *state) {
    for (int i = 0; i < 20000 && state->disconnected == 0 && state->status == REDIS_OK; i++)
        redisPollTick(ac, 0.01);
    CHECK(state->disconnected == 1);
}

static void on_reply(redisAsyncContext *ac, void *got, void *privdata) {
    struct state *state = privdata;
    redisReply *reply = got;
    CHECK(ac->c.flags & REDIS_IN_CALLBACK);
    if (reply == NULL) {
        state->nulls++;
        CHECK(redisAsyncCommand(ac, NULL, NULL, "PING") == REDIS_ERR);
        return;
    }
    state->replies++;
    if (reply->type == REDIS_REPLY_INTEGER && reply->integer == 100) redisAsyncDisconnect(ac);
    if (reply->type == REDIS_REPLY_STATUS && strcmp(reply->str, "free") == 0) redisAsyncFree(ac);
}

static void test_async(void) {
    struct state state;
    redisAsyncContext *ac = open_async(&state);
    redisAsyncCommand(ac, NULL, NULL, "DEL counter");
    for (int i = 0; i < 100; i++)
        CHECK(redisAsyncCommand(ac, on_reply, &state, "INCR %s", "counter") == REDIS_OK);
    run(ac, &state);
    CHECK(state.connected == 1 && state.replies == 100 && state.nulls == 0 && state.status == REDIS_OK);
    /* Free in a callback: what is left is called with NULL. */
    ac = open_async(&state);
    const char *argv[] = {"EVAL", "return redis.status_reply('free')", "0"};
    redisAsyncCommandArgv(ac, on_reply, &state, 3, argv, NULL);
    for (int i = 0; i < 5; i++) redisAsyncCommand(ac, on_reply, &state, "PING");
    run(ac, &state);
    CHECK(state.replies == 1 && state.nulls == 5);
    /* A bounded queue. */
    ac = open_async(&state);
    mantissaSetOutputLimit(&ac->c, 1000);
    int added = 0;
    while (redisAsyncCommand(ac, on_reply, &state, "PING") == REDIS_OK) added++;
    CHECK(added == 71 && ac->err == 0);
    redisAsyncFree(ac);
    CHECK(state.nulls == added);
    /* A command that takes too long. */
    ac = open_async(&state);
    struct timeval soon = {0, 30000};
    redisAsyncSetTimeout(ac, soon);
    redisAsyncCommand(ac, on_reply, &state, "BLPOP none 0");
    run(ac, &state);
    CHECK(state.nulls == 1 && state.status == REDIS_ERR);
}

static int late, in_time;

/* When a command is due, in microseconds: not before, not after. */
struct due {
    long long earliest, latest;
};
static long long last_due;

static long long now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000LL + now.tv_nsec / 1000;
}

/* Called back in the order in which commands are due. */
static void on_late(redisAsyncContext *ac, void *reply, void *privdata) {
    const struct due *due = privdata;
    if (reply != NULL) {
        in_time++;
        return;
    }
    late++;
    CHECK(ac->err == REDIS_ERR_TIMEOUT && strcmp(ac->errstr, "Timeout") == 0 && ac->c.err == 0);
    CHECK(due->latest >= last_due && due->earliest <= now_us());
    if (due->earliest > last_due) last_due = due->earliest;
}

static void on_late_free(redisAsyncContext *ac, void *reply, void *privdata) {
    CHECK(reply == NULL && privdata == NULL);
    redisAsyncFree(ac);
}

static void test_deadlines(int connection_timeout) {
    struct state state;
    redisAsyncContext *ac = open_async(&state);
    struct due dues[200];
    late = in_time = 0, last_due = 0;
    struct timeval long_time = {20, 0};
    if (connection_timeout) redisAsyncSetTimeout(ac, long_time);
    CHECK(mantissaAsyncCommandWithin(ac, long_time, NULL, NULL, "SUBSCRIBE x") == REDIS_ERR);
    /* The first is in time, and nothing comes for a while behind it. */
    mantissaAsyncCommandWithin(ac, long_time, on_late, NULL, "PING");
    redisAsyncCommand(ac, NULL, NULL, "BLPOP none 0.3");
    for (long i = 0; i < 200; i++) {
        long milliseconds = 1 + i * 7919 % 150;
        struct timeval timeout = {0, milliseconds * 1000};
        dues[i].earliest = now_us() + timeout.tv_usec;
        CHECK(mantissaAsyncCommandWithin(ac, timeout, on_late, &dues[i], "ECHO %ld", i) == REDIS_OK);
        dues[i].latest = now_us() + timeout.tv_usec;
    }
    const char *argv[] = {"SET", "counter", "99"};
    mantissaAsyncCommandArgvWithin(ac, long_time, on_late, NULL, 3, argv, NULL);
    redisAsyncCommand(ac, on_reply, &state, "INCR counter");
    run(ac, &state);
    CHECK(late == 200 && in_time == 2 && state.replies == 1 && state.nulls == 0 && state.status == REDIS_OK);
    /* Freed where it is late, with others still to come. */
    ac = open_async(&state);
    struct timeval soon = {0, 20000};
    redisAsyncCommand(ac, on_reply, &state, "BLPOP none 0");
    mantissaAsyncCommandWithin(ac, soon, on_late_free, NULL, "PING");
    mantissaAsyncCommandWithin(ac, long_time, on_reply, &state, "PING");
    run(ac, &state);
    CHECK(state.nulls == 2);
    /* The connection's own timeout is earlier. */
    ac = open_async(&state);
    redisAsyncSetTimeout(ac, soon);
    mantissaAsyncCommandWithin(ac, long_time, on_reply, &state, "BLPOP none 0");
    run(ac, &state);
    CHECK(state.nulls == 1 && state.status == REDIS_ERR);
}

static void on_message(redisAsyncContext *ac, void *got, void *privdata) {
    struct state *state = privdata;
    redisReply *reply = got;
    if (reply == NULL) return;
    CHECK(reply->elements >= 3);
    const char *word = reply->element[0]->str;
    if (strcmp(word, "psubscribe") == 0) {
        redisContext *c = open_context();
        for (int i = 0; i < 3; i++) freeReplyObject(redisCommand(c, "PUBLISH news %d", i));
        redisFree(c);
    } else if (strcmp(word, "message") == 0) {
        state->messages++;
    } else if (strcmp(word, "pmessage") == 0 && ++state->messages == 6) {
        redisAsyncCommand(ac, NULL, NULL, "UNSUBSCRIBE");
        redisAsyncCommand(ac, NULL, NULL, "PUNSUBSCRIBE n*");
    } else if (strstr(word, "unsubscribe") != NULL && ++state->unsubscribed == 2) {
        CHECK(!(ac->c.flags & REDIS_SUBSCRIBED));
        redisAsyncCommand(ac, on_reply, state, "PING");
        redisAsyncDisconnect(ac);
    }
}

static void test_subscriptions(int protocol) {
    struct state state;
    redisAsyncContext *ac = open_async(&state);
    redisAsyncCommand(ac, NULL, NULL, "HELLO %d", protocol);
    CHECK(redisAsyncCommand(ac, NULL, NULL, "UNSUBSCRIBE") == REDIS_ERR);
    CHECK(redisAsyncCommand(ac, on_message, &state, "SUBSCRIBE news other") == REDIS_OK);
    CHECK(redisAsyncCommand(ac, on_message, &state, "PSUBSCRIBE n*") == REDIS_OK);
    CHECK(redisAsyncCommand(ac, NULL, NULL, "UNSUBSCRIBE other") == REDIS_OK);
    state.unsubscribed = -1;
    run(ac, &state);
    CHECK(state.messages == 6 && state.unsubscribed == 2 && state.replies == 1);
}

static int tracked;
static void on_async_push(redisAsyncContext *ac, void *reply) {
    CHECK(redisIsPushReply(reply));
    tracked++;
    redisAsyncDisconnect(ac);
}

static void test_async_push(void) {
    struct state state;
    redisAsyncContext *ac = open_async(&state);
    tracked = 0;
    redisAsyncSetPushCallback(ac, on_async_push);
    redisAsyncCommand(ac, NULL, NULL, "HELLO 3");
    redisAsyncCommand(ac, NULL, NULL, "CLIENT TRACKING ON");
    redisAsyncCommand(ac, NULL, NULL, "GET foo");
    redisAsyncCommand(ac, NULL, NULL, "SET foo x");
    run(ac, &state);
    CHECK(tracked == 1);
}

static void test_async_refused(void) {
    struct state state = {0};
    redisAsyncContext *ac = redisAsyncConnect("127.0.0.1", 1);
    CHECK(ac != NULL);
    if (ac->err == 0) {
        redisPollAttach(ac);
        ac->data = &state;
        redisAsyncSetConnectCallbackNC(ac, on_connect);
        redisAsyncCommand(ac, on_reply, &state, "PING");
        for (int i = 0; i < 100 && state.status == REDIS_OK; i++) redisPollTick(ac, 0.1);
        CHECK(state.status == REDIS_ERR && state.nulls == 1 && state.disconnected == 0);
    } else {
        redisAsyncFree(ac);
    }
}

#ifdef TEST_TLS
static void test_tls_names(const char *ca) {
    redisSSLContextError error;
    redisSSLOptions options = {0};
    options.cacert_filename = ca;
    options.verify_mode = REDIS_SSL_VERIFY_PEER;
    options.verify_name = "";
    CHECK(redisCreateSSLContextWithOptions(&options, &error) == NULL &&
          error == REDIS_SSL_CTX_VERIFY_NAME_FAILED);
    options.verify_name = "other.example";
    redisSSLContext *other = redisCreateSSLContextWithOptions(&options, &error);
    redisContext *c = redisConnect(host, tls_port);
    CHECK(other != NULL && redisInitiateSSLWithContext(c, other) == REDIS_ERR && c->err == REDIS_ERR_IO);
    redisFree(c);
    redisFreeSSLContext(other);
    CHECK(redisCreateSSLContext("/no/such/file", NULL, NULL, NULL, NULL, &error) == NULL);
    CHECK(error == REDIS_SSL_CTX_CA_CERT_LOAD_FAILED && redisSSLContextGetError(error) != NULL);
}
#endif

int main(int argc, char **argv) {
    if (argc < 4) return 2;
    signal(SIGPIPE, SIG_IGN);
    host = argv[1];
    port = atoi(argv[2]);
    unix_path = strcmp(argv[3], "-") == 0 ? NULL : argv[3];
    int has_tls = 0;
#ifdef TEST_TLS
    if (argc == 8) {
        redisSSLContextError error;
        tls_port = atoi(argv[4]);
        redisInitOpenSSL();
        tls = redisCreateSSLContext(argv[5], NULL, argv[6], argv[7], "localhost", &error);
        CHECK(tls != NULL);
        test_tls_names(argv[5]);
        has_tls = 1;
    }
#endif
    test_refused();
    test_async_refused();
    for (kind = TCP; kind < KINDS; kind++) {
        if ((kind == UNIX && unix_path == NULL) || (kind == TLS && !has_tls)) continue;
        test_commands();
        test_pipelines();
        test_views();
        test_resp3();
        test_timeouts();
        test_async();
        test_deadlines(0);
        test_deadlines(1);
        test_subscriptions(2);
        test_subscriptions(3);
        test_async_push();
    }
#ifdef TEST_TLS
    redisFreeSSLContext(tls);
#endif
    return check_end("server");
}
