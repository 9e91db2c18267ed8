/* Which callback a message of Pub/Sub goes to.
 *
 * Names of channels and patterns are in hash tables with chains. Their counters tell confirmations that
 * belong to a callback from those that do not, so that commands may be pipelined in any order. */
#include "config.h"

#include <string.h>

#include "async_internal.h"
#include "scan.h"

struct entry {
    struct entry *next;
    redisCallback callback;
    size_t length;
    uint32_t hash;
    char name[];
};

struct dict {
    struct entry **slots;
    size_t slot_count; /* a power of two */
    size_t count;
};

/* FNV-1a. The names are the program's own. */
static uint32_t hash_of(const char *name, size_t length) {
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < length; i++) hash = (hash ^ (unsigned char)name[i]) * 16777619u;
    return hash;
}

struct dict *subscriptions_new(void) {
    return hi_calloc(1, sizeof(struct dict));
}

/* The link to the entry of this name, which is NULL if there is none. NULL without slots. */
static struct entry **find_link(struct dict *dict, const char *name, size_t length) {
    if (dict->slot_count == 0) return NULL;
    uint32_t hash = hash_of(name, length);
    struct entry **link = &dict->slots[hash & (dict->slot_count - 1)];
    while (*link != NULL &&
           ((*link)->hash != hash || (*link)->length != length || memcmp((*link)->name, name, length) != 0)) {
        link = &(*link)->next;
    }
    return link;
}

static struct entry *find(struct dict *dict, const char *name, size_t length) {
    struct entry **link = find_link(dict, name, length);
    return link == NULL ? NULL : *link;
}

static int grow(struct dict *dict) {
    size_t slot_count = dict->slot_count == 0 ? 8 : dict->slot_count * 2;
    struct entry **slots = hi_calloc(slot_count, sizeof *slots);
    if (slots == NULL) return REDIS_ERR;
    for (size_t i = 0; i < dict->slot_count; i++) {
        for (struct entry *entry = dict->slots[i], *next; entry != NULL; entry = next) {
            next = entry->next;
            struct entry **slot = &slots[entry->hash & (slot_count - 1)];
            entry->next = *slot;
            *slot = entry;
        }
    }
    hi_free(dict->slots);
    dict->slots = slots;
    dict->slot_count = slot_count;
    return REDIS_OK;
}

static struct entry *insert(struct dict *dict, const char *name, size_t length) {
    if (dict->count >= dict->slot_count && grow(dict) != REDIS_OK) return NULL;
    struct entry *entry = hi_calloc(1, sizeof *entry + length);
    if (entry == NULL) return NULL;
    memcpy(entry->name, name, length);
    entry->length = length;
    entry->hash = hash_of(name, length);
    struct entry **link = find_link(dict, name, length);
    *link = entry;
    dict->count++;
    return entry;
}

static void delete (struct dict *dict, const char *name, size_t length) {
    struct entry **link = find_link(dict, name, length), *entry = link == NULL ? NULL : *link;
    if (entry == NULL) return;
    *link = entry->next;
    hi_free(entry);
    dict->count--;
}

void subscriptions_end(redisAsyncContext *ac, struct dict *dict) {
    if (dict == NULL) return;
    for (size_t i = 0; i < dict->slot_count; i++) {
        for (struct entry *entry = dict->slots[i], *next; entry != NULL; entry = next) {
            next = entry->next;
            if (ac != NULL) async_run(ac, &entry->callback, NULL);
            hi_free(entry);
        }
    }
    hi_free(dict->slots);
    hi_free(dict);
}

/* ---- Commands ---- */

static int same_word(const char *text, size_t length, const char *word) {
    if (length != strlen(word)) return 0;
    for (size_t i = 0; i < length; i++) {
        if ((text[i] | 0x20) != word[i]) return 0;
    }
    return 1;
}

/* The arguments of a formatted command, one after the other. */
struct arguments {
    const char *at, *last;
};

static int next_argument(struct arguments *arguments, mresp_token *token) {
    return mresp_scan(arguments->at, arguments->last, token) == MRESP_OK &&
           (arguments->at = token->end) != NULL && token->type == MRESP_STRING;
}

/* Behind the command's name, which is `name`. */
static int first_argument(struct arguments *arguments, const char *command, size_t length,
                          mresp_token *name) {
    arguments->at = command;
    arguments->last = command + length;
    if (mresp_scan(command, arguments->last, name) != MRESP_OK || name->type != MRESP_ARRAY) return 0;
    arguments->at = name->end;
    return next_argument(arguments, name);
}

static int is_pattern_variant(const mresp_token *name) {
    return name->length > 0 && (name->text[0] | 0x20) == 'p';
}

enum command_kind command_kind(const char *command, size_t length) {
    struct arguments arguments;
    mresp_token name;
    if (!first_argument(&arguments, command, length, &name)) return OTHER_COMMAND;
    if (same_word(name.text, name.length, "monitor")) return MONITORS;
    size_t skipped = (size_t)is_pattern_variant(&name);
    const char *word = name.text + skipped;
    if (same_word(word, name.length - skipped, "unsubscribe")) return UNSUBSCRIBES;
    if (same_word(word, name.length - skipped, "subscribe") && arguments.at < arguments.last)
        return SUBSCRIBES;
    return OTHER_COMMAND;
}

int note_subscribe(redisAsyncContext *ac, redisCallbackFn *fn, void *privdata, const char *command,
                   size_t length) {
    struct arguments arguments;
    mresp_token token;
    if (!first_argument(&arguments, command, length, &token)) return REDIS_ERR;
    struct dict *dict = is_pattern_variant(&token) ? ac->sub.patterns : ac->sub.channels;
    ac->c.flags |= REDIS_SUBSCRIBED;
    while (next_argument(&arguments, &token)) {
        struct entry *entry = find(dict, token.text, token.length);
        if (entry == NULL && (entry = insert(dict, token.text, token.length)) == NULL) return REDIS_ERR;
        entry->callback.fn = fn;
        entry->callback.privdata = privdata;
        entry->callback.pending_subs++;
        entry->callback.unsubscribe_sent = 0;
    }
    return REDIS_OK;
}

/* UNSUBSCRIBE without arguments is of all channels; of none, it still has one confirmation. */
static void note_unsubscribe_all(redisAsyncContext *ac, struct dict *dict) {
    int any = 0;
    for (size_t i = 0; i < dict->slot_count; i++) {
        for (struct entry *entry = dict->slots[i]; entry != NULL; entry = entry->next) {
            any |= !entry->callback.unsubscribe_sent;
            entry->callback.unsubscribe_sent = 1;
        }
    }
    if (!any) ac->sub.pending_unsubs++;
}

int note_unsubscribe(redisAsyncContext *ac, const char *command, size_t length) {
    struct arguments arguments;
    mresp_token token;
    if (!(ac->c.flags & REDIS_SUBSCRIBED) || !first_argument(&arguments, command, length, &token))
        return REDIS_ERR;
    struct dict *dict = is_pattern_variant(&token) ? ac->sub.patterns : ac->sub.channels;
    if (arguments.at == arguments.last) note_unsubscribe_all(ac, dict);
    while (next_argument(&arguments, &token)) {
        struct entry *entry = find(dict, token.text, token.length);
        if (entry == NULL || entry->callback.unsubscribe_sent) {
            ac->sub.pending_unsubs++;
        } else {
            entry->callback.unsubscribe_sent = 1;
        }
    }
    return REDIS_OK;
}

/* ---- Replies ---- */

int is_subscription_reply(const redisReply *reply) {
    if (reply->elements < 3 || reply->element[0]->type != REDIS_REPLY_STRING) return 0;
    const char *word = reply->element[0]->str;
    size_t length = reply->element[0]->len;
    if (length > 0 && (word[0] | 0x20) == 'p') {
        word++;
        length--;
    }
    return same_word(word, length, "message") || same_word(word, length, "subscribe") ||
           same_word(word, length, "unsubscribe");
}

/* A confirmation that the last subscription is gone: replies belong to commands again. */
static void leave_subscribed(redisAsyncContext *ac) {
    ac->c.flags &= ~REDIS_SUBSCRIBED;
    callbacks_join(&ac->replies, &ac->sub.replies);
}

int subscription_callback(redisAsyncContext *ac, redisReply *reply, redisCallback *found) {
    int message = reply->type == REDIS_REPLY_PUSH ||
                  (reply->type == REDIS_REPLY_ARRAY && !(ac->c.flags & REDIS_SUPPORTS_PUSH));
    found->fn = NULL;
    if (!message || !is_subscription_reply(reply)) {
        redisCallback *callback = callbacks_take(&ac->sub.replies);
        if (callback != NULL) {
            *found = *callback;
            hi_free(callback);
        }
        return REDIS_OK;
    }
    const redisReply *word = reply->element[0], *name = reply->element[1];
    size_t pattern = (word->str[0] | 0x20) == 'p';
    struct dict *dict = pattern ? ac->sub.patterns : ac->sub.channels;
    struct entry *entry = name->type == REDIS_REPLY_STRING ? find(dict, name->str, name->len) : NULL;
    if (entry != NULL) *found = entry->callback;
    if (same_word(word->str + pattern, word->len - pattern, "subscribe")) {
        if (entry != NULL) entry->callback.pending_subs--;
    } else if (same_word(word->str + pattern, word->len - pattern, "unsubscribe")) {
        if (entry == NULL) {
            ac->sub.pending_unsubs--;
        } else if (entry->callback.pending_subs == 0) {
            delete (dict, name->str, name->len);
        }
        const redisReply *left = reply->element[2];
        if (left->type == REDIS_REPLY_INTEGER && left->integer == 0 && ac->sub.channels->count == 0 &&
            ac->sub.patterns->count == 0 && ac->sub.pending_unsubs == 0) {
            leave_subscribed(ac);
        }
    }
    return REDIS_OK;
}
