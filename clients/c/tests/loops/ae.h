/* As much of ae as the adapter uses. */
#include "loop.h"

typedef struct loop aeEventLoop;
typedef void aeFileProc(aeEventLoop *loop, int fd, void *data, int mask);
typedef int aeTimeProc(aeEventLoop *loop, long long id, void *data);
enum { AE_READABLE = LOOP_READABLE, AE_WRITABLE = LOOP_WRITABLE, AE_NOMORE = -1 };

static aeTimeProc *ae_late;

static void ae_timer(struct loop *loop, long long id, void *data) { ae_late(loop, id, data); }

static inline int aeCreateFileEvent(aeEventLoop *loop, int fd, int mask, aeFileProc *proc, void *data) {
    loop->fd = fd;
    loop->mask |= mask;
    loop->ready[mask] = proc;
    loop->data[mask] = data;
    return 0;
}

static inline void aeDeleteFileEvent(aeEventLoop *loop, int fd, int mask) {
    (void)fd;
    loop->mask &= ~mask;
}

static inline long long aeCreateTimeEvent(aeEventLoop *loop, long long ms, aeTimeProc *proc, void *data,
                                          void *finalizer) {
    (void)finalizer;
    ae_late = proc;
    loop_set_timer(loop, ms, ae_timer, data);
    return loop->timer_id;
}

static inline int aeDeleteTimeEvent(aeEventLoop *loop, long long id) {
    if (id == loop->timer_id) loop->due = 0;
    return 0;
}
