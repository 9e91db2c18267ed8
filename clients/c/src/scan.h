/* One token of RESP, inline: what mresp_scan and the readers of replies are made of.
 *
 * Guarantees: nothing outside [first, last) is read. The time is that of the token's bytes; a line that comes
 * in pieces is not searched again where `examined` says how much of it has been. */
#ifndef MANTISSA_CLIENT_SCAN_H
#define MANTISSA_CLIENT_SCAN_H

#include <string.h>

#include "config.h"
#include "mantissa/resp.h"

#define MANTISSA_NUMBER_STATIC
#define MANTISSA_NUMBER_IMPLEMENTATION
#include "mantissa_number.h"

ALWAYS_INLINE int scan_is_digit(char c) { return (unsigned char)(c - '0') < 10; }

ALWAYS_INLINE mresp_status scan_bad(mresp_token *token, const char *error) {
    token->error = error;
    return MRESP_BAD;
}

ALWAYS_INLINE mresp_status scan_more(mresp_token *token, size_t needed) {
    token->needed = needed;
    return MRESP_MORE;
}

/* The end of a line at p: sets token->end behind it. */
ALWAYS_INLINE mresp_status scan_line_end(const char *first, const char *p, const char *last,
                                         mresp_token *token, const char *error) {
    if (UNLIKELY(last - p < 2)) {
        if (p < last && *p != '\r') return scan_bad(token, error);
        return scan_more(token, (size_t)(p - first) + 2);
    }
    if (UNLIKELY(p[0] != '\r' || p[1] != '\n')) return scan_bad(token, error);
    token->end = p + 2;
    return MRESP_OK;
}

/* A line of an integer, behind the byte of its type. */
ALWAYS_INLINE mresp_status scan_integer(const char *first, const char *last, mresp_token *token,
                                        const char *error) {
    const char *p = first + 1;
    int negative = p < last && *p == '-';
    p += negative;
    const char *digits = p, *digits_max = last - p > 19 ? p + 19 : last;
    uint64_t value = 0;
    while (p < digits_max && scan_is_digit(*p)) value = value * 10 + (uint64_t)(*p++ - '0');
    if (UNLIKELY(p == last)) {
        if (p - digits > 1 && *digits == '0') return scan_bad(token, error);
        return scan_more(token, (size_t)(p - first) + 2 + (p == digits));
    }
    /* Nineteen digits fit in 64 bits without a sign; a zero stands alone. */
    if (UNLIKELY(p == digits || (*digits == '0' && (p - digits > 1 || negative))))
        return scan_bad(token, error);
    if (UNLIKELY(value > (uint64_t)INT64_MAX + (uint64_t)negative)) return scan_bad(token, error);
    token->integer = negative ? (int64_t)(0 - value) : (int64_t)value;
    return scan_line_end(first, p, last, token, error);
}

/* A line of text: status, error, big number. */
ALWAYS_INLINE mresp_status scan_text(const char *first, const char *last, mresp_token *token,
                                     size_t examined) {
    const char *p = first + 1 + examined;
    for (;; p++) {
        while (p < last && (unsigned char)*p > '\r') p++;
        if (p == last || *p == '\r' || *p == '\n') break;
    }
    token->text = first + 1;
    token->length = (size_t)(p - first) - 1;
    if (p == last) return scan_more(token, token->length + 3);
    return scan_line_end(first, p, last, token, "Bad simple string value");
}

static OUTLINE mresp_status scan_big_number(const char *first, const char *last, mresp_token *token,
                                            size_t examined) {
    mresp_status status = scan_text(first, last, token, examined);
    if (status == MRESP_BAD) return scan_bad(token, "Bad bignum value");
    size_t from = examined ? examined : token->length > 0 && token->text[0] == '-';
    for (size_t i = from; i < token->length; i++) {
        if (!scan_is_digit(token->text[i])) return scan_bad(token, "Bad bignum value");
    }
    return status;
}

/* A double that is not written as JSON would: a name, zeros or a plus in front, or a mistake. */
static OUTLINE mresp_status scan_double_rare(const char *first, const char *last, mresp_token *token) {
    static const char bad[] = "Bad double value";
    const char *p = first + 1, *end = p;
    while (end < last && *end != '\r' && end - p <= MRESP_DOUBLE_MAX) end++;
    if (end - p > MRESP_DOUBLE_MAX) return scan_bad(token, "Double value is too large");
    if (end == last) return scan_more(token, (size_t)(end - first) + 2);
    size_t length = (size_t)(end - p);
    token->text = p;
    token->length = length;
    int minus = length > 0 && *p == '-';
    if (length - (size_t)minus == 3 && memcmp(p + minus, "inf", 3) == 0) {
        static const double largest = 1.7976931348623157e308;
        token->number = minus ? -largest * 10 : largest * 10;
    } else if (length - (size_t)minus == 3 && memcmp(p + minus, "nan", 3) == 0) {
        /* No sign is documented for it, but servers have sent one. */
        static const uint64_t bits = 0x7ff8000000000000u;
        memcpy(&token->number, &bits, sizeof bits);
    } else {
        const char *point = memchr(p, '.', length);
        const char *digit = p + (length > 0 && (*p == '-' || *p == '+'));
        if (digit == end || !scan_is_digit(*digit)) return scan_bad(token, bad);
        if (point != NULL && (point + 1 == end || !scan_is_digit(point[1]))) return scan_bad(token, bad);
        mn_result result = mn_parse_f64(p, end, &token->number);
        if (result.end != end || result.status == MN_INVALID) return scan_bad(token, bad);
        /* Too large is no double; too small is a zero. */
        if (result.status == MN_OUT_OF_RANGE && token->number != 0) return scan_bad(token, bad);
    }
    return scan_line_end(first, end, last, token, bad);
}

/* Doubles that begin with a digit or a minus and a digit. The reader of numbers allows a point without digits
 * behind it, which RESP3 does not: the digits in front of it are few. */
ALWAYS_INLINE mresp_status scan_double(const char *first, const char *last, mresp_token *token) {
    const char *p = first + 1, *digit = p + (p < last && *p == '-');
    if (LIKELY(digit < last && scan_is_digit(*digit))) {
        mn_result result = mn_parse_f64(p, last, &token->number);
        const char *end = result.end;
        do digit++;
        while (digit < end && scan_is_digit(*digit));
        int whole = digit == end || *digit != '.' || (digit + 1 < end && scan_is_digit(digit[1]));
        if (LIKELY(whole && result.status == MN_OK && last - end >= 2 && end[0] == '\r' && end[1] == '\n' &&
                   end - p <= MRESP_DOUBLE_MAX)) {
            token->text = p;
            token->length = (size_t)(end - p);
            token->end = end + 2;
            return MRESP_OK;
        }
    }
    return scan_double_rare(first, last, token);
}

ALWAYS_INLINE mresp_status scan_bulk(const char *first, const char *last, mresp_token *token) {
    mresp_status status = scan_integer(first, last, token, "Bad bulk string length");
    if (UNLIKELY(status != MRESP_OK)) return status;
    if (UNLIKELY(token->integer < 0)) {
        if (token->integer < -1) return scan_bad(token, "Bulk string length out of range");
        token->type = MRESP_NULL;
        return MRESP_OK;
    }
    const char *text = token->end;
    /* No block of memory is larger than half of what a pointer can say. */
    if (UNLIKELY((uint64_t)token->integer > (uint64_t)(PTRDIFF_MAX - 64))) {
        return scan_bad(token, "Bulk string length out of range");
    }
    size_t length = (size_t)token->integer;
    if ((size_t)(last - text) < length + 2) return scan_more(token, (size_t)(text - first) + length + 2);
    token->text = text;
    token->length = length;
    return scan_line_end(first, text + length, last, token, "Bad end of bulk string");
}

static OUTLINE mresp_status scan_verbatim(const char *first, const char *last, mresp_token *token) {
    mresp_status status = scan_bulk(first, last, token);
    if (status != MRESP_OK || token->type == MRESP_NULL) return status;
    if (token->length < 4 || token->text[3] != ':') {
        return scan_bad(token, "Verbatim string 4 bytes of content type are missing or incorrectly encoded.");
    }
    memcpy(token->format, token->text, 3);
    token->format[3] = 0;
    token->text += 4;
    token->length -= 4;
    return MRESP_OK;
}

ALWAYS_INLINE mresp_status scan_aggregate(const char *first, const char *last, mresp_token *token, int type) {
    token->type = type;
    mresp_status status = scan_integer(first, last, token, "Bad multi-bulk length");
    if (UNLIKELY(status != MRESP_OK)) return status;
    if (UNLIKELY(token->integer < 0)) {
        if (token->integer < -1) return scan_bad(token, "Multi-bulk length out of range");
        token->type = MRESP_NULL;
    } else if (type == MRESP_MAP || type == MRESP_ATTRIBUTE) {
        if (token->integer > INT64_MAX / 2) return scan_bad(token, "Multi-bulk length out of range");
        token->integer *= 2;
    }
    return MRESP_OK;
}

static OUTLINE mresp_status scan_short(const char *first, const char *last, mresp_token *token, int type) {
    token->type = type;
    if (type == MRESP_NULL) return scan_line_end(first, first + 1, last, token, "Bad nil value");
    static const char bad[] = "Bad bool value";
    if (last - first < 2) return scan_more(token, 4);
    char letter = (char)(first[1] | 0x20);
    if (letter != 't' && letter != 'f') return scan_bad(token, bad);
    token->integer = letter == 't';
    return scan_line_end(first, first + 2, last, token, bad);
}

ALWAYS_INLINE mresp_status scan_token(const char *first, const char *last, mresp_token *token,
                                      size_t examined) {
    if (UNLIKELY(first == last)) return scan_more(token, 3);
    switch (*first) {
    case '$': token->type = MRESP_STRING; return scan_bulk(first, last, token);
    case ',': token->type = MRESP_DOUBLE; return scan_double(first, last, token);
    case ':': token->type = MRESP_INTEGER; return scan_integer(first, last, token, "Bad integer value");
    case '*': return scan_aggregate(first, last, token, MRESP_ARRAY);
    case '%': return scan_aggregate(first, last, token, MRESP_MAP);
    case '~': return scan_aggregate(first, last, token, MRESP_SET);
    case '>': return scan_aggregate(first, last, token, MRESP_PUSH);
    case '|': return scan_aggregate(first, last, token, MRESP_ATTRIBUTE);
    case '+': token->type = MRESP_STATUS; return scan_text(first, last, token, examined);
    case '-': token->type = MRESP_ERROR; return scan_text(first, last, token, examined);
    case '(': token->type = MRESP_BIG_NUMBER; return scan_big_number(first, last, token, examined);
    case '_': return scan_short(first, last, token, MRESP_NULL);
    case '#': return scan_short(first, last, token, MRESP_BOOLEAN);
    case '=': token->type = MRESP_VERBATIM; return scan_verbatim(first, last, token);
    default: return scan_bad(token, NULL);
    }
}

/* Of a token that is not complete: how much of its text need not be searched again. */
ALWAYS_INLINE size_t scan_examined(const char *first, const char *last) {
    return last - first > 2 ? (size_t)(last - first) - 2 : 0;
}

/* Arrays, maps, sets, attributes and pushes: what has elements. */
ALWAYS_INLINE int scan_is_aggregate(int type) {
    enum {
        SET = 1 << MRESP_ARRAY | 1 << MRESP_MAP | 1 << MRESP_SET | 1 << MRESP_ATTRIBUTE | 1 << MRESP_PUSH
    };
    return (unsigned)type < 31 && (SET >> type & 1);
}

#endif
