/* RocketMQ's remoting protocol with JSON headers, shaped as the Java client writes them.
 *
 *     size of the rest (4)   encoding (1) and size of the header (3)   header   body
 *
 * A send is SEND_MESSAGE_V2 with a unique key of its own, so that the broker's key index has real work. A pull takes 32
 * messages and brings its subscription along, as a pull consumer's does.
 */
#define _GNU_SOURCE
#include "loadgen.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#define FIRST_OPAQUE 1000000 /* so that all have seven digits */

static char header[2048];
static size_t header_size;
static size_t queue_at, opaque_at, key_at;
static uint64_t keys; /* made so far, in all connections */

static void put_be32(uint8_t *at, uint32_t value) {
    for (int index = 0; index < 4; index++) at[index] = (uint8_t)(value >> (24 - 8 * index));
}

static uint32_t be32(const uint8_t *at) {
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static uint64_t be64(const uint8_t *at) {
    return (uint64_t)be32(at) << 32 | be32(at + 4);
}

static size_t place_of(const char *mark) {
    char *found = strstr(header, mark);
    if (found == NULL) fail("no %s in %s", mark, header);
    return (size_t)(found - header);
}

static void prepare(void) {
    uint64_t run;
    if (getrandom(&run, sizeof run, 0) != sizeof run) fail("no random bytes");
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    int size = snprintf(header, sizeof header,
        "{\"code\":310,\"extFields\":{\"a\":\"bench_producers\",\"b\":\"%s\",\"c\":\"TBW102\",\"d\":\"4\",\"e\":\"Q\",\"f\":\"0\","
        "\"g\":\"%lld\",\"h\":\"0\",\"i\":\"UNIQ_KEY\\u0001%016llXKEYKEYKEYKEYKEYK\\u0002WAIT\\u0001true\\u0002\",\"j\":\"0\","
        "\"k\":\"false\",\"m\":\"false\",\"n\":\"broker-a\"},\"flag\":0,\"language\":\"JAVA\",\"opaque\":OPAQUEE,"
        "\"serializeTypeCurrentRPC\":\"JSON\",\"version\":479}",
        options.topic, (long long)time.tv_sec * 1000 + time.tv_nsec / 1000000, (unsigned long long)run);
    header_size = (size_t)size;
    queue_at = place_of("\"Q\"") + 1;
    key_at = place_of("KEYKEYKEY");
    opaque_at = place_of("OPAQUEE");
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

static void ask_send(Connection *connection, int slot) {
    frame(connection, header, header_size, (size_t)options.size);
    uint8_t *written = connection->out.data + connection->out.end - header_size;
    written[queue_at] = (uint8_t)('0' + queue_of(connection));
    put_digits(written + opaque_at, (uint32_t)(FIRST_OPAQUE + slot), 7);
    put_hex(written + key_at, keys++);
    add(connection, body_of(keys), (size_t)options.size);
}

static void ask_pull(Connection *connection, int slot) {
    char text[1024];
    uint64_t offset = connection->wanted[slot] = next_offset(connection);
    int size = snprintf(text, sizeof text,
        "{\"code\":11,\"extFields\":{\"queueId\":\"%d\",\"maxMsgBytes\":\"262144\",\"maxMsgNums\":\"%d\",\"sysFlag\":\"4\","
        "\"suspendTimeoutMillis\":\"0\",\"commitOffset\":\"0\",\"bname\":\"broker-a\",\"topic\":\"%s\",\"subscription\":\"*\","
        "\"queueOffset\":\"%llu\",\"expressionType\":\"TAG\",\"subVersion\":\"0\",\"consumerGroup\":\"bench_consumers\"},\"flag\":0,"
        "\"language\":\"JAVA\",\"opaque\":%d,\"serializeTypeCurrentRPC\":\"JSON\",\"version\":479}",
        queue_of(connection), PER_PULL, options.topic, (unsigned long long)offset, FIRST_OPAQUE + slot);
    frame(connection, text, (size_t)size, 0);
}

static void ask(Connection *connection, int slot) {
    if (options.work == CONSUME) ask_pull(connection, slot);
    else ask_send(connection, slot);
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
static void count_records(const uint8_t *body, size_t size, uint64_t wanted, Answer *answer) {
    for (size_t at = 0; at < size; answer->messages++) {
        uint32_t record = size - at >= 28 ? be32(body + at) : 0;
        if (record < 28 || record > size - at || be64(body + at + 20) != wanted + answer->messages) {
            refuse(answer, "not the records that were asked for", "", 0);
            return;
        }
        at += record;
    }
    if (answer->messages == 0) refuse(answer, "no records", "", 0);
}

static size_t take(Connection *connection, const uint8_t *data, size_t size, Answer *answer) {
    if (size < 8 || size < 4 + (size_t)be32(data)) return 0;
    size_t whole = 4 + (size_t)be32(data), text_size = be32(data + 4) & 0xFFFFFF;
    const uint8_t *text = data + 8;
    if (8 + text_size > whole) fail("a header of %zu bytes in a frame of %zu", text_size, whole);
    long slot = number_of(text, text_size, "\"opaque\":") - FIRST_OPAQUE;
    if (slot < 0 || slot >= options.window) fail("whose answer is %.*s?", (int)text_size, text);
    answer->slot = (int)slot;
    if (number_of(text, text_size, "\"code\":") != 0) refuse(answer, "refused", text, text_size);
    else if (options.work == CONSUME)
        count_records(text + text_size, whole - 8 - text_size, connection->wanted[slot], answer);
    else if (number_of(text, text_size, "\"queueOffset\":") < 0) refuse(answer, "no offset", text, text_size);
    else answer->messages = 1;
    return whole;
}

const Protocol rocketmq = {"rocketmq", prepare, greet, ask, take};
