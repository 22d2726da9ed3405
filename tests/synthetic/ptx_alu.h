/*
 * ptx_alu.h - what the files compiled once per instruction level share: names that end in the level.
 */
#ifndef SYNTHETIC_PTX_ALU_H
#define SYNTHETIC_PTX_ALU_H

#include "ptx_ir.h"

#define PTX_PASTE_(name, level) name##_##level
#define PTX_PASTE(name, level) PTX_PASTE_(name, level)
#define PTX_LEVEL_NAME(name) PTX_PASTE(name, PTX_LEVEL)

/* Ends with an entry without name. */
extern const struct ptx_alu ptx_alu_table_v2[], ptx_alu_table_v3[], ptx_alu_table_v4[], ptx_alu_table_round[];

#endif
