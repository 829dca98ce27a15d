/* Columns that decide when a row is given and before which others. See queue_order.h. */
#define MYSQL_SERVER 1

#include <my_global.h>

#include <string>

#include "sql_class.h"
#include "table.h"
#include "field.h"
#include "handler.h"

#include "ha_queue.h"
#include "queue_opened.h"
#include "queue_order.h"

/* The number of a column among those that are stored. */
static int number_of(const TABLE *table, const queue_noted &noted, const Field *field)
{
  int number= 0;
  for (Field **at= table->field; *at != field; at++)
    number+= !noted.has(*at);
  return number;
}

static bool is_integer(const Field *field)
{
  switch (field->real_type()) {
  case MYSQL_TYPE_TINY:
  case MYSQL_TYPE_SHORT:
  case MYSQL_TYPE_INT24:
  case MYSQL_TYPE_LONG:
  case MYSQL_TYPE_LONGLONG:
    return true;
  default:
    return false;
  }
}

bool queue_order_of(THD *thd, const TABLE *table, const ha_table_option_struct *options, const queue_noted &noted,
                    queue_order *order)
{
  const Field *due, *priority;
  if (!queue_find_column(table, "DUE", options->due, &due) || !queue_find_column(table, "PRIORITY", options->priority, &priority))
    return false;
  if (due) {
    const auto type= due->real_type();
    if (noted.has(due) || !(is_integer(due) || type == MYSQL_TYPE_TIMESTAMP2 || type == MYSQL_TYPE_DATETIME2)) {
      my_printf_error(ER_ILLEGAL_HA_CREATE_OPTION,
                      "Queue: column '%s' can't say when a row is due: it must be an integer (seconds since 1970), a TIMESTAMP or a DATETIME, "
                      "and not one that is filled when a row is read", MYF(0), options->due);
      return false;
    }
    if (type == MYSQL_TYPE_DATETIME2)
      queue_warn(thd, (std::string("column '") + options->due + "' has no time zone, and DUE reads it as UTC: fill it with "
                       "UTC_TIMESTAMP() + INTERVAL ..., or make it a TIMESTAMP").c_str());
    order->due= number_of(table, noted, due);
  }
  if (priority) {
    if (noted.has(priority) || !is_integer(priority)) {
      my_printf_error(ER_ILLEGAL_HA_CREATE_OPTION,
                      "Queue: column '%s' can't say which rows come first: it must be an integer, and not one that is filled when a row is read", MYF(0), options->priority);
      return false;
    }
    order->priority= number_of(table, noted, priority);
  }
  return true;
}
