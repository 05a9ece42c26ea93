/* Pops messages of a topic and acknowledges each: pops PORT CONNECTIONS WARMUP_S SECONDS TOPIC GROUP
 *
 *     pop 32 ──→ answer ──→ 32 acks, one request each, and the next pop, in one write
 *
 * as RocketMQ's push consumer does in POP mode. A message counts when its ack is answered. Every answer is looked at:
 * codes, how many records there are, and that no offset of a queue comes twice. Prints one line of JSON.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MOST 32
#define POP_OPAQUE 1
#define ACK_OPAQUE 2
#define POLLING_FULL 209
#define POLLING_TIMEOUT 210
#define MOST_CONNECTIONS 256
#define QUEUES 64
#define OFFSETS (1 << 22)
#define BUFFER (4 << 20)

typedef struct {
    int socket;
    uint8_t *in;
    size_t in_size;
    char *out;
    size_t out_size, out_sent;
    int waiting; /* acks that are not answered */
} Connection;

static Connection connections[MOST_CONNECTIONS];
static uint8_t *seen[3][QUEUES];
static const char *topic, *group;
static uint64_t acked, popped, retried, errors, doubles, waited;
static char first_error[256];

static double now_s(void) {
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void fail(const char *what) {
    fprintf(stderr, "pops: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void note_error(const char *text, size_t size) {
    if (errors++ == 0) {
        size_t kept = size < sizeof first_error - 1 ? size : sizeof first_error - 1;
        memcpy(first_error, text, kept);
        for (size_t at = 0; at < kept; at++)
            if (first_error[at] == '"' || first_error[at] == '\\' || first_error[at] < ' ') first_error[at] = '\'';
    }
}

static uint32_t be32(const uint8_t *at) {
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static void put_be32(char *at, uint32_t value) {
    for (int index = 3; index >= 0; index--, value >>= 8) at[index] = (char)value;
}

static void add_frame(Connection *connection, const char *text, size_t size) {
    if (connection->out_size + size + 8 > BUFFER) fail("too much to send");
    char *at = connection->out + connection->out_size;
    put_be32(at, (uint32_t)(4 + size));
    put_be32(at + 4, (uint32_t)size);
    memcpy(at + 8, text, size);
    connection->out_size += 8 + size;
}

static void add_pop(Connection *connection) {
    char text[1024];
    int size = snprintf(text, sizeof text,
        "{\"code\":200050,\"extFields\":{\"pollTime\":\"15000\",\"invisibleTime\":\"60000\",\"queueId\":\"-1\",\"bornTime\":\"%lld\","
        "\"maxMsgNums\":\"%d\",\"bname\":\"broker-a\",\"topic\":\"%s\",\"expType\":\"TAG\",\"exp\":\"*\",\"consumerGroup\":\"%s\","
        "\"initMode\":\"0\",\"order\":\"false\"},\"flag\":0,\"language\":\"JAVA\",\"opaque\":%d,"
        "\"serializeTypeCurrentRPC\":\"JSON\",\"version\":479}",
        (long long)(now_s() * 1000), MOST, topic, group, POP_OPAQUE);
    add_frame(connection, text, (size_t)size);
}

static void add_ack(Connection *connection, int kind, long queue, long long offset, const char *handle) {
    char text[1024];
    const char *joint = kind == 2 ? "+" : "_";
    int size = snprintf(text, sizeof text,
        "{\"code\":200051,\"extFields\":{\"queueId\":\"%ld\",\"offset\":\"%lld\",\"bname\":\"broker-a\",\"topic\":\"%s%s%s%s\","
        "\"consumerGroup\":\"%s\",\"extraInfo\":\"%s %ld %lld\"},\"flag\":0,\"language\":\"JAVA\",\"opaque\":%d,"
        "\"serializeTypeCurrentRPC\":\"JSON\",\"version\":479}",
        queue, offset, kind ? "%RETRY%" : "", kind ? group : "", kind ? joint : "", topic, group, handle, queue, offset,
        ACK_OPAQUE);
    add_frame(connection, text, (size_t)size);
    connection->waiting++;
}

/* The text behind `"name":"` in a header, or behind `"name":`. */
static const char *value_of(const char *text, const char *name) {
    char key[64];
    snprintf(key, sizeof key, "\"%s\":", name);
    const char *found = strstr(text, key);
    if (found == NULL) return "";
    found += strlen(key);
    return *found == '"' ? found + 1 : found;
}

static void note_seen(int kind, long queue, long long offset) {
    if (queue < 0 || queue >= QUEUES || offset < 0 || offset >= OFFSETS) return;
    if (seen[kind][queue] == NULL && (seen[kind][queue] = calloc(OFFSETS, 1)) == NULL) fail("memory");
    doubles += seen[kind][queue][offset];
    seen[kind][queue][offset] = 1;
}

/* Acknowledge everything that an answer names: `r queue offset,offset;…`, each queue begun at `r queue start`. */
static void take_popped(Connection *connection, const char *text) {
    long long pop_time = atoll(value_of(text, "popTime")), invisible = atoll(value_of(text, "invisibleTime"));
    int revive_queue = atoi(value_of(text, "reviveQid"));
    const char *at = value_of(text, "msgOffsetInfo"), *start = value_of(text, "startOffsetInfo");
    while (*at >= '0' && *at <= '9') {
        char *end;
        int kind = (int)strtol(at, &end, 10);
        long queue = strtol(end, &end, 10);
        char *start_end;
        strtol(start, &start_end, 10);
        strtol(start_end, &start_end, 10);
        long long begin = strtoll(start_end, &start_end, 10);
        start = start_end + 1;
        char handle[256];
        snprintf(handle, sizeof handle, "%lld %lld %lld %d %d broker-a", begin, pop_time, invisible, revive_queue, kind);
        do {
            long long offset = strtoll(end + 1, &end, 10);
            note_seen(kind, queue, offset);
            add_ack(connection, kind, queue, offset, handle);
            popped++;
            retried += kind != 0;
        } while (*end == ',');
        at = *end == ';' ? end + 1 : end;
    }
}

static void take(Connection *connection, const uint8_t *frame, size_t size) {
    static char text[1 << 20];
    size_t header = be32(frame + 4) & 0xFFFFFF;
    if (header + 8 > size || header >= sizeof text) fail("a header that is too long");
    memcpy(text, frame + 8, header);
    text[header] = 0;
    int code = atoi(value_of(text, "code"));
    if (atoi(value_of(text, "opaque")) == ACK_OPAQUE) {
        connection->waiting--;
        if (code == 0) acked++;
        else note_error(text, header);
        return;
    }
    if (code == 0) take_popped(connection, text);
    else if (code == POLLING_TIMEOUT || code == POLLING_FULL) waited++;
    else note_error(text, header);
    add_pop(connection);
}

static void read_some(Connection *connection) {
    ssize_t got = recv(connection->socket, connection->in + connection->in_size, BUFFER - connection->in_size, MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) fail("the server closed a connection");
    if (got < 0) return;
    connection->in_size += (size_t)got;
    size_t at = 0;
    while (connection->in_size - at >= 8) {
        size_t size = 4 + (size_t)be32(connection->in + at);
        if (size > BUFFER) fail("a frame that is too large");
        if (connection->in_size - at < size) break;
        take(connection, connection->in + at, size);
        at += size;
    }
    memmove(connection->in, connection->in + at, connection->in_size - at);
    connection->in_size -= at;
}

static void write_some(Connection *connection) {
    ssize_t sent = send(connection->socket, connection->out + connection->out_sent,
        connection->out_size - connection->out_sent, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN && errno != EINTR) fail("cannot send");
    if (sent > 0) connection->out_sent += (size_t)sent;
    if (connection->out_sent == connection->out_size) connection->out_sent = connection->out_size = 0;
}

static void open_connection(Connection *connection, int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connection->socket = socket(AF_INET, SOCK_STREAM, 0);
    int one = 1;
    setsockopt(connection->socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (connect(connection->socket, (struct sockaddr *)&address, sizeof address) < 0) fail("cannot connect");
    connection->in = malloc(BUFFER);
    connection->out = malloc(BUFFER);
    if (connection->in == NULL || connection->out == NULL) fail("memory");
    add_pop(connection);
}

static void run_until(int count, double deadline) {
    struct pollfd polled[MOST_CONNECTIONS];
    while (now_s() < deadline) {
        for (int each = 0; each < count; each++) {
            if (connections[each].out_size > 0) write_some(&connections[each]);
            polled[each] = (struct pollfd){.fd = connections[each].socket, .events = POLLIN};
            if (connections[each].out_size > 0) polled[each].events |= POLLOUT;
        }
        if (poll(polled, (nfds_t)count, 100) < 0 && errno != EINTR) fail("poll");
        for (int each = 0; each < count; each++)
            if (polled[each].revents & (POLLIN | POLLHUP | POLLERR)) read_some(&connections[each]);
    }
}

int main(int count, char **words) {
    if (count != 7) {
        fprintf(stderr, "pops PORT CONNECTIONS WARMUP_S SECONDS TOPIC GROUP\n");
        return 2;
    }
    int open = atoi(words[2]);
    if (open < 1 || open > MOST_CONNECTIONS) fail("1 to 256 connections");
    topic = words[5];
    group = words[6];
    for (int each = 0; each < open; each++) open_connection(&connections[each], atoi(words[1]));
    run_until(open, now_s() + atof(words[3]));
    uint64_t before = acked;
    double begin = now_s();
    run_until(open, begin + atof(words[4]));
    double seconds = now_s() - begin;
    printf("{\"acked\":%llu,\"seconds\":%.3f,\"popped\":%llu,\"retried\":%llu,\"doubles\":%llu,\"waited\":%llu,"
           "\"errors\":%llu,\"error\":\"%s\"}\n",
        (unsigned long long)(acked - before), seconds, (unsigned long long)popped, (unsigned long long)retried,
        (unsigned long long)doubles, (unsigned long long)waited, (unsigned long long)errors, first_error);
    return 0;
}
