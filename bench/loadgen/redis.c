/* Redis streams: one stream per queue, XADD to send, XRANGE to pull, and XREAD, which waits, to follow.
 *
 * Answers come in order. What is to be pulled is filled in with ids that count from 1, so that a puller knows the id of
 * the offset it wants, as it does with the other servers, and can have several requests in flight. Redis has no
 * request for several messages of one stream.
 */
#define _GNU_SOURCE
#include "loadgen.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEPT 100000 /* messages per stream, about; older ones are dropped by the server */

static void prepare(void) {
    if (options.batch > 1 || options.topics > 1) fail("Redis has no batches here, and one topic");
}

static void greet(Connection *connection) {
    snprintf(connection->last_id, sizeof connection->last_id, "0-0");
}

static void add_key(Connection *connection) {
    add_text(connection, "$%zu\r\n%s:%d\r\n", strlen(options.topic) + 2, options.topic, queue_of(connection));
}

static void ask_add(Connection *connection, int slot) {
    if (options.work == FILL) {
        char id[32];
        int size = snprintf(id, sizeof id, "%llu-0", (unsigned long long)connection->asked + 1);
        add_text(connection, "*5\r\n$4\r\nXADD\r\n");
        add_key(connection);
        add_text(connection, "$%d\r\n%s\r\n", size, id);
    } else {
        add_text(connection, "*8\r\n$4\r\nXADD\r\n");
        add_key(connection);
        add_text(connection, "$6\r\nMAXLEN\r\n$1\r\n~\r\n$6\r\n%d\r\n$1\r\n*\r\n", KEPT);
    }
    add_text(connection, "$4\r\nbody\r\n$%d\r\n", options.size);
    add_body(connection, slot);
    add(connection, "\r\n", 2);
}

static void ask_range(Connection *connection, int slot) {
    char id[32], most[16];
    uint64_t offset = connection->wanted[slot] = next_offset(connection);
    int size = snprintf(id, sizeof id, "%llu-0", (unsigned long long)offset + 1);
    int digits = snprintf(most, sizeof most, "%d", options.per_pull);
    add_text(connection, "*6\r\n$6\r\nXRANGE\r\n");
    add_key(connection);
    add_text(connection, "$%d\r\n%s\r\n$1\r\n+\r\n$5\r\nCOUNT\r\n$%d\r\n%s\r\n", size, id, digits, most);
}

static void ask_read(Connection *connection) {
    char most[16];
    int digits = snprintf(most, sizeof most, "%d", options.per_pull);
    add_text(connection, "*8\r\n$5\r\nXREAD\r\n$5\r\nCOUNT\r\n$%d\r\n%s\r\n$5\r\nBLOCK\r\n$4\r\n%d\r\n$7\r\nSTREAMS\r\n",
             digits, most, FOLLOW_MS);
    add_key(connection);
    add_text(connection, "$%zu\r\n%s\r\n", strlen(connection->last_id), connection->last_id);
}

static void ask(Connection *connection, int slot) {
    if (connection->role == SENDER) ask_add(connection, slot);
    else if (connection->role == PULLER) ask_range(connection, slot);
    else ask_read(connection);
}

/* The end of the value that begins at `data`; NULL if it is not whole. */
static const uint8_t *end_of(const uint8_t *data, const uint8_t *limit) {
    const uint8_t *line = memchr(data, '\n', (size_t)(limit - data));
    if (line == NULL) return NULL;
    long number = strtol((const char *)data + 1, NULL, 10);
    const uint8_t *at = line + 1;
    if (*data == '$' && number >= 0) return limit - at >= number + 2 ? at + number + 2 : NULL;
    if (*data == '*' && number > 1 && limit - at < (number - 1) * options.size && number == options.per_pull)
        return NULL; /* a long answer is not looked through before most of it is there */
    if (*data == '*')
        for (; number > 0 && at != NULL; number--) at = at < limit ? end_of(at, limit) : NULL;
    return at;
}

/* Skips the line of a size or a count, and gives the number in it. */
static long number_at(const uint8_t **at) {
    char *end;
    long number = strtol((const char *)*at + 1, &end, 10);
    *at = (const uint8_t *)end + 2;
    return number;
}

/* Entries are *N, and for each message *2, its id, *2, name and body. They are known to be whole. */
static void take_entries(Connection *connection, const uint8_t *at, Answer *answer) {
    long found = number_at(&at);
    for (long index = 0; index < found; index++) {
        number_at(&at);
        long id_size = number_at(&at);
        const uint8_t *id = at;
        at += id_size + 2;
        if (number_at(&at) != 2) fail("an entry with more than a body: %.*s", 40, (const char *)id);
        at += number_at(&at) + 2;
        long body_size = number_at(&at);
        if (body_size != options.size) refuse(answer, "not a message", id, (size_t)id_size);
        if (connection->role == FOLLOWER) arrived(at);
        at += body_size + 2;
        if (connection->role == FOLLOWER && index == found - 1)
            snprintf(connection->last_id, sizeof connection->last_id, "%.*s", (int)id_size, (const char *)id);
    }
    answer->messages = (uint64_t)(found > 0 ? found : 0);
}

static void check_range(const uint8_t *data, uint64_t wanted, Answer *answer) {
    const uint8_t *at = data;
    long found = number_at(&at);
    unsigned long long first = 0;
    if (found > 0) {
        number_at(&at);
        number_at(&at);
        first = strtoull((const char *)at, NULL, 10);
    }
    if (found != options.per_pull || first != wanted + 1) refuse(answer, "not the entries that were asked for", data, 20);
    answer->messages = (uint64_t)(found > 0 ? found : 0);
}

static size_t take(Connection *connection, const uint8_t *data, size_t size, Answer *answer) {
    const uint8_t *end = end_of(data, data + size), *at = data;
    if (end == NULL) return 0;
    answer->slot = (int)(connection->answered % (uint64_t)connection->window);
    if (*data != (connection->role == SENDER ? '$' : '*')) refuse(answer, "refused", data, (size_t)(end - data));
    else if (connection->role == SENDER) answer->messages = 1;
    else if (connection->role == PULLER) check_range(data, connection->wanted[answer->slot], answer);
    else if (number_at(&at) == 1) { /* one stream; -1 if nothing came: *1, *2, its name, entries */
        number_at(&at);
        at += number_at(&at) + 2;
        take_entries(connection, at, answer);
    }
    return (size_t)(end - data);
}

const Protocol redis = {"redis", 1, prepare, greet, ask, take};
