/* NATS JetStream, stream BENCH with one subject per queue: acknowledged publishing, and a consumer's fetches.
 *
 * Every slot has an inbox and a subscription of its own, whose number tells whose answer a message is. A fetch asks
 * for messages that need no acknowledgement. Each connection has its own consumer: a puller's reads the whole stream,
 * and at its end a new one is made, until when nothing is asked; a follower's reads one subject, and its fetches wait.
 * There are always some of those under way, because a fetch ends with the last message that it asked for.
 */
#define _GNU_SOURCE
#include "loadgen.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define CREATED 99999 /* the subscription on which the answer to a new consumer comes */

static void prepare(void) {
    if (options.batch > 1 || options.topics > 1) fail("NATS has no batches, and one topic here");
}

static void make_consumer(Connection *connection) {
    char body[512], filter[128] = "", name[64];
    bool is_follower = connection->role == FOLLOWER;
    connection->generation++;
    connection->is_paused = true;
    snprintf(name, sizeof name, "c%d-%d", connection->number, connection->generation);
    if (is_follower) snprintf(filter, sizeof filter, "%s.%d", options.topic, queue_of(connection));
    int size = snprintf(body, sizeof body,
        "{\"stream_name\":\"BENCH\",\"config\":{\"name\":\"%s\",\"deliver_policy\":\"all\",\"ack_policy\":\"none\",\"max_waiting\":10000,"
        "\"inactive_threshold\":5000000000%s%s%s}}", name, is_follower ? ",\"filter_subject\":\"" : "", filter, is_follower ? "\"" : "");
    add_text(connection, "PUB $JS.API.CONSUMER.CREATE.BENCH.%s%s%s _INBOX.%d.created %d\r\n%s\r\n", name,
             is_follower ? "." : "", filter, connection->number, size, body);
}

/* Sends what the greeting wrote, and waits for the PONG that shows that it was understood. */
static void settle(Connection *connection) {
    char said[65536];
    size_t size = 0;
    for (Buffer *out = &connection->out; out->begin < out->end;) {
        ssize_t sent = send(connection->fd, out->data + out->begin, out->end - out->begin, MSG_NOSIGNAL);
        if (sent <= 0) fail("the greeting: %s", strerror(errno));
        out->begin += (size_t)sent;
    }
    while (size < 6 || memcmp(said + size - 6, "PONG\r\n", 6) != 0) {
        ssize_t more = recv(connection->fd, said + size, sizeof said - size, 0);
        if (more <= 0) fail("no PONG after %.*s", (int)size, said);
        size += (size_t)more;
    }
    if (memmem(said, size, "-ERR", 4) != NULL) fail("%.*s", (int)size, said);
}

static void greet(Connection *connection) {
    add_text(connection, "CONNECT {\"verbose\":false,\"pedantic\":false,\"headers\":true,\"no_responders\":true,\"protocol\":1,"
                         "\"lang\":\"c\",\"version\":\"1\"}\r\n");
    for (int slot = 0; slot < connection->window; slot++)
        add_text(connection, "SUB _INBOX.%d.%d %d\r\n", connection->number, slot, slot);
    add_text(connection, "SUB _INBOX.%d.created %d\r\nPING\r\n", connection->number, CREATED);
    settle(connection);
    if (connection->role != SENDER) make_consumer(connection); /* it waits in `out` for the first turn */
}

static void ask_fetch(Connection *connection, int slot) {
    char body[64], waits[64];
    connection->arrived[slot] = 0;
    connection->generations[slot] = connection->generation;
    snprintf(waits, sizeof waits, connection->role == FOLLOWER ? "\"expires\":%d000000" : "\"no_wait\":true", FOLLOW_MS);
    int size = snprintf(body, sizeof body, "{\"batch\":%d,%s}", options.per_pull, waits);
    add_text(connection, "PUB $JS.API.CONSUMER.MSG.NEXT.BENCH.c%d-%d _INBOX.%d.%d %d\r\n%s\r\n", connection->number,
             connection->generation, connection->number, slot, size, body);
}

static void ask(Connection *connection, int slot) {
    if (connection->role != SENDER) {
        ask_fetch(connection, slot);
        return;
    }
    add_text(connection, "PUB %s.%d _INBOX.%d.%d %d\r\n", options.topic, queue_of(connection), connection->number, slot,
             options.size);
    add_body(connection, slot);
    add(connection, "\r\n", 2);
}

/* A fetch that the stream's end cut short still brought what came before. */
static void take_status(Connection *connection, int slot, const uint8_t *status, size_t size, Answer *answer) {
    bool is_end = size > 12 && (memcmp(status, "NATS/1.0 404", 12) == 0 || memcmp(status, "NATS/1.0 408", 12) == 0);
    answer->slot = slot;
    if (connection->role != FOLLOWER) answer->messages = (uint64_t)connection->arrived[slot];
    if (!is_end) refuse(answer, "refused", status, size);
    else if (connection->role == FOLLOWER) return; /* it waited in vain */
    else if (connection->generations[slot] == connection->generation && !connection->is_paused) make_consumer(connection);
}

static void take_fetched(Connection *connection, int slot, const uint8_t *body, size_t size, Answer *answer) {
    bool is_last = ++connection->arrived[slot] == options.per_pull, is_follower = connection->role == FOLLOWER;
    if ((int)size != options.size) refuse(answer, "not a message", body, size);
    else if (is_follower) arrived(body);
    if (is_last) answer->slot = slot;
    if (is_follower) answer->messages = 1; /* each at once */
    else if (is_last) answer->messages = (uint64_t)options.per_pull;
}

static void take_message(Connection *connection, int slot, const uint8_t *body, size_t size, Answer *answer) {
    if (slot == CREATED) {
        if (memmem(body, size, "\"error\"", 7) != NULL) fail("no consumer: %.*s", (int)size, body);
        connection->is_paused = false;
    } else if (connection->role != SENDER) {
        take_fetched(connection, slot, body, size, answer);
    } else {
        answer->slot = slot;
        answer->messages = 1;
        bool is_stored = size > 10 && memcmp(body, "{\"stream\":", 10) == 0 && memmem(body, size, "\"seq\":", 6) != NULL;
        if (!is_stored) refuse(answer, "refused", body, size);
    }
}

/* MSG subject number [reply] size, or HMSG with the size of the headers before it; then the bytes, and a line's end. */
static size_t take(Connection *connection, const uint8_t *data, size_t size, Answer *answer) {
    const uint8_t *line = memchr(data, '\n', size);
    if (line == NULL) return 0;
    size_t line_size = (size_t)(line - data) + 1;
    bool has_headers = *data == 'H';
    if (*data == 'P' && data[1] == 'I') {
        add(connection, "PONG\r\n", 6);
        return line_size;
    }
    if (*data == '-') fail("%.*s", (int)line_size, data);
    if (*data != 'M' && !has_headers) return line_size; /* INFO, +OK, PONG */
    char words[1024], *fields[8];
    int count = 0;
    if (line_size > sizeof words) fail("a line of %zu characters", line_size);
    memcpy(words, data, line_size - 2);
    words[line_size - 2] = 0;
    for (char *word = strtok(words, " "); word != NULL && count < 8; word = strtok(NULL, " ")) fields[count++] = word;
    if (count < (has_headers ? 5 : 4)) fail("not understood: %.*s", (int)line_size, data);
    size_t whole = strtoul(fields[count - 1], NULL, 10), headers = has_headers ? strtoul(fields[count - 2], NULL, 10) : 0;
    if (size < line_size + whole + 2) return 0;
    int slot = atoi(fields[2]);
    if (slot != CREATED && (slot < 0 || slot >= connection->window)) fail("whose answer is %.*s?", (int)line_size, data);
    const uint8_t *body = data + line_size;
    if (has_headers && headers == whole) take_status(connection, slot, body, headers, answer);
    else take_message(connection, slot, body + headers, whole - headers, answer);
    return line_size + whole + 2;
}

const Protocol nats = {"nats", 4, prepare, greet, ask, take};
