/* What a run counts, and how it is printed. */
#ifndef MEASURE_H
#define MEASURE_H

#include <stdint.h>

#define FINE 32 /* steps per doubling of a latency */

typedef struct {
    uint64_t messages, errors, timed;
    uint64_t latencies[64 * FINE];
    char first_error[400];
} Counts;

/* From the first request to the last, the warm-up included; never set back. */
typedef struct {
    uint64_t asked, acknowledged, refused; /* messages of senders */
    uint64_t consumed;                     /* messages of followers */
} Totals;

typedef struct {
    int64_t ns;
    double server_cpu, own_cpu; /* seconds */
} Moment;

void add_latency(Counts *counts, int64_t ns);
Moment this_moment(int server_pid);
void print_result(const Counts *counts, const Totals *totals, Moment begin, Moment end);

#endif
