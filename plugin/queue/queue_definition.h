/* What CREATE TABLE says about a queue: options and columns, checked and passed to the core. */
#ifndef QUEUE_DEFINITION_H
#define QUEUE_DEFINITION_H

#include <string>

#include "queue_abi.h"

/* Text as the core takes it; it belongs to the string. */
rq_slice queue_slice_of(const std::string &text);

/* The folder of a queue, beside the table's .frm. */
std::string queue_folder_of(const char *name);

/* Makes the queue of a new table. Returns a handler's error, which was raised, or 0. */
int queue_create(THD *thd, const char *name, TABLE *form, HA_CREATE_INFO *info);

#endif
