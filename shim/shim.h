/*
 * shim.h - what the rest of hbmspill may know of the loader.
 */
#ifndef HBMSPILL_SHIM_SHIM_H
#define HBMSPILL_SHIM_SHIM_H

#endif
