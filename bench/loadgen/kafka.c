/* Kafka's protocol: Produce 7, acknowledged by the leader, with one record batch a request, and Fetch 4.
 *
 *     size of the rest (4)   api (2)   version (2)   correlation (4)   client id   request
 *
 * A record batch (version 2), of `batch` messages without keys:
 *
 *     base offset (8)   size of the rest (4)   leader epoch (4)   magic (1)   crc32c of the rest (4)   attributes (2)
 *     last offset delta (4)   times (8, 8)   producer id, epoch, sequence (8, 2, 4)   count (4)   records
 *
 *     record: size   attributes (1)   time delta   offset delta   key size   value size   value   header count
 *
 * where sizes and deltas of a record are zigzag numbers of 7 bits a byte. A fetch is limited by bytes and not by
 * messages; all batches that are filled in have the same size, so that a limit of some of them is one of messages.
 */
#define _GNU_SOURCE
#include "loadgen.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PRODUCE 0
#define FETCH 1
#define BATCH_HEAD 61
#define CRC_AT 17
#define CHECKED_AT 21 /* what the crc covers begins here */
#define COUNT_AT 57
#define TIMEOUT_MS 15000

static uint32_t crc_table[256];
static size_t batch_size;
static int64_t run_ms;

/* -- crc32c */

static void make_crc_table(void) {
    for (uint32_t value = 0; value < 256; value++) {
        uint32_t crc = value;
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0x82F63B78U : 0);
        crc_table[value] = crc;
    }
}

#ifdef __x86_64__
__attribute__((target("sse4.2"))) static uint32_t crc_by_instruction(const uint8_t *data, size_t size) {
    uint64_t crc = 0xFFFFFFFFU, word;
    for (; size >= 8; size -= 8, data += 8) {
        memcpy(&word, data, sizeof word);
        crc = __builtin_ia32_crc32di(crc, word);
    }
    for (; size > 0; size--) crc = __builtin_ia32_crc32qi((uint32_t)crc, *data++);
    return ~(uint32_t)crc;
}
#endif

static uint32_t crc32c(const uint8_t *data, size_t size) {
#ifdef __x86_64__
    if (__builtin_cpu_supports("sse4.2")) return crc_by_instruction(data, size);
#endif
    uint32_t crc = 0xFFFFFFFFU;
    for (; size > 0; size--) crc = crc >> 8 ^ crc_table[(crc ^ *data++) & 255];
    return ~crc;
}

/* -- numbers */

static void put_be16(uint8_t *at, uint16_t value) {
    at[0] = (uint8_t)(value >> 8);
    at[1] = (uint8_t)value;
}

static void put_be64(uint8_t *at, uint64_t value) {
    put_be32(at, (uint32_t)(value >> 32));
    put_be32(at + 4, (uint32_t)value);
}

static uint16_t be16(const uint8_t *at) {
    return (uint16_t)(at[0] << 8 | at[1]);
}

static size_t put_zigzag(uint8_t *at, int64_t value) {
    uint64_t left = (uint64_t)value << 1 ^ (uint64_t)(value >> 63);
    size_t size = 0;
    for (; left >= 128; left >>= 7) at[size++] = (uint8_t)(left | 128);
    at[size++] = (uint8_t)left;
    return size;
}

static int64_t zigzag_at(const uint8_t **at, const uint8_t *limit) {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
        if (*at >= limit) fail("a record ends within a number");
        uint8_t byte = *(*at)++;
        value |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) return (int64_t)(value >> 1) ^ -(int64_t)(value & 1);
    }
    fail("a number of more than 64 bits");
}

/* -- requests */

/* What of a record comes before its value, its own size included. */
static size_t record_head(uint8_t *at, int number) {
    uint8_t fields[32];
    size_t size = 0;
    fields[size++] = 0;                          /* attributes */
    size += put_zigzag(fields + size, 0);        /* time delta */
    size += put_zigzag(fields + size, number);   /* offset delta */
    size += put_zigzag(fields + size, -1);       /* no key */
    size += put_zigzag(fields + size, options.size);
    size_t first = put_zigzag(at, (int64_t)size + options.size + 1); /* one byte for no headers */
    memcpy(at + first, fields, size);
    return first + size;
}

static void prepare(void) {
    uint8_t head[64];
    struct timespec time;
    if (options.topics > 1) fail("Kafka has one topic here");
    if (options.work == PULL && options.per_pull % options.batch != 0) fail("per_pull must be a multiple of batch");
    clock_gettime(CLOCK_REALTIME, &time);
    run_ms = (int64_t)time.tv_sec * 1000 + time.tv_nsec / 1000000;
    make_crc_table();
    batch_size = BATCH_HEAD;
    for (int number = 0; number < options.batch; number++)
        batch_size += record_head(head, number) + (size_t)options.size + 1;
}

static void greet(Connection *connection) {
    connection->next = 0; /* no greeting is needed */
}

static void add_be16(Connection *connection, int value) {
    put_be16(room(connection, 2), (uint16_t)value);
    connection->out.end += 2;
}

static void add_be32(Connection *connection, int64_t value) {
    put_be32(room(connection, 4), (uint32_t)value);
    connection->out.end += 4;
}

static void add_string(Connection *connection, const char *text) {
    add_be16(connection, (int)strlen(text));
    add(connection, text, strlen(text));
}

/* Begins a request; `end_request` writes its size, when that is known. */
static size_t begin_request(Connection *connection, int api, int version, int slot) {
    size_t begin = connection->out.end - connection->out.begin; /* stays right when the buffer moves */
    add_be32(connection, 0);
    add_be16(connection, api);
    add_be16(connection, version);
    add_be32(connection, slot);
    add_string(connection, "loadgen");
    return begin;
}

static void end_request(Connection *connection, size_t begin) {
    Buffer *out = &connection->out;
    put_be32(out->data + out->begin + begin, (uint32_t)(out->end - out->begin - begin - 4));
}

static void add_batch(Connection *connection, int slot) {
    uint8_t *head = room(connection, batch_size + 64); /* enough for all, so that it stays where it is */
    memset(head, 0, BATCH_HEAD);
    put_be32(head + 8, (uint32_t)(batch_size - 12));
    put_be32(head + 12, 0xFFFFFFFFU); /* leader epoch: unknown */
    head[16] = 2;
    put_be32(head + 23, (uint32_t)(options.batch - 1));
    put_be64(head + 27, (uint64_t)run_ms);
    put_be64(head + 35, (uint64_t)run_ms);
    memset(head + 43, 0xFF, 14); /* no producer id, epoch and sequence */
    put_be32(head + COUNT_AT, (uint32_t)options.batch);
    connection->out.end += BATCH_HEAD;
    for (int number = 0; number < options.batch; number++) {
        connection->out.end += record_head(connection->out.data + connection->out.end, number);
        add_body(connection, slot);
        add(connection, "", 1); /* no headers */
    }
    put_be32(head + CRC_AT, crc32c(head + CHECKED_AT, batch_size - CHECKED_AT));
}

static void ask_produce(Connection *connection, int slot) {
    int queue = queue_of(connection);
    size_t begin = begin_request(connection, PRODUCE, 7, slot);
    connection->wanted[slot] = (uint64_t)queue;
    add_be16(connection, -1); /* no transaction */
    add_be16(connection, 1);  /* acknowledged by the leader */
    add_be32(connection, TIMEOUT_MS);
    add_be32(connection, 1);
    add_string(connection, options.topic);
    add_be32(connection, 1);
    add_be32(connection, queue);
    add_be32(connection, (int64_t)batch_size);
    add_batch(connection, slot);
    end_request(connection, begin);
}

static void ask_fetch(Connection *connection, int slot) {
    bool is_follower = connection->role == FOLLOWER;
    uint64_t offset = connection->wanted[slot] = is_follower ? connection->next : next_offset(connection);
    int64_t most = (int64_t)(batch_size * (size_t)(options.per_pull / options.batch));
    size_t begin = begin_request(connection, FETCH, 4, slot);
    add_be32(connection, -1); /* a client, no replica */
    add_be32(connection, is_follower ? FOLLOW_MS : 0);
    add_be32(connection, 1); /* byte at least */
    add_be32(connection, most);
    add(connection, "", 1); /* isolation: none */
    add_be32(connection, 1);
    add_string(connection, options.topic);
    add_be32(connection, 1);
    add_be32(connection, queue_of(connection));
    add_be32(connection, (int64_t)(offset >> 32));
    add_be32(connection, (int64_t)(offset & 0xFFFFFFFFU));
    add_be32(connection, most);
    end_request(connection, begin);
}

static void ask(Connection *connection, int slot) {
    if (connection->role == SENDER) ask_produce(connection, slot);
    else ask_fetch(connection, slot);
}

/* -- answers */

static void refuse_code(Answer *answer, int code) {
    char text[32];
    refuse(answer, "refused with code", text, (size_t)snprintf(text, sizeof text, "%d", code));
}

/* topics (4)   name   partitions (4)   partition (4)   error (2)   base offset (8)   … */
static void take_produced(Connection *connection, const uint8_t *at, size_t size, int slot, Answer *answer) {
    size_t skipped = 4 + 2 + strlen(options.topic) + 4;
    if (size < skipped + 14) fail("an answer of %zu bytes to Produce", size);
    at += skipped;
    uint32_t queue = be32(at);
    int64_t offset = (int64_t)be64(at + 6);
    if (queue != connection->wanted[slot]) fail("an answer for partition %u, not %d", queue, (int)connection->wanted[slot]);
    if (be16(at + 4) != 0) {
        refuse_code(answer, (int16_t)be16(at + 4));
    } else if (offset < connection->highest[queue]) { /* those of one connection come in order */
        char text[64];
        refuse(answer, "a base offset that was given before", text, (size_t)snprintf(text, sizeof text, "%lld", (long long)offset));
    } else {
        connection->highest[queue] = offset + options.batch;
        answer->messages = (uint64_t)options.batch;
    }
}

static void take_bodies(const uint8_t *at, const uint8_t *limit, uint32_t count) {
    for (; count > 0; count--) {
        int64_t size = zigzag_at(&at, limit);
        const uint8_t *end = at + size;
        if (size < 1 || end > limit) fail("a record of %lld bytes", (long long)size);
        at++; /* attributes */
        for (int skipped = 0; skipped < 3; skipped++) zigzag_at(&at, limit);
        if (zigzag_at(&at, limit) != options.size) fail("a record that was not sent");
        arrived(at);
        at = end;
    }
}

static void take_batches(Connection *connection, const uint8_t *data, size_t size, uint64_t wanted, Answer *answer) {
    bool is_follower = connection->role == FOLLOWER;
    for (size_t at = 0; size - at >= BATCH_HEAD;) {
        size_t whole = 12 + (size_t)be32(data + at + 8);
        uint32_t count = be32(data + at + COUNT_AT);
        if (whole > size - at) break; /* the limit cut it; it comes again */
        if (be64(data + at) != wanted + answer->messages) {
            refuse(answer, "not the offset that was asked for", "", 0);
            return;
        }
        if (is_follower) take_bodies(data + at + BATCH_HEAD, data + at + whole, count);
        answer->messages += count;
        at += whole;
    }
    if (is_follower) connection->next = wanted + answer->messages;
    else if (answer->messages != (uint64_t)options.per_pull) {
        char text[64];
        refuse(answer, "too few records", text, (size_t)snprintf(text, sizeof text, "%d", (int)answer->messages));
    }
}

/* throttle (4)   topics (4)   name   partitions (4)   partition (4)   error (2)   high watermark (8)   last stable (8)
 * aborted transactions (4; none)   size (4)   batches */
static void take_fetched(Connection *connection, const uint8_t *at, size_t size, int slot, Answer *answer) {
    size_t skipped = 4 + 4 + 2 + strlen(options.topic) + 4;
    if (size < skipped + 30) fail("an answer of %zu bytes to Fetch", size);
    at += skipped;
    size_t records = be32(at + 26);
    int code = (int16_t)be16(at + 4);
    if (code != 0) refuse_code(answer, code);
    else if ((int32_t)be32(at + 22) > 0) fail("aborted transactions in an answer to Fetch");
    else if (records > size - skipped - 30) fail("%zu bytes of records in an answer of %zu", records, size);
    else take_batches(connection, at + 30, records, connection->wanted[slot], answer);
}

static size_t take(Connection *connection, const uint8_t *data, size_t size, Answer *answer) {
    if (size < 8 || size < 4 + (size_t)be32(data)) return 0;
    size_t whole = 4 + (size_t)be32(data);
    int slot = (int)be32(data + 4);
    if (slot < 0 || slot >= connection->window) fail("whose answer is %d?", slot);
    answer->slot = slot;
    if (connection->role == SENDER) take_produced(connection, data + 8, whole - 8, slot, answer);
    else take_fetched(connection, data + 8, whole - 8, slot, answer);
    return whole;
}

const Protocol kafka = {"kafka", 1, prepare, greet, ask, take};
