/* Built against what `make install` has made, as a program of the one or the other library is. */
#ifdef VALKEY_NAMES
#include <valkey/async.h>
#include <valkey/valkey.h>

int main(void) {
    valkeyReader *reader = valkeyReaderCreate();
    void *reply = NULL;
    valkeyReaderFeed(reader, "+OK\r\n", 5);
    if (valkeyReaderGetReply(reader, &reply) != VALKEY_OK ||
        ((valkeyReply *)reply)->type != VALKEY_REPLY_STATUS)
        return 1;
    freeReplyObject(reply);
    valkeyReaderFree(reader);
    valkeyOptions options = {0};
    VALKEY_OPTIONS_SET_TCP(&options, "127.0.0.1", 1);
    valkeyAsyncContext *context = valkeyAsyncConnectWithOptions(&options);
    valkeyAsyncFree(context);
    return 0;
}
#else
#include <hiredis.h>
#include <hiredis/async.h>
#include <mantissa/client.h>
#include <mantissa/resp.h>

int main(void) {
    char *command;
    int length = redisFormatCommand(&command, "GET %s", "key");
    redisFreeCommand(command);
    return length == 22 ? 0 : 1;
}
#endif
