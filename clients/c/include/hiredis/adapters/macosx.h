/* A context on a run loop of macOS. */
#ifndef __HIREDIS_MACOSX_H__
#define __HIREDIS_MACOSX_H__

#include <CoreFoundation/CoreFoundation.h>

#include "../async.h"

typedef struct RedisRunLoop {
    redisAsyncContext *context;
    CFRunLoopRef loop;
    CFSocketRef socketRef;
    CFRunLoopSourceRef sourceRef;
    CFRunLoopTimerRef timerRef; /* NULL when none is set */
} RedisRunLoop;

static inline void redisMacOSAddRead(void *privdata) {
    CFSocketEnableCallBacks(((RedisRunLoop *)privdata)->socketRef, kCFSocketReadCallBack);
}

static inline void redisMacOSDelRead(void *privdata) {
    CFSocketDisableCallBacks(((RedisRunLoop *)privdata)->socketRef, kCFSocketReadCallBack);
}

static inline void redisMacOSAddWrite(void *privdata) {
    CFSocketEnableCallBacks(((RedisRunLoop *)privdata)->socketRef, kCFSocketWriteCallBack);
}

static inline void redisMacOSDelWrite(void *privdata) {
    CFSocketDisableCallBacks(((RedisRunLoop *)privdata)->socketRef, kCFSocketWriteCallBack);
}

static inline void redisMacOSAsyncCallback(CFSocketRef socket, CFSocketCallBackType type, CFDataRef address,
                                           const void *data, void *info) {
    redisAsyncContext *context = ((RedisRunLoop *)info)->context;
    (void)socket, (void)address, (void)data;
    if (type == kCFSocketReadCallBack) redisAsyncHandleRead(context);
    if (type == kCFSocketWriteCallBack) redisAsyncHandleWrite(context);
}

static inline void redisMacOSStopTimer(RedisRunLoop *e) {
    if (e->timerRef == NULL) return;
    CFRunLoopTimerInvalidate(e->timerRef);
    CFRelease(e->timerRef);
    e->timerRef = NULL;
}

static inline void redisMacOSTimeout(CFRunLoopTimerRef timer, void *info) {
    RedisRunLoop *e = (RedisRunLoop *)info;
    (void)timer;
    redisMacOSStopTimer(e);
    redisAsyncHandleTimeout(e->context);
}

static inline void redisMacOSSetTimeout(void *privdata, struct timeval tv) {
    RedisRunLoop *e = (RedisRunLoop *)privdata;
    CFRunLoopTimerContext context = {0, e, NULL, NULL, NULL};
    CFAbsoluteTime due = CFAbsoluteTimeGetCurrent() + (double)tv.tv_sec + (double)tv.tv_usec / 1e6;
    redisMacOSStopTimer(e);
    e->timerRef = CFRunLoopTimerCreate(NULL, due, 0, 0, 0, redisMacOSTimeout, &context);
    if (e->timerRef != NULL) CFRunLoopAddTimer(e->loop, e->timerRef, kCFRunLoopDefaultMode);
}

static inline void redisMacOSCleanup(void *privdata) {
    RedisRunLoop *e = (RedisRunLoop *)privdata;
    redisMacOSStopTimer(e);
    if (e->sourceRef != NULL) {
        CFRunLoopSourceInvalidate(e->sourceRef);
        CFRelease(e->sourceRef);
    }
    if (e->socketRef != NULL) {
        CFSocketInvalidate(e->socketRef);
        CFRelease(e->socketRef);
    }
    hi_free(e);
}

static inline int redisMacOSAttach(redisAsyncContext *ac, CFRunLoopRef runLoop) {
    const CFOptionFlags events = kCFSocketReadCallBack | kCFSocketWriteCallBack;
    if (ac->ev.data != NULL) return REDIS_ERR;
    RedisRunLoop *e = (RedisRunLoop *)hi_calloc(1, sizeof *e);
    if (e == NULL) return REDIS_ERR;
    e->context = ac;
    e->loop = runLoop;
    CFSocketContext context = {0, e, NULL, NULL, NULL};
    e->socketRef = CFSocketCreateWithNative(NULL, ac->c.fd, events, redisMacOSAsyncCallback, &context);
    if (e->socketRef != NULL) {
        /* The context closes its socket. A callback comes again as long as there is a cause for it. */
        CFOptionFlags flags = CFSocketGetSocketFlags(e->socketRef);
        flags &= ~(CFOptionFlags)kCFSocketCloseOnInvalidate;
        flags |= kCFSocketAutomaticallyReenableReadCallBack | kCFSocketAutomaticallyReenableWriteCallBack;
        CFSocketSetSocketFlags(e->socketRef, flags);
        CFSocketDisableCallBacks(e->socketRef, events);
        e->sourceRef = CFSocketCreateRunLoopSource(NULL, e->socketRef, 0);
    }
    if (e->sourceRef == NULL) {
        redisMacOSCleanup(e);
        return REDIS_ERR;
    }
    CFRunLoopAddSource(runLoop, e->sourceRef, kCFRunLoopDefaultMode);
    ac->ev.data = e;
    ac->ev.addRead = redisMacOSAddRead;
    ac->ev.delRead = redisMacOSDelRead;
    ac->ev.addWrite = redisMacOSAddWrite;
    ac->ev.delWrite = redisMacOSDelWrite;
    ac->ev.cleanup = redisMacOSCleanup;
    ac->ev.scheduleTimer = redisMacOSSetTimeout;
    return REDIS_OK;
}

#endif
