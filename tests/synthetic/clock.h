/*
 * clock.h - the host in virtual time: one clock for all threads of the process, moved on by what calls of the
 * driver cost, and, where nobody can go on, to the next thing that somebody waits for.
 *
 * A clock that depended on when threads happen to run would be none. So, while the clock is on, a call that
 * the clock knows waits until no other thread of the process can run (quiet.h): all are asleep, or at such a
 * call themselves. Then one of them goes on, chosen by what it asks for and not by who came first. Host
 * functions are called, and waits end, when the host's clock has reached their time; it passes beyond what
 * calls cost only when all threads are asleep and none is at a call.
 *
 * All functions want driver_lock, but for clock_start and clock_call.
 */
#ifndef SYNTHETIC_CLOCK_H
#define SYNTHETIC_CLOCK_H

#include "timeline.h"

extern double clock_now;    /* the host's, ns since cuInit */
extern double clock_waited; /* of it, while every thread slept */

/* cuInit. 0 or -errno. */
int clock_start(void);

/* The calling thread is at a call of site: its turn and its cost. key: a device address it is about, or 0. */
void clock_call(struct api_site *site, uint64_t key);
/* More time, of the call that this thread is in: for what costs by the byte. */
void clock_charge_locked(double ns);

/* Around a sleep of the calling thread, inside a call, that ends when the device has run something: 1, -1. */
void clock_inside_locked(int n);

/*
 * The end of a query. One that is told to wait takes its time, but the time of its thread only: some programs
 * have a thread that asks every now and then, by a timer.
 */
void clock_answer_locked(bool ready, bool costs);

/* An operation is put into a stream. */
void clock_submit_locked(struct op *op, struct CUstream_st *stream);
/* The device up to the host's time. May drop the lock. */
void clock_catch_up_locked(void);
/* Has ended by now, and has run. May drop the lock. */
bool clock_done_locked(struct op *op);
/* The host waits for it; then it may still have to run. */
void clock_wait_locked(struct op *op);
/* The end of the process: all there is, as far as it goes. */
void clock_finish_locked(void);

#endif
