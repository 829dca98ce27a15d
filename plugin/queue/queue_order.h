/* Columns that decide whether, when and before which others a row is given: DUE=, PRIORITY=, FIFO= and
   DEDUPE= in CREATE TABLE name them. */
#ifndef QUEUE_ORDER_H
#define QUEUE_ORDER_H

#include "queue_info_columns.h"

/* Which columns these are, by their numbers among those that are stored; -1 for none. */
struct queue_order {
  int due= -1, priority= -1, fifo= -1, dedupe= -1, rate_key= -1;
  uint32_t concurrency= 1, age_s= 0;
};

/* The columns that the options name. False with an error when one is not there or can't decide that. */
bool queue_order_of(THD *thd, const TABLE *table, const ha_table_option_struct *options, const queue_info_columns &info_columns,
                    queue_order *order);

#endif
