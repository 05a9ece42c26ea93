/* RocketMQ's remoting protocol with JSON headers, shaped as the Java client writes them.
 *
 *     size of the rest (4)   encoding (1) and size of the header (3)   header   body
 *
 * A send is SEND_MESSAGE_V2 with a unique key of its own, so that the broker's key index has real work; a batch is
 * SEND_BATCH_MESSAGE, where every message has such a key:
 *
 *     size (4)   magic (4)   crc (4)   flag (4)   body size (4)   body   properties size (2)   properties
 *
 * A pull brings its subscription along, as a pull consumer's does; a follower's waits at the broker.
 */
#define _GNU_SOURCE
#include "loadgen.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#define FIRST_OPAQUE 1000000 /* so that all have seven digits */
#define COMMIT_OPAQUE 9999999
#define NOT_FOUND 19         /* of a pull that waited in vain */
#define RETRY_AT_ONCE 20
#define GROUP "bench_producers"
#define PREPARED 4           /* in the sys flag of what begins a transaction */
#define BODY_AT 88           /* in a record whose hosts are IPv4 */

static char header[2048], properties[128];
static size_t header_size, properties_size;
static size_t queue_at, opaque_at, topic_at, key_at, own_key_at;
static uint64_t keys; /* made so far, in all connections */

static size_t place_of(const char *text, const char *mark) {
    char *found = strstr(text, mark);
    if (found == NULL) fail("no %s in %s", mark, text);
    return (size_t)(found - text);
}

static void prepare(void) {
    uint64_t run;
    if (getrandom(&run, sizeof run, 0) != sizeof run) fail("no random bytes");
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    bool is_batch = options.batch > 1;
    char more[128] = "";
    if (options.due) snprintf(more, sizeof more, "TIMER_DELIVER_MS\\u0001%llu\\u0002", (unsigned long long)options.due);
    if (options.commits) snprintf(more, sizeof more, "TRAN_MSG\\u0001true\\u0002PGROUP\\u0001" GROUP "\\u0002");
    int size = snprintf(header, sizeof header,
        "{\"code\":%d,\"extFields\":{\"a\":\"" GROUP "\",\"b\":\"%s%s\",\"c\":\"TBW102\",\"d\":\"4\",\"e\":\"Q\",\"f\":\"%d\","
        "\"g\":\"%lld\",\"h\":\"0\",\"i\":\"UNIQ_KEY\\u0001%016llXKEYKEYKEYKEYKEYK\\u0002WAIT\\u0001true\\u0002%s\",\"j\":\"0\","
        "\"k\":\"false\",\"m\":\"%s\",\"n\":\"broker-a\"},\"flag\":0,\"language\":\"JAVA\",\"opaque\":OPAQUEE,"
        "\"serializeTypeCurrentRPC\":\"JSON\",\"version\":479}",
        is_batch ? 320 : 310, options.topic, options.topics > 1 ? "NNNN" : "", options.commits ? PREPARED : 0,
        (long long)time.tv_sec * 1000 + time.tv_nsec / 1000000, (unsigned long long)run, more, is_batch ? "true" : "false");
    header_size = (size_t)size;
    queue_at = place_of(header, "\"Q\"") + 1;
    key_at = place_of(header, "KEYKEYKEY");
    opaque_at = place_of(header, "OPAQUEE");
    topic_at = options.topics > 1 ? place_of(header, "NNNN") : 0;
    size = snprintf(properties, sizeof properties, "UNIQ_KEY\1%016llXKEYKEYKEYKEYKEYK\2WAIT\1true\2", (unsigned long long)run);
    properties_size = (size_t)size;
    own_key_at = place_of(properties, "KEYKEYKEY");
}

static void greet(Connection *connection) {
    connection->next = 0; /* no greeting is needed */
}

static void put_digits(uint8_t *at, uint32_t value, int digits) {
    for (int index = digits - 1; index >= 0; index--, value /= 10) at[index] = (uint8_t)('0' + value % 10);
}

static void put_hex(uint8_t *at, uint64_t value) {
    for (int index = 15; index >= 0; index--, value >>= 4) at[index] = (uint8_t)"0123456789ABCDEF"[value & 15];
}

static void frame(Connection *connection, const char *text, size_t size, size_t body_size) {
    uint8_t *at = room(connection, 8 + size + body_size);
    put_be32(at, (uint32_t)(4 + size + body_size));
    put_be32(at + 4, (uint32_t)size); /* its first byte, zero, means JSON */
    memcpy(at + 8, text, size);
    connection->out.end += 8 + size;
}

static void add_element(Connection *connection, int slot) {
    uint8_t head[20] = {0};
    put_be32(head, (uint32_t)(22 + (size_t)options.size + properties_size));
    put_be32(head + 16, (uint32_t)options.size);
    add(connection, head, sizeof head);
    add_body(connection, slot);
    uint8_t size[2] = {(uint8_t)(properties_size >> 8), (uint8_t)properties_size};
    add(connection, size, sizeof size);
    add(connection, properties, properties_size);
    put_hex(connection->out.data + connection->out.end - properties_size + own_key_at, keys++);
}

static void ask_send(Connection *connection, int slot) {
    size_t element = 22 + (size_t)options.size + properties_size;
    bool is_batch = options.batch > 1;
    frame(connection, header, header_size, is_batch ? element * (size_t)options.batch : (size_t)options.size);
    uint8_t *written = connection->out.data + connection->out.end - header_size;
    written[queue_at] = (uint8_t)('0' + queue_of(connection));
    put_digits(written + opaque_at, (uint32_t)(FIRST_OPAQUE + slot), 7);
    if (topic_at > 0) put_digits(written + topic_at, (uint32_t)topic_of(connection), 4);
    put_hex(written + key_at, keys++);
    if (!is_batch) add_body(connection, slot);
    for (int made = 0; is_batch && made < options.batch; made++) add_element(connection, slot);
}

static void ask_pull(Connection *connection, int slot) {
    char text[1024];
    bool is_follower = connection->role == FOLLOWER;
    uint64_t offset = connection->wanted[slot] = is_follower ? connection->next : next_offset(connection);
    int size = snprintf(text, sizeof text,
        "{\"code\":11,\"extFields\":{\"queueId\":\"%d\",\"maxMsgBytes\":\"%d\",\"maxMsgNums\":\"%d\",\"sysFlag\":\"%d\","
        "\"suspendTimeoutMillis\":\"%d\",\"commitOffset\":\"0\",\"bname\":\"broker-a\",\"topic\":\"%s\",\"subscription\":\"*\","
        "\"queueOffset\":\"%llu\",\"expressionType\":\"TAG\",\"subVersion\":\"0\",\"consumerGroup\":\"bench_consumers\"},\"flag\":0,"
        "\"language\":\"JAVA\",\"opaque\":%d,\"serializeTypeCurrentRPC\":\"JSON\",\"version\":479}",
        queue_of(connection), options.per_pull * (options.size + 400), options.per_pull, is_follower ? 6 : 4,
        is_follower ? FOLLOW_MS : 0, options.topic, (unsigned long long)offset, FIRST_OPAQUE + slot);
    frame(connection, text, (size_t)size, 0);
}

static void ask(Connection *connection, int slot) {
    if (connection->role == SENDER) ask_send(connection, slot);
    else ask_pull(connection, slot);
}

/* The number behind `name` in a header; -1 if it is not there. */
static long number_of(const uint8_t *text, size_t size, const char *name) {
    const uint8_t *found = memmem(text, size, name, strlen(name));
    if (found == NULL) return -1;
    long value = 0;
    for (found += strlen(name); found < text + size && (*found == ' ' || *found == '"'); found++) {}
    for (; found < text + size && *found >= '0' && *found <= '9'; found++) value = value * 10 + (*found - '0');
    return value;
}

/* Counts the records of a pull's answer, which must be of consecutive offsets from the one that was asked for. */
static void take_records(Connection *connection, const uint8_t *body, size_t size, uint64_t wanted, Answer *answer) {
    bool is_follower = connection->role == FOLLOWER;
    for (size_t at = 0; at < size; answer->messages++) {
        uint32_t record = size - at > BODY_AT ? be32(body + at) : 0;
        if (record < BODY_AT || record > size - at || be64(body + at + 20) != wanted + answer->messages) {
            refuse(answer, "not the records that were asked for", "", 0);
            return;
        }
        if (is_follower) arrived(body + at + BODY_AT);
        at += record;
    }
    if (is_follower) connection->next = wanted + answer->messages;
    else if (answer->messages != (uint64_t)options.per_pull) {
        char text[64];
        refuse(answer, "too few records", text, (size_t)snprintf(text, sizeof text, "%d", (int)answer->messages));
    }
}

/* Commits the transaction whose message was answered with `text`: an id is a host and the position in the log. */
static void ask_commit(Connection *connection, const uint8_t *text, size_t size) {
    const char name[] = "\"msgId\":\"";
    const uint8_t *id = memmem(text, size, name, strlen(name));
    if (id == NULL || (size_t)(text + size - id) < strlen(name) + 32) fail("no id in %.*s", (int)size, text);
    char digits[17] = {0}, commit[512];
    memcpy(digits, id + strlen(name) + 16, 16);
    int written = snprintf(commit, sizeof commit,
        "{\"code\":37,\"extFields\":{\"producerGroup\":\"" GROUP "\",\"tranStateTableOffset\":\"%ld\","
        "\"commitLogOffset\":\"%llu\",\"commitOrRollback\":\"8\",\"fromTransactionCheck\":\"false\",\"msgId\":\"x\","
        "\"transactionId\":\"x\",\"bname\":\"broker-a\"},\"flag\":2,\"language\":\"JAVA\",\"opaque\":%d,"
        "\"serializeTypeCurrentRPC\":\"JSON\",\"version\":479}",
        number_of(text, size, "\"queueOffset\":"), strtoull(digits, NULL, 16), COMMIT_OPAQUE);
    frame(connection, commit, (size_t)written, 0);
}

static size_t take(Connection *connection, const uint8_t *data, size_t size, Answer *answer) {
    if (size < 8 || size < 4 + (size_t)be32(data)) return 0;
    size_t whole = 4 + (size_t)be32(data), text_size = be32(data + 4) & 0xFFFFFF;
    const uint8_t *text = data + 8;
    if (8 + text_size > whole) fail("a header of %zu bytes in a frame of %zu", text_size, whole);
    long opaque = number_of(text, text_size, "\"opaque\":"), slot = opaque - FIRST_OPAQUE, code = number_of(text, text_size, "\"code\":");
    if (opaque == COMMIT_OPAQUE) return whole; /* a refusal, although nobody asked: what is lost is found in the end */
    if (slot < 0 || slot >= connection->window) fail("whose answer is %.*s?", (int)text_size, text);
    answer->slot = (int)slot;
    if (connection->role == FOLLOWER && (code == NOT_FOUND || code == RETRY_AT_ONCE)) return whole;
    if (code != 0) refuse(answer, "refused", text, text_size);
    else if (connection->role != SENDER)
        take_records(connection, text + text_size, whole - 8 - text_size, connection->wanted[slot], answer);
    else if (number_of(text, text_size, "\"queueOffset\":") < 0) refuse(answer, "no offset", text, text_size);
    else if (options.commits) ask_commit(connection, text, text_size), answer->messages = 1;
    else answer->messages = (uint64_t)options.batch;
    return whole;
}

const Protocol rocketmq = {"rocketmq", 1, prepare, greet, ask, take};
