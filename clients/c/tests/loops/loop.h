/* A loop of one socket and one timer by poll, behind the interfaces of loops whose headers come with no
 * package: ae, modules, libhv, CoreFoundation. */
#ifndef TEST_LOOP_H
#define TEST_LOOP_H

#include <poll.h>
#include <time.h>

enum { LOOP_READABLE = 1, LOOP_WRITABLE = 2 };

struct loop {
    int fd, mask;
    void (*ready[3])(struct loop *loop, int fd, void *data, int mask); /* by mask */
    void *data[3];
    long long due; /* milliseconds; 0 is none */
    long long timer_id;
    void (*late)(struct loop *loop, long long id, void *data);
    void *timer_data;
};

static inline long long loop_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static inline void loop_set_timer(struct loop *loop, long long ms,
                                  void (*late)(struct loop *, long long, void *), void *data) {
    loop->due = loop_now() + ms;
    loop->timer_id++;
    loop->late = late;
    loop->timer_data = data;
}

/* Until nothing is waited for. */
static inline void loop_run(struct loop *loop) {
    while (loop->mask != 0 || loop->due != 0) {
        int wanted = loop->mask;
        struct pollfd poll_fd = {loop->fd, 0, 0};
        if (wanted & LOOP_READABLE) poll_fd.events |= POLLIN;
        if (wanted & LOOP_WRITABLE) poll_fd.events |= POLLOUT;
        long long left = loop->due == 0 ? -1 : loop->due - loop_now();
        poll(&poll_fd, wanted != 0, loop->due != 0 && left < 0 ? 0 : (int)left);
        if (loop->due != 0 && loop_now() >= loop->due) {
            loop->due = 0;
            loop->late(loop, loop->timer_id, loop->timer_data);
        }
        int failed = poll_fd.revents & (POLLERR | POLLHUP);
        if ((loop->mask & LOOP_READABLE) && (poll_fd.revents & POLLIN || failed))
            loop->ready[LOOP_READABLE](loop, loop->fd, loop->data[LOOP_READABLE], LOOP_READABLE);
        if ((loop->mask & LOOP_WRITABLE) && (poll_fd.revents & POLLOUT || failed))
            loop->ready[LOOP_WRITABLE](loop, loop->fd, loop->data[LOOP_WRITABLE], LOOP_WRITABLE);
    }
}

#endif
