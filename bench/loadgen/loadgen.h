/* What the load generator's parts share: a connection with its slots, and what a protocol must be able to do.
 *
 * A connection has `window` slots. A slot is one request in flight: ask() writes a request for it, take() reads an
 * answer and says whose it is. The main loop knows nothing else about a protocol. What a connection does is its role:
 *
 *     SENDER     sends messages, one or a batch in a request
 *     PULLER     reads what was filled in, from the first message to the last and again
 *     FOLLOWER   waits for what senders send, and takes every message once
 */
#ifndef LOADGEN_H
#define LOADGEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MOST_QUEUES 10 /* so that a queue's number has one digit */
#define FOLLOW_MS 1000 /* how long a follower's request may wait for a message */

typedef enum { SEND, FILL, PULL, RELAY } Work;
typedef enum { SENDER, PULLER, FOLLOWER } Role;

typedef struct {
    const char *protocol;
    Work work;
    int port;
    int connections;  /* of senders or pullers; followers, one for each queue, come on top */
    int window;
    int topics;       /* with more than one, four digits follow the name */
    int queues;       /* of each topic */
    int size;         /* bytes of a body */
    int batch;        /* messages in one send */
    int per_pull;     /* messages that one request of a consumer asks for */
    uint64_t limit;   /* messages to fill in, or that there are to pull, in all queues together */
    double warmup;    /* seconds */
    double seconds;
    int pid;          /* of the server, whose CPU time is measured; 0 for none */
    int commits;      /* 1: every message begins a transaction, which is committed when it is answered */
    uint64_t due;     /* when messages are to be delivered, in ms since 1970; 0: now */
    const char *topic;
} Options;

typedef struct {
    uint8_t *data;
    size_t begin; /* what lies before was taken */
    size_t end;
    size_t capacity;
} Buffer;

typedef struct {
    int fd;
    int number;
    Role role;
    int window;
    Buffer out;
    Buffer in;
    int *free_slots; /* a ring, so that slots are used in turn */
    int free_begin;
    int free_count;
    int64_t *asked_at; /* per slot, in ns */
    uint64_t *wanted;  /* per slot, for the protocol: the offset that was asked for */
    int *arrived;      /* per slot, for the protocol: messages of an answer in parts */
    uint64_t asked;    /* requests so far */
    uint64_t answered; /* answers so far, for protocols that answer in order */
    uint64_t next;     /* the next offset to consume */
    int64_t highest[MOST_QUEUES]; /* per queue, for the protocol: one more than the last offset seen */
    char last_id[48];  /* for the protocol: of the last message taken */
    int generation;    /* of the consumer, where one has to be made anew */
    int *generations;  /* per slot */
    bool is_paused;    /* ask nothing until the protocol says so */
    bool wants_write;
} Connection;

typedef struct {
    int slot; /* of the request that is answered now; -1 for none */
    uint64_t messages;
    char error[400]; /* empty: it was done */
} Answer;

typedef struct {
    const char *name;
    int follower_window;                                                   /* requests of a follower in flight */
    void (*prepare)(void);                                                 /* once */
    void (*greet)(Connection *);                                           /* per connection, may block */
    void (*ask)(Connection *, int slot);                                   /* adds a request to `out` */
    size_t (*take)(Connection *, const uint8_t *, size_t size, Answer *);  /* bytes taken; 0: not whole yet */
} Protocol;

extern Options options;
extern const Protocol rocketmq, redis, nats, kafka;

/* Room for `size` bytes at the end of what will be sent; the caller adds what it wrote to `out.end`. */
uint8_t *room(Connection *connection, size_t size);
void add(Connection *connection, const void *data, size_t size);
void add_text(Connection *connection, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Room for `size` more bytes in a buffer, where what was taken before is given up first. */
void reserve(Buffer *buffer, size_t size);

/* Adds one of some bodies of random bytes; what a follower will take begins with the time at which it was sent. */
void add_body(Connection *connection, int slot);

/* A follower's protocol calls this with the body of every message that arrived. */
void arrived(const uint8_t *body);

/* The queue, and the topic, that the next message of this connection goes to or is taken from. */
int queue_of(const Connection *connection);
int topic_of(const Connection *connection);

/* Where to pull next: from the first message to the last, and again. */
uint64_t next_offset(Connection *connection);

void refuse(Answer *answer, const char *what, const void *text, size_t size);
void fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

int64_t now_ns(void);
void put_be32(uint8_t *at, uint32_t value);
uint32_t be32(const uint8_t *at);
uint64_t be64(const uint8_t *at);

#endif
