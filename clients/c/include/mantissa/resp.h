/* RESP2 and RESP3 without input and output: tokens from bytes, commands into bytes. Nothing is allocated, no
 * socket is touched, and all memory is the caller's.
 *
 * Reading. mresp_scan reads one token from [first, last). It says MRESP_MORE until the token is complete, so
 * the bytes may come in pieces of any size: try again from the same place with more of them. mresp_next does
 * the same and keeps track of nesting in frames that the caller gives.
 *
 * Numbers are strict: an integer has no plus and no zero in front, a double is what RESP3 allows (",inf",
 * ",-inf",
 * ",nan", digits with a fraction and an exponent; no spaces, no hexadecimal), correctly rounded in every
 * locale. */
#ifndef MANTISSA_RESP_H
#define MANTISSA_RESP_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The numbers are those of REDIS_REPLY_... in hiredis/read.h. */
typedef enum {
    MRESP_STRING = 1,
    MRESP_ARRAY = 2,
    MRESP_INTEGER = 3,
    MRESP_NULL = 4,
    MRESP_STATUS = 5,
    MRESP_ERROR = 6,
    MRESP_DOUBLE = 7,
    MRESP_BOOLEAN = 8,
    MRESP_MAP = 9,
    MRESP_SET = 10,
    MRESP_ATTRIBUTE = 11,
    MRESP_PUSH = 12,
    MRESP_BIG_NUMBER = 13,
    MRESP_VERBATIM = 14
} mresp_type;

typedef enum { MRESP_OK = 0, MRESP_MORE, MRESP_BAD } mresp_status;

enum {
    MRESP_DOUBLE_MAX = 325 /* bytes of a double's text */
};

typedef struct {
    int type;         /* mresp_type */
    int64_t integer;  /* an integer, 1 or 0 of a boolean, the number of elements of an aggregate (pairs count
                         twice) */
    double number;    /* of a double */
    const char *text; /* of strings of all kinds, big numbers and doubles, without what RESP puts around it */
    size_t length;    /* of the text */
    char format[4];   /* of a verbatim string, with a NUL: "txt" */
    const char *end;  /* MRESP_OK: where the next token begins */
    size_t needed;    /* MRESP_MORE: bytes that the token has at least, counted from its first one */
    const char *error; /* MRESP_BAD: what is wrong; NULL if it is the first byte, which names no type */
} mresp_token;

/* Read the token at first. */
mresp_status mresp_scan(const char *first, const char *last, mresp_token *token);

/* A reader of whole replies. frames[i] counts the elements that aggregate i, from the outermost, still waits
 * for. */
typedef struct {
    int64_t *frames;
    int depth;            /* frames in use */
    int depth_max;        /* frames that there are */
    int64_t elements_max; /* of one aggregate; 0 is no limit */
} mresp_reader;

void mresp_reader_init(mresp_reader *reader, int64_t *frames, int depth_max, int64_t elements_max);

/* Read the token at first as the reply goes on. With MRESP_OK, reader->depth is 0 behind the last one. */
mresp_status mresp_next(mresp_reader *reader, const char *first, const char *last, mresp_token *token);

/* Writing. Each function writes at out and returns where it stopped; a command is mresp_write_array(out,
 * arguments) and then one bulk string for each argument. */
enum {
    MRESP_HEADER_MAX = 24, /* bytes that a header may take, the end of its line included */
    MRESP_NUMBER_MAX = 80  /* bytes that a bulk string of a number may take */
};

/* The bytes that a bulk string of this length takes, with what is around it. */
size_t mresp_bulk_size(size_t length);
/* The bytes that the header of an array of so many elements takes. */
size_t mresp_array_size(size_t count);

char *mresp_write_array(char *out, size_t count);
char *mresp_write_bulk(char *out, const void *bytes, size_t length);
char *mresp_write_bulk_i64(char *out, int64_t value);
/* The shortest text that reads back as the same value. */
char *mresp_write_bulk_f64(char *out, double value);

#ifdef __cplusplus
}
#endif

#endif
