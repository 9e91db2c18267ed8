/* As much of the interface of modules as the adapter uses. */
#include <stddef.h>
#include <stdint.h>

#include "loop.h"

typedef struct RedisModuleCtx RedisModuleCtx;
typedef uint64_t RedisModuleTimerID;
typedef long long mstime_t;
typedef void (*RedisModuleEventLoopFunc)(int fd, void *data, int mask);
typedef void (*RedisModuleTimerProc)(RedisModuleCtx *ctx, void *data);
enum { REDISMODULE_OK = 0, REDISMODULE_EVENTLOOP_READABLE = 1, REDISMODULE_EVENTLOOP_WRITABLE = 2 };

static struct loop module_loop;
static RedisModuleEventLoopFunc module_ready[3];
static RedisModuleTimerProc module_late;

static void module_event(struct loop *loop, int fd, void *data, int mask) {
    (void)loop;
    module_ready[mask](fd, data, mask);
}

static void module_timer(struct loop *loop, long long id, void *data) {
    (void)loop, (void)id;
    module_late(NULL, data);
}

static int event_loop_add(int fd, int mask, RedisModuleEventLoopFunc func, void *data) {
    module_loop.fd = fd;
    module_loop.mask |= mask;
    module_loop.ready[mask] = module_event;
    module_loop.data[mask] = data;
    module_ready[mask] = func;
    return REDISMODULE_OK;
}

static int event_loop_del(int fd, int mask) {
    (void)fd;
    module_loop.mask &= ~mask;
    return REDISMODULE_OK;
}

static RedisModuleTimerID create_timer(RedisModuleCtx *ctx, mstime_t period, RedisModuleTimerProc late,
                                       void *data) {
    (void)ctx;
    module_late = late;
    loop_set_timer(&module_loop, period, module_timer, data);
    return (RedisModuleTimerID)module_loop.timer_id;
}

static int stop_timer(RedisModuleCtx *ctx, RedisModuleTimerID id, void **data) {
    (void)ctx, (void)id, (void)data;
    module_loop.due = 0;
    return REDISMODULE_OK;
}

static int (*RedisModule_EventLoopAdd)(int, int, RedisModuleEventLoopFunc, void *) = event_loop_add;
static int (*RedisModule_EventLoopDel)(int, int) = event_loop_del;
static RedisModuleTimerID (*RedisModule_CreateTimer)(RedisModuleCtx *, mstime_t, RedisModuleTimerProc,
                                                     void *) = create_timer;
static int (*RedisModule_StopTimer)(RedisModuleCtx *, RedisModuleTimerID, void **) = stop_timer;
