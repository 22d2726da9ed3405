/*
 * tensor_map.h - which address a tensor map was made for.
 *
 * cuTensorMapEncode* packs a global address into 128 opaque bytes that the job hands to kernels by value; the
 * bytes are remembered with the address and recognised by content. Entries are kept for good: forgetting one
 * would be a touch missed. Threads: any.
 */
#ifndef HBMSPILL_HOOKS_TENSOR_MAP_H
#define HBMSPILL_HOOKS_TENSOR_MAP_H

#include "hooks/touches.h"

enum { TENSOR_MAP_BYTES = 128 };

/* Looks for known maps at the 64-byte aligned offsets of a parameter. */
void tensor_map_scan(const unsigned char *bytes, size_t offset, size_t size, struct touches *touches);

#endif
