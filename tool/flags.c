#include "tool/tool.h"

const struct tool_flag tool_flags[] = {
    {"hbm", "SIZE", "HBMSPILL_HBM_LIMIT"}, {"host", "SIZE", "HBMSPILL_HOST_LIMIT"},
    {"policy", "P", "HBMSPILL_POLICY"},    {"prefetch", "on|off", "HBMSPILL_PREFETCH"},
    {"log", "LEVEL", "HBMSPILL_LOG"},      {"stats", "FILE", "HBMSPILL_STATS"},
    {"trace", "FILE", "HBMSPILL_TRACE"},   {"events", "FILE", "HBMSPILL_TRACE_EVENTS"},
    {"numa", "NODE", "HBMSPILL_NUMA"},
};
const unsigned tool_flag_count = sizeof tool_flags / sizeof *tool_flags;
