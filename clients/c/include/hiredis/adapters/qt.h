/* A context on Qt's event loop, in the thread of the adapter. Qt 5 or 6; no moc is needed. */
#ifndef __HIREDIS_QT_H__
#define __HIREDIS_QT_H__

#include <QObject>
#include <QSocketNotifier>
#include <QTimer>

#include "../async.h"

class RedisQtAdapter : public QObject {
  public:
    explicit RedisQtAdapter(QObject *parent = nullptr) : QObject(parent) {}
    ~RedisQtAdapter() override {
        if (context != nullptr) {
            context->ev.data = nullptr;
            context->ev.addRead = context->ev.delRead = context->ev.addWrite = context->ev.delWrite = nullptr;
            context->ev.cleanup = nullptr;
            context->ev.scheduleTimer = nullptr;
        }
    }

    /* REDIS_ERR if the context has a loop already, or this one a context. */
    int setContext(redisAsyncContext *ac) {
        if (ac->ev.data != nullptr || context != nullptr) return REDIS_ERR;
        context = ac;
        ac->ev.data = this;
        ac->ev.addRead = [](void *data) { self(data)->read(true); };
        ac->ev.delRead = [](void *data) { self(data)->read(false); };
        ac->ev.addWrite = [](void *data) { self(data)->write(true); };
        ac->ev.delWrite = [](void *data) { self(data)->write(false); };
        ac->ev.cleanup = [](void *data) { self(data)->cleanUp(); };
        ac->ev.scheduleTimer = [](void *data, struct timeval tv) { self(data)->schedule(tv); };
        return REDIS_OK;
    }

  private:
    static RedisQtAdapter *self(void *data) { return static_cast<RedisQtAdapter *>(data); }

    void read(bool wanted) { enable(reader, QSocketNotifier::Read, wanted, redisAsyncHandleRead); }
    void write(bool wanted) { enable(writer, QSocketNotifier::Write, wanted, redisAsyncHandleWrite); }

    void enable(QSocketNotifier *&notifier, QSocketNotifier::Type type, bool wanted,
                void (*handle)(redisAsyncContext *)) {
        if (notifier == nullptr) {
            if (!wanted) return;
            notifier = new QSocketNotifier(context->c.fd, type, this);
            connect(notifier, &QSocketNotifier::activated, this, [this, handle] {
                if (context != nullptr) handle(context);
            });
        }
        notifier->setEnabled(wanted);
    }

    void schedule(struct timeval tv) {
        if (timer == nullptr) {
            timer = new QTimer(this);
            timer->setSingleShot(true);
            connect(timer, &QTimer::timeout, this, [this] {
                if (context != nullptr) redisAsyncHandleTimeout(context);
            });
        }
        timer->start(static_cast<int>(tv.tv_sec * 1000 + (tv.tv_usec + 999) / 1000));
    }

    /* The objects may be those that are just calling: Qt deletes them later. */
    void cleanUp() {
        context = nullptr;
        for (QSocketNotifier **notifier : {&reader, &writer}) {
            if (*notifier == nullptr) continue;
            (*notifier)->setEnabled(false);
            (*notifier)->deleteLater();
            *notifier = nullptr;
        }
        if (timer == nullptr) return;
        timer->stop();
        timer->deleteLater();
        timer = nullptr;
    }

    redisAsyncContext *context = nullptr;
    QSocketNotifier *reader = nullptr;
    QSocketNotifier *writer = nullptr;
    QTimer *timer = nullptr;
};

#endif
