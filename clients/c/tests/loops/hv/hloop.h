/* As much of libhv as the adapter uses. */
#include <stdint.h>
#include <stdlib.h>

#include "../loop.h"

typedef struct loop hloop_t;
typedef struct hio_s hio_t;
typedef struct htimer_s htimer_t;
typedef void (*hio_cb)(hio_t *io);
typedef void (*htimer_cb)(htimer_t *timer);
enum { HV_READ = 1, HV_WRITE = 4, HV_RDWR = HV_READ | HV_WRITE };

/* Both begin with what is common to all events. */
struct hevent_s {
    hloop_t *loop;
    void *userdata;
};

struct hio_s {
    struct hevent_s event;
    hio_cb ready;
    int revents;
};

struct htimer_s {
    struct hevent_s event;
    htimer_cb late;
};

#define hevent_loop(ev) (((struct hevent_s *)(ev))->loop)
#define hevent_userdata(ev) (((struct hevent_s *)(ev))->userdata)
#define hevent_set_userdata(ev, data) (((struct hevent_s *)(ev))->userdata = (void *)(data))

/* The loop has one for each socket, also when nothing is waited for. */
static hio_t hv_io;

static inline hio_t *hio_get(hloop_t *loop, int fd) {
    hv_io = (hio_t){{loop, NULL}, NULL, 0};
    loop->fd = fd;
    return &hv_io;
}

static inline int hio_revents(hio_t *io) { return io->revents; }

static void hv_event(struct loop *loop, int fd, void *data, int mask) {
    hio_t *io = (hio_t *)data;
    (void)loop, (void)fd;
    io->revents = mask == LOOP_READABLE ? HV_READ : HV_WRITE;
    io->ready(io);
}

static inline int hv_mask(int events) {
    return (events & HV_READ ? LOOP_READABLE : 0) | (events & HV_WRITE ? LOOP_WRITABLE : 0);
}

static inline int hio_add(hio_t *io, hio_cb ready, int events) {
    struct loop *loop = io->event.loop;
    io->ready = ready;
    loop->mask |= hv_mask(events);
    loop->ready[hv_mask(events)] = hv_event;
    loop->data[hv_mask(events)] = io;
    return 0;
}

static inline int hio_del(hio_t *io, int events) {
    io->event.loop->mask &= ~hv_mask(events);
    return 0;
}

static void hv_timer(struct loop *loop, long long id, void *data) {
    htimer_t *timer = (htimer_t *)data;
    (void)loop, (void)id;
    timer->late(timer);
    free(timer);
}

static inline htimer_t *htimer_add(hloop_t *loop, htimer_cb late, uint32_t timeout_ms, uint32_t repeat) {
    htimer_t *timer = (htimer_t *)malloc(sizeof *timer);
    if (timer == NULL || timeout_ms == 0 || repeat != 1) abort();
    *timer = (htimer_t){{loop, NULL}, late};
    loop_set_timer(loop, timeout_ms, hv_timer, timer);
    return timer;
}

static inline void htimer_del(htimer_t *timer) {
    timer->event.loop->due = 0;
    free(timer);
}
