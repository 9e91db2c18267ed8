/* As much of CoreFoundation as the adapter uses. Objects are counted; what is left over is a leak. */
#include <stdlib.h>

#include "../loop.h"

typedef const void *CFTypeRef;
typedef const struct cf_allocator *CFAllocatorRef;
typedef const struct cf_data *CFDataRef;
typedef struct loop *CFRunLoopRef;
typedef struct cf_socket *CFSocketRef;
typedef struct cf_socket *CFRunLoopSourceRef;
typedef struct cf_timer *CFRunLoopTimerRef;
typedef unsigned long CFOptionFlags;
typedef CFOptionFlags CFSocketCallBackType;
typedef long CFIndex;
typedef double CFAbsoluteTime, CFTimeInterval;
typedef const char *CFRunLoopMode;
typedef void (*CFSocketCallBack)(CFSocketRef socket, CFSocketCallBackType type, CFDataRef address,
                                 const void *data, void *info);
typedef void (*CFRunLoopTimerCallBack)(CFRunLoopTimerRef timer, void *info);
typedef struct {
    CFIndex version;
    void *info;
    const void *(*retain)(const void *info);
    void (*release)(const void *info);
    CFTypeRef (*copyDescription)(const void *info);
} CFSocketContext, CFRunLoopTimerContext;

static const CFRunLoopMode kCFRunLoopDefaultMode = "default";
enum { kCFSocketReadCallBack = 1, kCFSocketWriteCallBack = 8 };
enum {
    kCFSocketAutomaticallyReenableReadCallBack = 1,
    kCFSocketAutomaticallyReenableWriteCallBack = 8,
    kCFSocketCloseOnInvalidate = 128
};

/* Each object begins with its count of references. */
struct cf_socket {
    int references;
    struct loop *loop;
    int fd, mask;
    CFOptionFlags flags;
    CFSocketCallBack call;
    void *info;
};

struct cf_timer {
    int references;
    struct loop *loop;
    CFTimeInterval seconds;
    CFRunLoopTimerCallBack late;
    void *info;
};

static inline void CFRelease(CFTypeRef object) {
    if (--*(int *)object == 0) free((void *)object);
}

static inline CFAbsoluteTime CFAbsoluteTimeGetCurrent(void) { return (double)loop_now() / 1e3; }

static void cf_event(struct loop *loop, int fd, void *data, int mask) {
    struct cf_socket *socket = (struct cf_socket *)data;
    (void)loop, (void)fd;
    socket->references++;
    socket->call(socket, mask == LOOP_READABLE ? kCFSocketReadCallBack : kCFSocketWriteCallBack, NULL, NULL,
                 socket->info);
    CFRelease(socket);
}

static inline int cf_mask(CFOptionFlags events) {
    return (events & kCFSocketReadCallBack ? LOOP_READABLE : 0) |
           (events & kCFSocketWriteCallBack ? LOOP_WRITABLE : 0);
}

static inline void cf_apply(CFSocketRef socket) {
    if (socket->loop == NULL) return;
    socket->loop->fd = socket->fd;
    socket->loop->mask = socket->mask;
}

static inline CFSocketRef CFSocketCreateWithNative(CFAllocatorRef allocator, int fd, CFOptionFlags events,
                                                   CFSocketCallBack call, const CFSocketContext *context) {
    CFSocketRef socket = (CFSocketRef)calloc(1, sizeof *socket);
    (void)allocator;
    socket->references = 1;
    socket->fd = fd;
    socket->mask = cf_mask(events);
    socket->flags = kCFSocketAutomaticallyReenableReadCallBack | kCFSocketCloseOnInvalidate;
    socket->call = call;
    socket->info = context->info;
    return socket;
}

static inline CFOptionFlags CFSocketGetSocketFlags(CFSocketRef socket) { return socket->flags; }

static inline void CFSocketSetSocketFlags(CFSocketRef socket, CFOptionFlags flags) {
    socket->flags = flags;
    /* This loop enables callbacks again and closes nothing. */
    if (flags != (kCFSocketAutomaticallyReenableReadCallBack | kCFSocketAutomaticallyReenableWriteCallBack))
        abort();
}

static inline void CFSocketEnableCallBacks(CFSocketRef socket, CFOptionFlags events) {
    socket->mask |= cf_mask(events);
    cf_apply(socket);
}

static inline void CFSocketDisableCallBacks(CFSocketRef socket, CFOptionFlags events) {
    socket->mask &= ~cf_mask(events);
    cf_apply(socket);
}

/* The source is the socket. */
static inline CFRunLoopSourceRef CFSocketCreateRunLoopSource(CFAllocatorRef allocator, CFSocketRef socket,
                                                             CFIndex order) {
    (void)allocator, (void)order;
    socket->references++;
    return socket;
}

static inline void CFRunLoopAddSource(CFRunLoopRef loop, CFRunLoopSourceRef source, CFRunLoopMode mode) {
    (void)mode;
    source->loop = loop;
    for (int each = LOOP_READABLE; each <= LOOP_WRITABLE; each++) {
        loop->ready[each] = cf_event;
        loop->data[each] = source;
    }
    cf_apply(source);
}

static inline void CFSocketInvalidate(CFSocketRef socket) {
    socket->mask = 0;
    cf_apply(socket);
    socket->loop = NULL;
}

static inline void CFRunLoopSourceInvalidate(CFRunLoopSourceRef source) { CFSocketInvalidate(source); }

static inline CFRunLoopTimerRef CFRunLoopTimerCreate(CFAllocatorRef allocator, CFAbsoluteTime due,
                                                     CFTimeInterval interval, CFOptionFlags flags,
                                                     CFIndex order, CFRunLoopTimerCallBack late,
                                                     const CFRunLoopTimerContext *context) {
    CFRunLoopTimerRef timer = (CFRunLoopTimerRef)calloc(1, sizeof *timer);
    (void)allocator, (void)interval, (void)flags, (void)order;
    timer->references = 1;
    timer->seconds = due - CFAbsoluteTimeGetCurrent();
    timer->late = late;
    timer->info = context->info;
    return timer;
}

static void cf_late(struct loop *loop, long long id, void *data) {
    struct cf_timer *timer = (struct cf_timer *)data;
    (void)loop, (void)id;
    timer->references++;
    timer->late(timer, timer->info);
    CFRelease(timer);
}

static inline void CFRunLoopAddTimer(CFRunLoopRef loop, CFRunLoopTimerRef timer, CFRunLoopMode mode) {
    (void)mode;
    timer->loop = loop;
    loop_set_timer(loop, (long long)(timer->seconds * 1e3) + 1, cf_late, timer);
}

static inline void CFRunLoopTimerInvalidate(CFRunLoopTimerRef timer) {
    if (timer->loop != NULL) timer->loop->due = 0;
}
