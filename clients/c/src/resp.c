/* RESP without input and output: the functions of mantissa/resp.h. */
#include "scan.h"

mresp_status mresp_scan(const char *first, const char *last, mresp_token *token) {
    return scan_token(first, last, token, 0);
}

void mresp_reader_init(mresp_reader *reader, int64_t *frames, int depth_max, int64_t elements_max) {
    reader->frames = frames;
    reader->depth = 0;
    reader->depth_max = depth_max;
    reader->elements_max = elements_max;
}

mresp_status mresp_next(mresp_reader *reader, const char *first, const char *last, mresp_token *token) {
    mresp_status status = scan_token(first, last, token, 0);
    if (status != MRESP_OK) return status;
    if (scan_is_aggregate(token->type)) {
        if (reader->elements_max > 0 && token->integer > reader->elements_max) {
            return scan_bad(token, "Multi-bulk length out of range");
        }
        if (reader->depth == reader->depth_max) return scan_bad(token, "Max nesting depth exceeded");
        if (token->integer > 0) {
            reader->frames[reader->depth++] = token->integer;
            return MRESP_OK;
        }
    }
    while (reader->depth > 0 && --reader->frames[reader->depth - 1] == 0) reader->depth--;
    return MRESP_OK;
}

static size_t digits_of(size_t value) {
    size_t digits = 1;
    for (; value >= 10; value /= 10) digits++;
    return digits;
}

size_t mresp_array_size(size_t count) { return digits_of(count) + 3; }

size_t mresp_bulk_size(size_t length) { return digits_of(length) + length + 5; }

static char *write_header(char *out, char type, size_t value) {
    *out++ = type;
    char digits[24], *end = digits + sizeof digits, *p = end;
    do *--p = (char)('0' + value % 10);
    while ((value /= 10) != 0);
    memcpy(out, p, (size_t)(end - p));
    out += end - p;
    *out++ = '\r';
    *out++ = '\n';
    return out;
}

char *mresp_write_array(char *out, size_t count) { return write_header(out, '*', count); }

char *mresp_write_bulk(char *out, const void *bytes, size_t length) {
    out = write_header(out, '$', length);
    if (length > 0) memcpy(out, bytes, length);
    out += length;
    *out++ = '\r';
    *out++ = '\n';
    return out;
}

char *mresp_write_bulk_i64(char *out, int64_t value) {
    char text[MN_I64_MAX];
    return mresp_write_bulk(out, text, (size_t)(mn_write_i64(text, value) - text));
}

char *mresp_write_bulk_f64(char *out, double value) {
    char text[MN_F64_MAX];
    return mresp_write_bulk(out, text, (size_t)(mn_write_f64(text, value) - text));
}
