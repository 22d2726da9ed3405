/*
 * doctor.h - hbmspill doctor: what was looked at, and what was found. Findings are printed in the order in
 * which they are made.
 */
#ifndef HBMSPILL_TOOL_DOCTOR_H
#define HBMSPILL_TOOL_DOCTOR_H

enum finding { FINDING_GOOD, FINDING_WARNING, FINDING_FAULT };

/* subject: what it is about, a word. remedy: what to do, NULL where there is nothing to do. */
__attribute__((format(printf, 4, 5))) void doctor_find(enum finding finding, const char *subject,
                                                       const char *remedy, const char *format, ...);

/* The driver, each device, its link. */
void doctor_gpu(void);
/* Memory, control group, locked memory, NUMA. root stands before /proc and /sys. */
void doctor_host(const char *root);
/* JAX, variables that hide tensors, other preloads, hbmspill's own settings and parts. */
void doctor_job(void);

#endif
