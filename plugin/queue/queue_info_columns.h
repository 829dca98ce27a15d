/*
  Columns that show what the core knows of a row: FAILED=, WHY= and TOKEN= in CREATE TABLE name them. They are
  filled when a row is read and are not stored. So a row has the same bytes in a table with them and in one
  without.
*/
#ifndef QUEUE_INFO_COLUMNS_H
#define QUEUE_INFO_COLUMNS_H

#include "queue_abi.h"

struct ha_table_option_struct;

/* Which columns these are, by their places in the table; -1 for none. */
struct queue_info_columns {
  int failed= -1, why= -1, token= -1;

  bool any() const { return failed >= 0 || why >= 0 || token >= 0; }
  bool has(const Field *field) const
  {
    const int at= field->field_index;
    return at == failed || at == why || at == token;
  }
};

/* Finds the column that an option names; null when the option is not given. False with an error when there is
   none. */
bool queue_find_column(const TABLE *table, const char *option, const char *name, const Field **found);

/* The columns that the options name. False with an error when one is not there or can't show it. */
bool queue_find_info_columns(const TABLE *table, const ha_table_option_struct *options, queue_info_columns *info_columns);

/* Fills the columns of a record. Tokens begin with the name of the table. */
void queue_fill_info_columns(const TABLE *table, uchar *record, const queue_info_columns &info_columns, const rq_delivery_info &known);

#endif
