/* Drives one server with many requests in flight, and prints what came of it as one line of JSON.
 *
 *     loadgen PROTOCOL WORK NAME=NUMBER …      protocols rocketmq, redis, nats; work send, fill, consume
 *
 * One thread, one epoll loop. Requests are made when a quarter of a connection's window is free, for every protocol
 * alike, so that their number per system call does not depend on how a server groups its answers. Every answer is
 * looked at: what is not a success is counted as an error and not as a message.
 */
#define _GNU_SOURCE
#include "loadgen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define BODIES 64
#define READ_SIZE (1 << 18)
#define STALL_NS 15000000000LL
#define FINE 32 /* steps per doubling of a latency */

Options options = {.connections = 4, .window = 128, .queues = 4, .size = 1024, .warmup = 1, .seconds = 2, .topic = "bench"};

typedef struct {
    uint64_t messages, errors, answers;
    uint64_t latencies[64 * FINE];
    char first_error[200];
} Counts;

static Counts counts;
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

static int64_t now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

/* -- buffers and bodies */

static void reserve(Buffer *buffer, size_t size) {
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
    for (size_t made = 0; made < size;) {
        ssize_t more = getrandom(bodies + made, size - made, 0);
        if (more <= 0) fail("no random bytes: %s", strerror(errno));
        made += (size_t)more;
    }
}

const uint8_t *body_of(uint64_t number) {
    return bodies + (number % BODIES) * (size_t)options.size;
}

int queue_of(const Connection *connection) {
    uint64_t turn = options.work == SEND ? connection->asked : 0; /* otherwise each connection keeps to one queue */
    return (int)(((uint64_t)connection->number + turn) % (uint64_t)options.queues);
}

uint64_t next_offset(Connection *connection) {
    uint64_t offset = connection->next;
    uint64_t there = options.limit / (uint64_t)options.queues;
    connection->next = offset + 2 * PER_PULL <= there ? offset + PER_PULL : 0; /* whole pulls only */
    return offset;
}

void refuse(Answer *answer, const char *what, const void *text, size_t size) {
    snprintf(answer->error, sizeof answer->error, "%s: %.*s", what, (int)(size > 150 ? 150 : size), (const char *)text);
}

/* -- latencies: a histogram whose steps grow with the value, about 2 % wide */

static unsigned bucket_of(uint64_t ns) {
    if (ns < FINE) return (unsigned)ns;
    unsigned doublings = 63U - (unsigned)__builtin_clzll(ns);
    return (doublings - 4) * FINE + (unsigned)((ns >> (doublings - 5)) & (FINE - 1));
}

static double value_of(unsigned bucket) {
    if (bucket < FINE) return bucket;
    unsigned doublings = bucket / FINE + 4;
    return (double)((uint64_t)(FINE + bucket % FINE) << (doublings - 5));
}

static double percentile_us(double share) {
    uint64_t wanted = (uint64_t)((double)counts.answers * share), seen = 0;
    for (unsigned bucket = 0; bucket < 64 * FINE; bucket++) {
        seen += counts.latencies[bucket];
        if (seen > wanted) return value_of(bucket) / 1000;
    }
    return 0;
}

/* -- CPU time, of the server and of this program */

static double own_cpu(void) {
    return (double)clock() / CLOCKS_PER_SEC;
}

static double server_cpu(void) {
    if (options.pid == 0) return 0;
    char path[64], line[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", options.pid);
    FILE *file = fopen(path, "r");
    if (file == NULL || fgets(line, sizeof line, file) == NULL) fail("the server, process %d, is gone", options.pid);
    fclose(file);
    unsigned long user, system;
    char *rest = strrchr(line, ')'); /* the name before it may hold anything */
    if (rest == NULL || sscanf(rest + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system) != 2)
        fail("%s reads %s", path, line);
    return (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
}

/* -- connections */

static void *zeroed(size_t count, size_t size) {
    void *memory = calloc(count, size);
    if (memory == NULL) fail("no memory for %zu x %zu bytes", count, size);
    return memory;
}

static void open_connection(Connection *connection, int number) {
    size_t window = (size_t)options.window;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)options.port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int yes = 1;
    *connection = (Connection){.number = number, .fd = socket(AF_INET, SOCK_STREAM, 0)};
    connection->free_slots = zeroed(window, sizeof(int));
    connection->asked_at = zeroed(window, sizeof(int64_t));
    connection->wanted = zeroed(window, sizeof(uint64_t));
    connection->arrived = zeroed(window, sizeof(int));
    connection->generations = zeroed(window, sizeof(int));
    for (int slot = 0; slot < options.window; slot++) connection->free_slots[slot] = slot;
    connection->free_count = options.window;
    if (connect(connection->fd, (struct sockaddr *)&address, sizeof address) != 0)
        fail("port %d: %s", options.port, strerror(errno));
    setsockopt(connection->fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}

static void watch(int poll, Connection *connection, int operation) {
    struct epoll_event event = {.events = EPOLLIN | (connection->wants_write ? EPOLLOUT : 0U), .data.ptr = connection};
    if (epoll_ctl(poll, operation, connection->fd, &event) != 0) fail("epoll_ctl: %s", strerror(errno));
}

static void write_out(int poll, Connection *connection) {
    Buffer *out = &connection->out;
    bool wanted = connection->wants_write;
    connection->wants_write = false;
    while (out->begin < out->end) {
        ssize_t size = send(connection->fd, out->data + out->begin, out->end - out->begin, MSG_NOSIGNAL);
        if (size < 0 && errno == EAGAIN) {
            connection->wants_write = true;
            break;
        }
        if (size < 0) fail("send: %s", strerror(errno));
        out->begin += (size_t)size;
    }
    if (out->begin == out->end) out->begin = out->end = 0;
    if (connection->wants_write != wanted) watch(poll, connection, EPOLL_CTL_MOD);
}

static uint64_t share_of(const Connection *connection) {
    uint64_t all = options.limit, each = all / (uint64_t)options.connections;
    return connection->number == 0 ? all - each * (uint64_t)(options.connections - 1) : each;
}

static void ask_more(const Protocol *protocol, Connection *connection) {
    int quarter = options.window / 4 > 1 ? options.window / 4 : 1;
    bool is_filling = options.work == FILL;
    if (connection->is_paused || (connection->free_count < quarter && !is_filling)) return;
    int64_t now = now_ns();
    while (connection->free_count > 0 && !(is_filling && connection->asked >= share_of(connection))) {
        int slot = connection->free_slots[connection->free_begin];
        connection->free_begin = (connection->free_begin + 1) % options.window;
        connection->free_count--;
        connection->asked_at[slot] = now;
        protocol->ask(connection, slot);
        connection->asked++;
    }
}

static void count(Connection *connection, const Answer *answer, int64_t now) {
    if (answer->error[0] != 0) {
        if (counts.errors++ == 0) snprintf(counts.first_error, sizeof counts.first_error, "%s", answer->error);
    } else {
        counts.messages += answer->messages;
    }
    if (answer->slot < 0) return;
    counts.answers++;
    counts.latencies[bucket_of((uint64_t)(now - connection->asked_at[answer->slot]))]++;
    connection->free_slots[(connection->free_begin + connection->free_count++) % options.window] = answer->slot;
    connection->answered++;
}

static void read_in(const Protocol *protocol, Connection *connection) {
    Buffer *in = &connection->in;
    reserve(in, READ_SIZE);
    ssize_t size = recv(connection->fd, in->data + in->end, in->capacity - in->end, 0);
    if (size == 0) fail("the server closed connection %d", connection->number);
    if (size < 0 && errno == EAGAIN) return;
    if (size < 0) fail("recv: %s", strerror(errno));
    in->end += (size_t)size;
    int64_t now = now_ns();
    while (in->begin < in->end) {
        Answer answer = {.slot = -1};
        size_t taken = protocol->take(connection, in->data + in->begin, in->end - in->begin, &answer);
        if (taken == 0) break;
        in->begin += taken;
        count(connection, &answer, now);
    }
    if (in->begin == in->end) in->begin = in->end = 0;
}

/* -- one run */

static void turn(int poll, const Protocol *protocol) {
    static int64_t last;
    struct epoll_event events[64];
    int ready = epoll_wait(poll, events, 64, 200);
    int64_t now = now_ns();
    if (ready > 0 || last == 0) last = now;
    if (now - last > STALL_NS) fail("no answer for %lld s", STALL_NS / 1000000000LL);
    for (int index = 0; index < ready; index++) {
        Connection *connection = events[index].data.ptr;
        if (events[index].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) read_in(protocol, connection);
        ask_more(protocol, connection);
        if ((events[index].events & EPOLLOUT) || !connection->wants_write) write_out(poll, connection);
    }
}

static void run(const Protocol *protocol, Connection *connections, int poll) {
    for (int number = 0; number < options.connections; number++) {
        ask_more(protocol, &connections[number]);
        write_out(poll, &connections[number]);
    }
    int64_t begin = now_ns();
    if (options.work == FILL) {
        while (counts.answers < options.limit) turn(poll, protocol);
    } else {
        while (now_ns() - begin < (int64_t)(options.warmup * 1e9)) turn(poll, protocol);
        counts = (Counts){0};
    }
    double cpu = server_cpu(), own = own_cpu();
    begin = options.work == FILL ? begin : now_ns();
    while (options.work != FILL && now_ns() - begin < (int64_t)(options.seconds * 1e9)) turn(poll, protocol);
    double seconds = (double)(now_ns() - begin) / 1e9;
    cpu = server_cpu() - cpu;
    own = own_cpu() - own;
    double each = counts.messages ? 1e6 / (double)counts.messages : 0;
    printf("{\"messages\": %llu, \"seconds\": %.4f, \"rate\": %.1f, \"p50_us\": %.1f, \"p99_us\": %.1f, \"cpu_us\": %.3f, "
           "\"cpu_share\": %.3f, \"generator_cpu_us\": %.3f, \"errors\": %llu, \"error\": \"",
           (unsigned long long)counts.messages, seconds, (double)counts.messages / seconds, percentile_us(0.5),
           percentile_us(0.99), cpu * each, cpu / seconds, own * each, (unsigned long long)counts.errors);
    for (const char *letter = counts.first_error; *letter; letter++)
        putchar(*letter < ' ' || *letter > '~' || *letter == '"' || *letter == '\\' ? ' ' : *letter);
    printf("\"}\n");
}

static void set_option(const char *argument) {
    const struct { const char *name; int *value; } whole[] = {
        {"port=", &options.port}, {"connections=", &options.connections}, {"window=", &options.window},
        {"queues=", &options.queues}, {"size=", &options.size}, {"pid=", &options.pid},
    };
    for (size_t index = 0; index < sizeof whole / sizeof *whole; index++) {
        size_t size = strlen(whole[index].name);
        if (strncmp(argument, whole[index].name, size) == 0) {
            *whole[index].value = atoi(argument + size);
            return;
        }
    }
    if (strncmp(argument, "limit=", 6) == 0) options.limit = strtoull(argument + 6, NULL, 10);
    else if (strncmp(argument, "warmup=", 7) == 0) options.warmup = atof(argument + 7);
    else if (strncmp(argument, "seconds=", 8) == 0) options.seconds = atof(argument + 8);
    else if (strncmp(argument, "topic=", 6) == 0) options.topic = argument + 6;
    else fail("what is %s?", argument);
}

static const Protocol *choose(int count, char **arguments) {
    const Protocol *protocols[] = {&rocketmq, &redis, &nats};
    const char *works[] = {"send", "fill", "consume"};
    if (count < 3) fail("loadgen PROTOCOL WORK NAME=NUMBER …");
    for (int index = 3; index < count; index++) set_option(arguments[index]);
    int work = 0;
    while (work < 3 && strcmp(arguments[2], works[work]) != 0) work++;
    if (work == 3) fail("no work %s", arguments[2]);
    options.work = (Work)work;
    if (options.queues < 1 || options.queues > 10 || options.window < 1 || options.window > 9999 ||
        options.connections < 1 || options.connections > 9999)
        fail("queues must be 1 to 10, window and connections 1 to 9999");
    if (options.work != SEND && options.limit < 2 * PER_PULL * (uint64_t)options.queues) fail("limit is too small");
    for (int index = 0; index < 3; index++)
        if (strcmp(arguments[1], protocols[index]->name) == 0) return protocols[index];
    fail("no protocol %s", arguments[1]);
}

int main(int argument_count, char **arguments) {
    const Protocol *protocol = choose(argument_count, arguments);
    make_bodies();
    protocol->prepare();
    Connection *connections = zeroed((size_t)options.connections, sizeof(Connection));
    int poll = epoll_create1(0);
    for (int number = 0; number < options.connections; number++) {
        open_connection(&connections[number], number);
        protocol->greet(&connections[number]);
        fcntl(connections[number].fd, F_SETFL, O_NONBLOCK);
        watch(poll, &connections[number], EPOLL_CTL_ADD);
    }
    run(protocol, connections, poll);
    return 0;
}
