/*
 * live.h - keeps the page of shim/live.h. Threads: any; one of them writes at a time.
 */
#ifndef HBMSPILL_HOOKS_LIVE_H
#define HBMSPILL_HOOKS_LIVE_H

/* From hooks that are called often enough, with no lock held; the page is there from the first gpu on. */
void live_tick(void);

#endif
