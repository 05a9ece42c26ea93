/* Redis streams: one stream per queue, XADD to send and XRANGE to consume. Answers come in order.
 *
 * What is to be consumed is filled in with ids that count from 1, so that a consumer knows the id of the offset it
 * wants, as it does with the other servers, and can have several requests in flight.
 */
#define _GNU_SOURCE
#include "loadgen.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEPT 100000 /* messages per stream, about; older ones are dropped by the server */

static void prepare(void) {}

static void greet(Connection *connection) {
    connection->next = 0; /* no greeting is needed */
}

static void ask_add(Connection *connection) {
    if (options.work == FILL) {
        char id[32];
        int size = snprintf(id, sizeof id, "%llu-0", (unsigned long long)connection->asked + 1);
        add_text(connection, "*5\r\n$4\r\nXADD\r\n$7\r\nbench:%d\r\n$%d\r\n%s\r\n", queue_of(connection), size, id);
    } else {
        add_text(connection, "*8\r\n$4\r\nXADD\r\n$7\r\nbench:%d\r\n$6\r\nMAXLEN\r\n$1\r\n~\r\n$6\r\n%d\r\n$1\r\n*\r\n",
                 queue_of(connection), KEPT);
    }
    add_text(connection, "$4\r\nbody\r\n$%d\r\n", options.size);
    add(connection, body_of(connection->asked), (size_t)options.size);
    add(connection, "\r\n", 2);
}

static void ask(Connection *connection, int slot) {
    if (options.work != CONSUME) {
        ask_add(connection);
        return;
    }
    char id[32];
    uint64_t offset = connection->wanted[slot] = next_offset(connection);
    int size = snprintf(id, sizeof id, "%llu-0", (unsigned long long)offset + 1);
    add_text(connection, "*6\r\n$6\r\nXRANGE\r\n$7\r\nbench:%d\r\n$%d\r\n%s\r\n$1\r\n+\r\n$5\r\nCOUNT\r\n$2\r\n%d\r\n",
             queue_of(connection), size, id, PER_PULL);
}

/* The end of the value that begins at `data`; NULL if it is not whole. */
static const uint8_t *end_of(const uint8_t *data, const uint8_t *limit) {
    const uint8_t *line = memchr(data, '\n', (size_t)(limit - data));
    if (line == NULL) return NULL;
    long number = strtol((const char *)data + 1, NULL, 10);
    const uint8_t *at = line + 1;
    if (*data == '$' && number >= 0) return limit - at >= number + 2 ? at + number + 2 : NULL;
    if (*data == '*')
        for (; number > 0 && at != NULL; number--) at = at < limit ? end_of(at, limit) : NULL;
    return at;
}

/* An answer is *N, and for each message *2, its id, *2, name and body. */
static void count_entries(const uint8_t *data, uint64_t wanted, Answer *answer) {
    long found = strtol((const char *)data + 1, NULL, 10);
    const char *entry = strchr((const char *)data, '\n') + 1;
    char *end;
    if (found <= 0 || strncmp(entry, "*2\r\n$", 5) != 0) {
        refuse(answer, "no entries", data, 20);
        return;
    }
    unsigned long long id = strtoull(strchr(entry + 5, '\n') + 1, &end, 10);
    if (id != wanted + 1 || *end != '-') refuse(answer, "not the entries that were asked for", entry, 20);
    answer->messages = (uint64_t)found;
}

static size_t take(Connection *connection, const uint8_t *data, size_t size, Answer *answer) {
    const uint8_t *end = end_of(data, data + size);
    if (end == NULL) return 0;
    answer->slot = (int)(connection->answered % (uint64_t)options.window);
    answer->messages = 1;
    if (*data != (options.work == CONSUME ? '*' : '$')) refuse(answer, "refused", data, (size_t)(end - data));
    else if (options.work == CONSUME) count_entries(data, connection->wanted[answer->slot], answer);
    return (size_t)(end - data);
}

const Protocol redis = {"redis", prepare, greet, ask, take};
