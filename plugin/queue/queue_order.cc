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
#include "queue_row.h"

/* The number of a column among those that are stored. */
static int number_of(const TABLE *table, const queue_noted &noted, const Field *field)
{
  int number= 0;
  for (Field **at= table->field; *at != field; at++)
    number+= !noted.has(*at);
  return number;
}

bool queue_order_of(THD *thd, const TABLE *table, const ha_table_option_struct *options, const queue_noted &noted,
                    queue_order *order)
{
  const Field *due, *priority;
  if (!queue_find_column(table, "DUE", options->due, &due) || !queue_find_column(table, "PRIORITY", options->priority, &priority))
    return false;
  if (due) {
    const uint32_t kind= queue_kind_of(due);
    if (noted.has(due) || (kind != RQ_INTEGER && kind != RQ_TIMESTAMP && kind != RQ_DATETIME)) {
      my_printf_error(ER_ILLEGAL_HA_CREATE_OPTION,
                      "Queue: column '%s' can't say when a row is due: it must be an integer (seconds since 1970), a TIMESTAMP or a DATETIME, "
                      "and not one that is filled when a row is read", MYF(0), options->due);
      return false;
    }
    if (kind == RQ_DATETIME)
      queue_warn(thd, (std::string("column '") + options->due + "' has no time zone, and DUE reads it as UTC: fill it with "
                       "UTC_TIMESTAMP() + INTERVAL ..., or make it a TIMESTAMP").c_str());
    order->due= number_of(table, noted, due);
  }
  if (priority) {
    if (noted.has(priority) || queue_kind_of(priority) != RQ_INTEGER) {
      my_printf_error(ER_ILLEGAL_HA_CREATE_OPTION,
                      "Queue: column '%s' can't say which rows come first: it must be an integer, and not one that is filled when a row is read", MYF(0), options->priority);
      return false;
    }
    order->priority= number_of(table, noted, priority);
  }
  return true;
}
