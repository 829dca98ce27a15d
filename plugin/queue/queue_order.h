/* Columns that decide whether, when and before which others a row is given: DUE=, PRIORITY=, FIFO=,
   DEDUPE= and RATE_KEY= in CREATE TABLE name them. */
#ifndef QUEUE_ORDER_H
#define QUEUE_ORDER_H

#include <string>

#include "queue_info_columns.h"
#include "queue_opened.h"

/* Which columns these are, by their numbers among those that are stored; -1 for none. */
struct queue_order {
  int due= -1, priority= -1, fifo= -1, dedupe= -1, rate_key= -1;
  uint32_t concurrency= 1, age_s= 0;
};

/* The columns that the options name. False with an error when one is not there or can't decide that. */
bool queue_order_of(THD *thd, const TABLE *table, const ha_table_option_struct *options, const queue_info_columns &info_columns,
                    queue_order *order);

/*
  The bytes that a value of the column of FIFO or RATE_KEY has in rows; the value is text in the character set of the
  connection, and `name` is who asks. False with an error when there is no such column, or it can't have the value.
*/
bool queue_key_bytes(THD *thd, const queue_opened &opened, const char *name, const char *value, size_t length, std::string *bytes);

#endif
