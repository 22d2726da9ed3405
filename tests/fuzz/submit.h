/*
 * submit.h - operations given to a stream, in one of the forms the driver has for them.
 */
#ifndef HBMSPILL_TESTS_FUZZ_SUBMIT_H
#define HBMSPILL_TESTS_FUZZ_SUBMIT_H

#include "tests/fuzz/operation.h"

void submit_load(void);

/* A kernel's launch; params points into the struct. */
struct launch {
    CUfunction function;
    unsigned blocks;
    uint64_t values[6];
    void *params[6];
};
void launch_of(const struct operation *op, struct launch *launch);

/* What a host function of OP_HOST gets; stays for the life of the process. */
struct host_data {
    unsigned char *at;
    uint32_t count, value;
};
struct host_data *host_data_of(const struct operation *op);
void CUDA_CB host_function(void *data);

CUDA_MEMCPY3D box_of(const struct operation *op);

/* Orders, submits, notes what it touched and does it to the model. False: refused, nothing was done. */
bool submit(struct world *world, unsigned lane, const struct operation *op, struct random *random);
/* From pageable memory, which is overwritten as soon as the call returns. */
bool submit_upload(struct world *world, struct object *object, struct random *random);

#endif
