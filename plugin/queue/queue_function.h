/* The functions: native ones, installed with the engine. */
#ifndef QUEUE_FUNCTION_H
#define QUEUE_FUNCTION_H

#include <mysql/plugin_function.h>

extern Plugin_function queue_wait_plugin, queue_wait_n_plugin, queue_end_plugin, queue_abort_plugin,
    queue_rowid_plugin, queue_set_srcid_plugin, queue_compact_plugin, queue_stats_plugin;

#endif
