/* Buffers, bodies and numbers, which all protocols use. */
#define _GNU_SOURCE
#include "loadgen.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#define BODIES 64

static uint8_t *bodies;

void fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "loadgen: ");
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "\n");
    va_end(arguments);
    exit(1);
}

void refuse(Answer *answer, const char *what, const void *text, size_t size) {
    snprintf(answer->error, sizeof answer->error, "%s: %.*s", what, (int)(size > 360 ? 360 : size), (const char *)text);
}

int64_t now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

void put_be32(uint8_t *at, uint32_t value) {
    value = __builtin_bswap32(value);
    memcpy(at, &value, sizeof value);
}

uint32_t be32(const uint8_t *at) {
    uint32_t value;
    memcpy(&value, at, sizeof value);
    return __builtin_bswap32(value);
}

uint64_t be64(const uint8_t *at) {
    return (uint64_t)be32(at) << 32 | be32(at + 4);
}

void reserve(Buffer *buffer, size_t size) {
    if (buffer->begin > 0 && buffer->end + size > buffer->capacity) {
        memmove(buffer->data, buffer->data + buffer->begin, buffer->end - buffer->begin);
        buffer->end -= buffer->begin;
        buffer->begin = 0;
    }
    if (buffer->end + size > buffer->capacity) {
        buffer->capacity = 2 * (buffer->end + size);
        buffer->data = realloc(buffer->data, buffer->capacity);
        if (buffer->data == NULL) fail("no memory for %zu bytes", buffer->capacity);
    }
}

uint8_t *room(Connection *connection, size_t size) {
    reserve(&connection->out, size);
    return connection->out.data + connection->out.end;
}

void add(Connection *connection, const void *data, size_t size) {
    memcpy(room(connection, size), data, size);
    connection->out.end += size;
}

void add_text(Connection *connection, const char *format, ...) {
    char text[2048];
    va_list arguments;
    va_start(arguments, format);
    int size = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (size < 0 || (size_t)size >= sizeof text) fail("a request of %d characters", size);
    add(connection, text, (size_t)size);
}

static void make_bodies(void) {
    size_t size = (size_t)BODIES * (size_t)options.size;
    bodies = malloc(size);
    if (bodies == NULL) fail("no memory for %zu bytes", size);
    for (size_t made = 0; made < size;) {
        ssize_t more = getrandom(bodies + made, size - made, 0);
        if (more <= 0) fail("no random bytes: %s", strerror(errno));
        made += (size_t)more;
    }
}

void add_body(Connection *connection, int slot) {
    static uint64_t number;
    if (bodies == NULL) make_bodies();
    add(connection, bodies + (number++ % BODIES) * (size_t)options.size, (size_t)options.size);
    if (options.work == RELAY)
        memcpy(connection->out.data + connection->out.end - options.size, &connection->asked_at[slot], sizeof(int64_t));
}

static uint64_t turn_of(const Connection *connection) {
    bool is_spread = connection->role == SENDER && (options.work != FILL || options.topics > 1); /* or keeps to one queue */
    return (uint64_t)connection->number + (is_spread ? connection->asked : 0);
}

int queue_of(const Connection *connection) {
    return (int)(turn_of(connection) % (uint64_t)options.queues);
}

int topic_of(const Connection *connection) {
    return (int)(turn_of(connection) / (uint64_t)options.queues % (uint64_t)options.topics);
}

uint64_t next_offset(Connection *connection) {
    uint64_t offset = connection->next, step = (uint64_t)options.per_pull;
    uint64_t there = options.limit / (uint64_t)options.queues;
    connection->next = offset + 2 * step <= there ? offset + step : 0; /* whole pulls only */
    return offset;
}
