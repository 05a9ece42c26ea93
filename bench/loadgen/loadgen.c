/* Drives one server with many requests in flight, and prints what came of it as one line of JSON.
 *
 *     loadgen PROTOCOL WORK NAME=VALUE …       protocols rocketmq, redis, nats, kafka
 *
 *     send    messages from all connections, over all queues
 *     fill    `limit` messages and no more, each connection into a queue of its own, or over all of several topics
 *     pull    what was filled in, `per_pull` messages a request
 *     relay   send, and take at the same time: at most connections x window messages are on their way; the latency is
 *             that of a message from its sender to its follower
 *
 * With `due`, messages are to be delivered at that time; with `commits`, each begins a transaction, whose commit, which
 * nobody answers, is sent when the message is answered (of rocketmq only).
 *
 * One thread, one epoll loop. Requests are made when a quarter of a connection's window is free, for every protocol
 * alike, so that their number per system call does not depend on how a server groups its answers. Every answer is
 * looked at: what is not a success is counted as an error and not as a message. After the last measured moment nothing
 * is sent any more, and every answer is waited for: then `acknowledged` is what the server must hold, to the message.
 */
#define _GNU_SOURCE
#include "loadgen.h"
#include "measure.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define READ_SIZE (1 << 18)
#define STALL_NS 20000000000LL

Options options = {
    .connections = 4, .window = 128, .topics = 1, .queues = 4, .size = 1024, .batch = 1, .per_pull = 32, .warmup = 1,
    .seconds = 2, .topic = "bench",
};

static Counts counts;
static Totals totals;
static Connection *connections;
static int connection_count;
static int64_t read_at; /* when the answers that are looked at now were read */
static bool is_ending;

void arrived(const uint8_t *body) {
    int64_t sent_at;
    memcpy(&sent_at, body, sizeof sent_at);
    add_latency(&counts, read_at - sent_at);
}

/* -- connections */

static void *zeroed(size_t count, size_t size) {
    void *memory = calloc(count, size);
    if (memory == NULL) fail("no memory for %zu x %zu bytes", count, size);
    return memory;
}

/* A congestion control that paces (BBR, the default of some systems) holds requests back on a loopback that has room. */
static void send_as_it_comes(int fd) {
    const char unpaced[] = "reno"; /* every Linux has it, and lets everybody use it */
    if (setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, unpaced, strlen(unpaced)) != 0)
        fail("TCP_CONGESTION %s: %s", unpaced, strerror(errno));
}

static void open_connection(Connection *connection, int number, const Protocol *protocol) {
    Role role = number >= options.connections ? FOLLOWER : options.work == PULL ? PULLER : SENDER;
    int window = role == FOLLOWER ? protocol->follower_window : options.window, yes = 1;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)options.port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    *connection = (Connection){.number = number, .role = role, .window = window, .free_count = window};
    connection->fd = socket(AF_INET, SOCK_STREAM, 0);
    send_as_it_comes(connection->fd);
    connection->free_slots = zeroed((size_t)window, sizeof(int));
    connection->asked_at = zeroed((size_t)window, sizeof(int64_t));
    connection->wanted = zeroed((size_t)window, sizeof(uint64_t));
    connection->arrived = zeroed((size_t)window, sizeof(int));
    connection->generations = zeroed((size_t)window, sizeof(int));
    for (int slot = 0; slot < window; slot++) connection->free_slots[slot] = slot;
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

/* -- asking */

static uint64_t share_of(const Connection *connection) {
    uint64_t all = options.limit / (uint64_t)options.batch, each = all / (uint64_t)options.connections;
    return connection->number == 0 ? all - each * (uint64_t)(options.connections - 1) : each;
}

/* How many requests a connection may make now. */
static uint64_t allowance(const Connection *connection) {
    uint64_t free = (uint64_t)connection->free_count;
    if (connection->is_paused) return 0;
    if (connection->role != SENDER) return free;
    if (is_ending) return 0;
    if (options.work == FILL) {
        uint64_t left = share_of(connection) - connection->asked;
        return free < left ? free : left;
    }
    if (options.work == RELAY) {
        uint64_t most = (uint64_t)options.connections * (uint64_t)options.window;
        uint64_t under_way = totals.asked - totals.refused - totals.consumed;
        uint64_t left = under_way < most ? most - under_way : 0;
        return free < left ? free : left;
    }
    return free;
}

static void ask_more(const Protocol *protocol, Connection *connection) {
    uint64_t quarter = connection->window / 4 > 1 ? (uint64_t)connection->window / 4 : 1;
    uint64_t left = allowance(connection);
    if (left == 0 || (left < quarter && options.work != FILL)) return;
    int64_t now = now_ns();
    for (; left > 0; left--) {
        int slot = connection->free_slots[connection->free_begin];
        connection->free_begin = (connection->free_begin + 1) % connection->window;
        connection->free_count--;
        connection->asked_at[slot] = now;
        protocol->ask(connection, slot);
        connection->asked++;
        if (connection->role == SENDER) totals.asked += (uint64_t)options.batch;
    }
}

/* -- answers */

static void count(Connection *connection, const Answer *answer) {
    bool is_refused = answer->error[0] != 0;
    if (is_refused && counts.errors++ == 0)
        snprintf(counts.first_error, sizeof counts.first_error, "%s", answer->error);
    if (connection->role == FOLLOWER) totals.consumed += answer->messages;
    else if (connection->role == SENDER && is_refused) totals.refused += (uint64_t)options.batch;
    else if (connection->role == SENDER) totals.acknowledged += answer->messages;
    bool is_counted = options.work == RELAY ? connection->role == FOLLOWER : true;
    if (is_counted && !is_refused) counts.messages += answer->messages;
    if (answer->slot < 0) return;
    if (options.work != RELAY) add_latency(&counts, read_at - connection->asked_at[answer->slot]);
    int last = (connection->free_begin + connection->free_count++) % connection->window;
    connection->free_slots[last] = answer->slot;
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
    read_at = now_ns();
    while (in->begin < in->end) {
        Answer answer = {.slot = -1};
        size_t taken = protocol->take(connection, in->data + in->begin, in->end - in->begin, &answer);
        if (taken == 0) break;
        in->begin += taken;
        count(connection, &answer);
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
    if (options.work != RELAY) return;
    for (int index = 0; index < options.connections; index++) { /* what was taken lets senders go on */
        ask_more(protocol, &connections[index]);
        if (!connections[index].wants_write) write_out(poll, &connections[index]);
    }
}

static void go_on(int poll, const Protocol *protocol, double seconds) {
    int64_t end = now_ns() + (int64_t)(seconds * 1e9);
    while (now_ns() < end) turn(poll, protocol);
}

static bool is_settled(void) {
    for (int number = 0; number < connection_count; number++)
        if (connections[number].out.begin < connections[number].out.end) return false;
    bool is_answered = totals.acknowledged + totals.refused == totals.asked;
    return is_answered && (options.work != RELAY || totals.consumed >= totals.acknowledged);
}

/* Waits for every answer, and for followers to have everything. */
static void settle(int poll, const Protocol *protocol) {
    int64_t begin = now_ns();
    is_ending = options.work != FILL; /* which ends by itself */
    while (!is_settled() || (options.work == FILL && totals.asked < options.limit)) {
        turn(poll, protocol);
        if (options.work != FILL && now_ns() - begin > STALL_NS)
            fail("%llu messages asked, %llu acknowledged, %llu refused, %llu consumed, and no more comes",
                 (unsigned long long)totals.asked, (unsigned long long)totals.acknowledged,
                 (unsigned long long)totals.refused, (unsigned long long)totals.consumed);
    }
    if (options.work == RELAY && totals.consumed != totals.acknowledged)
        fail("%llu messages acknowledged and %llu consumed", (unsigned long long)totals.acknowledged,
             (unsigned long long)totals.consumed);
}

static void run(const Protocol *protocol, int poll) {
    for (int number = connection_count - 1; number >= 0; number--) { /* followers first */
        ask_more(protocol, &connections[number]);
        write_out(poll, &connections[number]);
    }
    if (options.work != FILL) go_on(poll, protocol, options.warmup);
    counts = (Counts){0};
    Moment begin = this_moment(options.pid);
    if (options.work == FILL) settle(poll, protocol);
    else go_on(poll, protocol, options.seconds);
    Moment end = this_moment(options.pid);
    Counts measured = counts;
    if (options.work == SEND || options.work == RELAY) settle(poll, protocol);
    print_result(&measured, &totals, begin, end);
}

/* -- options */

static void set_option(const char *argument) {
    const struct { const char *name; int *value; } whole[] = {
        {"port=", &options.port}, {"connections=", &options.connections}, {"window=", &options.window},
        {"topics=", &options.topics}, {"queues=", &options.queues}, {"size=", &options.size},
        {"batch=", &options.batch}, {"per_pull=", &options.per_pull}, {"pid=", &options.pid},
        {"commits=", &options.commits},
    };
    for (size_t index = 0; index < sizeof whole / sizeof *whole; index++) {
        size_t size = strlen(whole[index].name);
        if (strncmp(argument, whole[index].name, size) == 0) {
            *whole[index].value = atoi(argument + size);
            return;
        }
    }
    if (strncmp(argument, "limit=", 6) == 0) options.limit = strtoull(argument + 6, NULL, 10);
    else if (strncmp(argument, "due=", 4) == 0) options.due = strtoull(argument + 4, NULL, 10);
    else if (strncmp(argument, "warmup=", 7) == 0) options.warmup = atof(argument + 7);
    else if (strncmp(argument, "seconds=", 8) == 0) options.seconds = atof(argument + 8);
    else if (strncmp(argument, "topic=", 6) == 0) options.topic = argument + 6;
    else fail("what is %s?", argument);
}

static void check_options(void) {
    uint64_t share = (uint64_t)options.connections * (uint64_t)options.batch;
    if (options.queues < 1 || options.queues > MOST_QUEUES || options.topics < 1 || options.topics > 9999)
        fail("queues must be 1 to %d, topics 1 to 9999", MOST_QUEUES);
    if (options.window < 1 || options.window > 9999 || options.connections < 1 || options.connections > 9999)
        fail("window and connections must be 1 to 9999");
    if (options.size < 8 || options.batch < 1 || options.per_pull < 1) fail("size must be 8, batch and per_pull 1 at least");
    if (options.work == FILL && (options.limit == 0 || options.limit % share != 0))
        fail("limit must be a multiple of connections x batch");
    if (options.work == RELAY && options.batch != 1) fail("relay sends no batches");
    if ((options.commits || options.due) && options.batch != 1) fail("no batch waits for its time or for a commit");
    if (options.work == PULL && options.limit < (uint64_t)options.per_pull * (uint64_t)options.queues)
        fail("limit is less than one pull from every queue");
}

static const Protocol *choose(int count, char **arguments) {
    const Protocol *protocols[] = {&rocketmq, &redis, &nats, &kafka};
    const char *works[] = {"send", "fill", "pull", "relay"};
    if (count < 3) fail("loadgen PROTOCOL WORK NAME=VALUE …");
    for (int index = 3; index < count; index++) set_option(arguments[index]);
    int work = 0;
    while (work < 4 && strcmp(arguments[2], works[work]) != 0) work++;
    if (work == 4) fail("no work %s", arguments[2]);
    options.work = (Work)work;
    check_options();
    for (int index = 0; index < 4; index++)
        if (strcmp(arguments[1], protocols[index]->name) == 0) return protocols[index];
    fail("no protocol %s", arguments[1]);
}

int main(int argument_count, char **arguments) {
    const Protocol *protocol = choose(argument_count, arguments);
    protocol->prepare();
    connection_count = options.connections + (options.work == RELAY ? options.queues : 0);
    connections = zeroed((size_t)connection_count, sizeof(Connection));
    int poll = epoll_create1(0);
    for (int number = 0; number < connection_count; number++) {
        open_connection(&connections[number], number, protocol);
        protocol->greet(&connections[number]);
        fcntl(connections[number].fd, F_SETFL, O_NONBLOCK);
        watch(poll, &connections[number], EPOLL_CTL_ADD);
    }
    run(protocol, poll);
    return 0;
}
