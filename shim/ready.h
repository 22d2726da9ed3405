/*
 * ready.h - the one call from the cuInit wrapper into the life of the process. Private to shim/.
 */
#ifndef HBMSPILL_SHIM_READY_H
#define HBMSPILL_SHIM_READY_H

/* cuInit has succeeded. The first call makes the process active; others wait for it. */
void shim_driver_ready(void);

#endif
