/* Latencies, CPU time of the server and of this program, and the line of JSON that says what came of a run. */
#define _GNU_SOURCE
#include "measure.h"
#include "loadgen.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

/* A histogram whose steps grow with the value, about 2 % wide. */
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

void add_latency(Counts *counts, int64_t ns) {
    counts->latencies[bucket_of((uint64_t)(ns > 0 ? ns : 0))]++;
    counts->timed++;
}

static double percentile_us(const Counts *counts, double share) {
    uint64_t wanted = (uint64_t)((double)counts->timed * share), seen = 0;
    for (unsigned bucket = 0; bucket < 64 * FINE; bucket++) {
        seen += counts->latencies[bucket];
        if (seen > wanted) return value_of(bucket) / 1000;
    }
    return 0;
}

static double seconds_of(clockid_t clock) {
    struct timespec time;
    if (clock_gettime(clock, &time) != 0) fail("the server is gone: its CPU time cannot be read");
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* The CPU time of a process is that of all its threads, also of those that ended, to the nanosecond. */
Moment this_moment(int server_pid) {
    Moment moment = {.ns = now_ns(), .own_cpu = seconds_of(CLOCK_PROCESS_CPUTIME_ID)};
    clockid_t clock;
    if (server_pid == 0) return moment;
    if (clock_getcpuclockid(server_pid, &clock) != 0) fail("the server, process %d, is gone", server_pid);
    moment.server_cpu = seconds_of(clock);
    return moment;
}

void print_result(const Counts *counts, const Totals *totals, Moment begin, Moment end) {
    double seconds = (double)(end.ns - begin.ns) / 1e9;
    double cpu = end.server_cpu - begin.server_cpu, own = end.own_cpu - begin.own_cpu;
    double each = counts->messages ? 1e6 / (double)counts->messages : 0;
    printf("{\"messages\": %llu, \"seconds\": %.4f, \"rate\": %.1f, \"p50_us\": %.1f, \"p99_us\": %.1f, ",
           (unsigned long long)counts->messages, seconds, (double)counts->messages / seconds,
           percentile_us(counts, 0.5), percentile_us(counts, 0.99));
    printf("\"cpu_us\": %.4f, \"cpu_share\": %.3f, \"generator_cpu_us\": %.4f, \"generator_share\": %.3f, ", cpu * each,
           cpu / seconds, own * each, own / seconds);
    printf("\"asked\": %llu, \"acknowledged\": %llu, \"refused\": %llu, \"consumed\": %llu, ",
           (unsigned long long)totals->asked, (unsigned long long)totals->acknowledged,
           (unsigned long long)totals->refused, (unsigned long long)totals->consumed);
    printf("\"errors\": %llu, \"error\": \"", (unsigned long long)counts->errors);
    for (const char *letter = counts->first_error; *letter; letter++)
        putchar(*letter < ' ' || *letter > '~' || *letter == '"' || *letter == '\\' ? ' ' : *letter);
    printf("\"}\n");
}
