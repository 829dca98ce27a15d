/* Columns that decide whether, when and before which others a row is given. See queue_order.h. */
#include "queue_server.h"

#include <string>

#include "sql_base.h"
#include "table_cache.h"

#include "queue_connection.h"
#include "queue_options.h"
#include "queue_opened.h"
#include "queue_order.h"
#include "queue_row.h"

extern "C" {
/* Exported by the server, but not declared in its headers. */
CHARSET_INFO *thd_charset(THD *thd);
}

/* The number of a column among those that are stored. */
static int number_of(const TABLE *table, const queue_info_columns &info_columns, const Field *field)
{
  int number= 0;
  for (Field **at= table->field; *at != field; at++)
    number+= !info_columns.has(*at);
  return number;
}

/* Whether two values of a column are equal if and only if their bytes are. */
static bool is_compared_by_bytes(const Field *field)
{
  switch (field->real_type()) {
  case MYSQL_TYPE_TINY:
  case MYSQL_TYPE_SHORT:
  case MYSQL_TYPE_INT24:
  case MYSQL_TYPE_LONG:
  case MYSQL_TYPE_LONGLONG:
  case MYSQL_TYPE_NEWDECIMAL:
  case MYSQL_TYPE_YEAR:
  case MYSQL_TYPE_NEWDATE:
  case MYSQL_TYPE_TIME2:
  case MYSQL_TYPE_DATETIME2:
  case MYSQL_TYPE_TIMESTAMP2:
  case MYSQL_TYPE_ENUM:
    return true;
  case MYSQL_TYPE_STRING:
    /* UUID and INET6 look like CHAR but are not. */
    if (field->type_handler() != &type_handler_string)
      return true;
    /* fall through */
  case MYSQL_TYPE_VARCHAR:
  case MYSQL_TYPE_BLOB:
    return !field->compression_method() && (field->charset()->state & MY_CS_BINSORT);
  default:
    return false;
  }
}

/* The number of the column whose bytes are the key of an option; -1 for none. False with an error. */
static bool key_of(const TABLE *table, const char *option, const char *name, const queue_info_columns &info_columns, int *number)
{
  const Field *field;
  if (!queue_find_column(table, option, name, &field))
    return false;
  if (!field)
    return true;
  if (info_columns.has(field) || !is_compared_by_bytes(field)) {
    my_printf_error(ER_ILLEGAL_HA_CREATE_OPTION,
                    "Queue: column '%s' can't be the key of %s: keys are compared byte by byte, so it must be an integer, a DECIMAL, a time, an ENUM, a UUID, "
                    "an INET6, binary, or text with a _bin collation, and not a column of FAILED, WHY or TOKEN", MYF(0), name, option);
    return false;
  }
  *number= number_of(table, info_columns, field);
  return true;
}

bool queue_order_of(THD *thd, const TABLE *table, const ha_table_option_struct *options, const queue_info_columns &info_columns,
                    queue_order *order)
{
  const Field *due, *priority;
  if (!queue_find_column(table, "DUE", options->due, &due) || !queue_find_column(table, "PRIORITY", options->priority, &priority))
    return false;
  if (due) {
    const uint32_t kind= queue_kind_of(due);
    if (info_columns.has(due) || (kind != RQ_INTEGER && kind != RQ_TIMESTAMP && kind != RQ_DATETIME)) {
      my_printf_error(ER_ILLEGAL_HA_CREATE_OPTION,
                      "Queue: column '%s' can't be used for DUE: it must be an integer (seconds since 1970), a TIMESTAMP or a DATETIME, "
                      "and not a column of FAILED, WHY or TOKEN", MYF(0), options->due);
      return false;
    }
    if (kind == RQ_DATETIME)
      queue_warn(thd, (std::string("column '") + options->due + "' has no time zone and is read as UTC: fill it with "
                       "UTC_TIMESTAMP() + INTERVAL ..., or make it a TIMESTAMP").c_str());
    order->due= number_of(table, info_columns, due);
  }
  if (priority) {
    if (info_columns.has(priority) || queue_kind_of(priority) != RQ_INTEGER) {
      my_printf_error(ER_ILLEGAL_HA_CREATE_OPTION,
                      "Queue: column '%s' can't be used for PRIORITY: it must be an integer, and not a column of FAILED, WHY or TOKEN", MYF(0), options->priority);
      return false;
    }
    order->priority= number_of(table, info_columns, priority);
  }
  if (options->dedupe_for != queue_dedupe_for && !(options->dedupe && *options->dedupe)) {
    my_printf_error(ER_ILLEGAL_HA_CREATE_OPTION, "Queue: DEDUPE_FOR needs DEDUPE", MYF(0));
    return false;
  }
  if (options->concurrency > 1 && !(options->fifo && *options->fifo)) {
    my_printf_error(ER_ILLEGAL_HA_CREATE_OPTION, "Queue: CONCURRENCY needs FIFO: without it any number of rows may be owned at once",
                    MYF(0));
    return false;
  }
  if (options->age && !priority) {
    my_printf_error(ER_ILLEGAL_HA_CREATE_OPTION, "Queue: AGE needs PRIORITY: without it rows are given in the order of insertion", MYF(0));
    return false;
  }
  order->concurrency= static_cast<uint32_t>(options->concurrency);
  order->age_s= static_cast<uint32_t>(options->age);
  if (!key_of(table, "FIFO", options->fifo, info_columns, &order->fifo) || !key_of(table, "DEDUPE", options->dedupe, info_columns, &order->dedupe) ||
      !key_of(table, "RATE_KEY", options->rate_key, info_columns, &order->rate_key))
    return false;
  const char *why= nullptr;
  if (order->rate_key >= 0 && !(options->rate && *options->rate))
    why= "RATE_KEY needs RATE: it says how many rows of a key are given within a time";
  else if (order->rate_key >= 0 && order->fifo >= 0 && order->rate_key != order->fifo)
    why= "RATE_KEY must be the column of FIFO: a row has one key by which it waits";
  if (why)
    my_printf_error(ER_ILLEGAL_HA_CREATE_OPTION, "Queue: %s", MYF(0), why);
  return !why;
}

/* Whether a column has fewer decimals than a value that it takes. The server rounds, and does not say so. */
static bool has_more_decimals(const Field *field, const char *value, size_t length, CHARSET_INFO *charset)
{
  const uint decimals= field->decimals();
  const std::string text(value, length);
  const size_t dot= text.rfind('.');
  if (field->cmp_type() == TIME_RESULT) {
    /* The seconds are the last part, and a date may have dots between its parts. */
    if (dot == std::string::npos || text.find(':', dot) != std::string::npos || (text.find(':') == std::string::npos && text.find('.') != dot))
      return false;
    const size_t last= text.find_last_of("123456789");
    return last != std::string::npos && last > dot + decimals;
  }
  if (field->cmp_type() != INT_RESULT && field->cmp_type() != DECIMAL_RESULT)
    return false;
  my_decimal given, rounded;
  return !str2my_decimal(0, value, length, charset, &given) && !decimal_round(&given, &rounded, static_cast<int>(decimals), HALF_UP) &&
         my_decimal_cmp(&given, &rounded);
}

/* Stores a value in the column that is the key of the table. False with an error. */
static bool store_key(THD *thd, TABLE *table, const char *name, const char *value, size_t length, std::string *bytes)
{
  const ha_table_option_struct *options= table->s->option_struct;
  const char *column= options->fifo && *options->fifo ? options->fifo : options->rate_key;
  const Field *key;
  if (!queue_find_column(table, "the key", column, &key))
    return false;
  if (!key) {
    my_printf_error(ER_WRONG_ARGUMENTS, "Incorrect arguments to %s: rows of this queue have no keys, because it has neither FIFO nor RATE_KEY",
                    MYF(0), name);
    return false;
  }
  Field *field= table->field[key->field_index];
  /* A value that is changed to fit is another key. Only if the server is to warn of that does it look. */
  const enum_check_fields check= thd->count_cuted_fields;
  const bool abort= thd->abort_on_warning;
  thd->count_cuted_fields= CHECK_FIELD_WARN;
  thd->abort_on_warning= false;
  field->set_notnull();
  const int refused= field->store(value, length, thd_charset(thd));
  thd->count_cuted_fields= check;
  thd->abort_on_warning= abort;
  if (refused || has_more_decimals(field, value, length, thd_charset(thd))) {
    my_printf_error(ER_WRONG_ARGUMENTS, "Incorrect arguments to %s: column '%s' can't have the value '%.*s'", MYF(0), name, column,
                    static_cast<int>(MY_MIN(length, 100)), value);
    return false;
  }
  const rq_slice stored= queue_bytes_of(field);
  bytes->assign(reinterpret_cast<const char *>(stored.bytes), stored.len);
  return true;
}

bool queue_key_bytes(THD *thd, const queue_opened &opened, const char *name, const char *value, size_t length, std::string *bytes)
{
  /* A server of another patch release may have more members, so no member of ours may follow directly. */
  struct {
    TABLE_LIST table;
    char room[4096];
  } named;
  struct {
    TABLE table;
    char room[4096];
  } form;
  memset(static_cast<void *>(&named), 0, sizeof(named));
  memset(static_cast<void *>(&form), 0, sizeof(form));
  const LEX_CSTRING db= {opened.db.c_str(), opened.db.size()}, table= {opened.table.c_str(), opened.table.size()};
  named.table.init_one_table(&db, &table, nullptr, TL_READ);
  MDL_request request;
  MDL_REQUEST_INIT(&request, MDL_key::TABLE, db.str, table.str, MDL_SHARED, MDL_EXPLICIT);
  if (thd->mdl_context.acquire_lock(&request, static_cast<double>(thd->variables.lock_wait_timeout)))
    return false;
  bool found= false;
  if (TABLE_SHARE *share= tdc_acquire_share(thd, &named.table, GTS_TABLE)) {
    /* Only the columns: no handler is opened. */
    if (share->db_type() != queue_hton)
      my_error(ER_NO_SUCH_TABLE, MYF(0), db.str, table.str);
    else if (!open_table_from_share(thd, share, &table, 0, 0, 0, &form.table, false)) {
      found= store_key(thd, &form.table, name, value, length, bytes);
      closefrm(&form.table);
    }
    tdc_release_share(share);
  }
  thd->mdl_context.release_lock(request.ticket);
  return found;
}
