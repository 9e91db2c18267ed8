/* One event loop each: adapters PORT, compiled with -DWITH_LIBEVENT and so on; WITH_QT as C++. */
#if defined(WITH_LIBEVENT)
#include "hiredis/adapters/libevent.h"
#define NAME "libevent"
#elif defined(WITH_LIBEV)
#include "hiredis/adapters/libev.h"
#define NAME "libev"
#elif defined(WITH_LIBUV)
#include "hiredis/adapters/libuv.h"
#define NAME "libuv"
#elif defined(WITH_GLIB)
#include "hiredis/adapters/glib.h"
#define NAME "glib"
#elif defined(WITH_IVYKIS)
#include "hiredis/adapters/ivykis.h"
#define NAME "ivykis"
#elif defined(WITH_LIBSYSTEMD)
#include "hiredis/adapters/libsdevent.h"
#define NAME "libsystemd"
#elif defined(WITH_AE)
#include "hiredis/adapters/ae.h"
#define NAME "ae"
#elif defined(WITH_MODULE)
#include "hiredis/adapters/redismoduleapi.h"
#define NAME "module"
#elif defined(WITH_LIBHV)
#include "hiredis/adapters/libhv.h"
#define NAME "libhv"
#elif defined(WITH_MACOSX)
#include "hiredis/adapters/macosx.h"
#define NAME "macOS"
#elif defined(WITH_QT)
#include <QCoreApplication>

#include "hiredis/adapters/qt.h"
#define NAME "Qt"
#endif

#include "check.h"
#include "mantissa/client.h"

static int replies, nulls, disconnected, last_status;

static void on_reply(redisAsyncContext *ac, void *reply, void *privdata) {
    (void)privdata;
    if (reply == NULL) {
        nulls++;
    } else if (++replies == 200) {
        redisAsyncDisconnect(ac);
    }
}

#ifdef WITH_GLIB
static GMainLoop *main_loop;
#elif defined(WITH_LIBSYSTEMD)
static sd_event *main_event;
#endif

static void on_disconnect(const redisAsyncContext *ac, int status) {
    (void)ac;
    disconnected++;
    last_status = status;
#ifdef WITH_GLIB
    g_main_loop_quit(main_loop);
#elif defined(WITH_LIBSYSTEMD)
    sd_event_exit(main_event, 0);
#elif defined(WITH_QT)
    QCoreApplication::quit();
#endif
}

/* The loop ends when the connection is gone. */
static void attach_and_run(redisAsyncContext *ac, void (*begin)(redisAsyncContext *)) {
#if defined(WITH_LIBEVENT)
    struct event_base *base = event_base_new();
    CHECK(redisLibeventAttach(ac, base) == REDIS_OK && redisLibeventAttach(ac, base) == REDIS_ERR);
    begin(ac);
    event_base_dispatch(base);
    event_base_free(base);
#elif defined(WITH_LIBEV)
    CHECK(redisLibevAttach(EV_DEFAULT_ ac) == REDIS_OK && redisLibevAttach(EV_DEFAULT_ ac) == REDIS_ERR);
    begin(ac);
    ev_run(EV_DEFAULT_ 0);
#elif defined(WITH_LIBUV)
    uv_loop_t loop;
    uv_loop_init(&loop);
    CHECK(redisLibuvAttach(ac, &loop) == REDIS_OK && redisLibuvAttach(ac, &loop) == REDIS_ERR);
    begin(ac);
    uv_run(&loop, UV_RUN_DEFAULT);
    CHECK(uv_loop_close(&loop) == 0);
#elif defined(WITH_GLIB)
    GMainContext *context = g_main_context_new();
    main_loop = g_main_loop_new(context, FALSE);
    GSource *source = redis_source_new(ac);
    g_source_attach(source, context);
    begin(ac);
    g_main_loop_run(main_loop);
    g_source_unref(source);
    g_main_loop_unref(main_loop);
    g_main_context_unref(context);
#elif defined(WITH_IVYKIS)
    iv_init();
    CHECK(redisIvykisAttach(ac) == REDIS_OK && redisIvykisAttach(ac) == REDIS_ERR);
    begin(ac);
    iv_main();
    iv_deinit();
#elif defined(WITH_LIBSYSTEMD)
    sd_event_new(&main_event);
    CHECK(redisLibsdeventAttach(ac, main_event) == REDIS_OK);
    CHECK(redisLibsdeventAttach(ac, main_event) == REDIS_ERR);
    begin(ac);
    sd_event_loop(main_event);
    sd_event_unref(main_event);
#elif defined(WITH_AE)
    aeEventLoop loop = {0};
    CHECK(redisAeAttach(&loop, ac) == REDIS_OK && redisAeAttach(&loop, ac) == REDIS_ERR);
    begin(ac);
    loop_run(&loop);
#elif defined(WITH_MODULE)
    CHECK(redisModuleCompatibilityCheck() == REDIS_OK);
    CHECK(redisModuleAttach(ac, NULL) == REDIS_OK && redisModuleAttach(ac, NULL) == REDIS_ERR);
    begin(ac);
    loop_run(&module_loop);
#elif defined(WITH_LIBHV)
    hloop_t loop = {0};
    CHECK(redisLibhvAttach(ac, &loop) == REDIS_OK && redisLibhvAttach(ac, &loop) == REDIS_ERR);
    begin(ac);
    loop_run(&loop);
#elif defined(WITH_MACOSX)
    struct loop loop = {0};
    CHECK(redisMacOSAttach(ac, &loop) == REDIS_OK && redisMacOSAttach(ac, &loop) == REDIS_ERR);
    begin(ac);
    loop_run(&loop);
#elif defined(WITH_QT)
    int count = 0;
    QCoreApplication application(count, nullptr);
    RedisQtAdapter adapter;
    CHECK(adapter.setContext(ac) == REDIS_OK && adapter.setContext(ac) == REDIS_ERR);
    begin(ac);
    application.exec();
#endif
}

static void send_pings(redisAsyncContext *ac) {
    redisAsyncSetDisconnectCallback(ac, on_disconnect);
    for (int i = 0; i < 200; i++) CHECK(redisAsyncCommand(ac, on_reply, NULL, "ECHO %01000d", i) == REDIS_OK);
}

static void send_endless(redisAsyncContext *ac) {
    struct timeval soon = {0, 50000};
    redisAsyncSetDisconnectCallback(ac, on_disconnect);
    redisAsyncSetTimeout(ac, soon);
    redisAsyncCommand(ac, on_reply, NULL, "BLPOP none 0");
}

static void on_late(redisAsyncContext *ac, void *reply, void *privdata) {
    (void)privdata;
    CHECK(reply == NULL && ac->err == REDIS_ERR_TIMEOUT);
    nulls++;
}

/* A command that is late, on a connection that goes on. */
static void send_late(redisAsyncContext *ac) {
    struct timeval soon = {0, 50000};
    redisAsyncSetDisconnectCallback(ac, on_disconnect);
    redisAsyncCommand(ac, NULL, NULL, "BLPOP none 0.2");
    CHECK(mantissaAsyncCommandWithin(ac, soon, on_late, NULL, "PING") == REDIS_OK);
    CHECK(redisAsyncCommand(ac, on_reply, NULL, "PING") == REDIS_OK);
}

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    attach_and_run(redisAsyncConnect("127.0.0.1", atoi(argv[1])), send_pings);
    CHECK(replies == 200 && nulls == 0 && disconnected == 1 && last_status == REDIS_OK);
    attach_and_run(redisAsyncConnect("127.0.0.1", atoi(argv[1])), send_endless);
    CHECK(nulls == 1 && disconnected == 2 && last_status == REDIS_ERR);
    replies = 199;
    attach_and_run(redisAsyncConnect("127.0.0.1", atoi(argv[1])), send_late);
    CHECK(replies == 200 && nulls == 2 && disconnected == 3 && last_status == REDIS_OK);
    return check_end(NAME);
}
