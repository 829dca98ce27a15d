/* Taking rows and ending them, relays, and what is told of a queue: functions that loadable ones are. */
#include "queue_server.h"

#include <string>
#include <vector>

#include "sql_acl.h"
#include "sql_parse.h"
#include "tztime.h"

#include "queue_call.h"
#include "queue_connection.h"
#include "queue_function.h"
#include "queue_opened.h"
#include "queue_order.h"
#include "queue_recovery.h"
#include "queue_transaction.h"

queue_calls queue_called;

/*
  Has DDL on the queue whose rows the connection owns wait for the end of the transaction, if that queue takes part
  in transactions. False with an error.
*/
static bool lock_owned(THD *thd, queue_connection *mine)
{
  rq_error folder;
  std::string before;
  /* While it waits for the lock, the table may be renamed. */
  while (rq_owns_transactional(mine->session) && rq_owned_folder(mine->session, &folder) && before != folder.text) {
    before= folder.text;
    if (!queue_lock_definition(thd, before))
      return false;
  }
  return true;
}

/* Ends the owned rows, `within` the transaction if their queue takes part in transactions. True with an
   error. */
static bool end_owned(THD *thd, queue_connection *mine, bool within)
{
  within= within && rq_owns_transactional(mine->session);
  if (within && (!lock_owned(thd, mine) || !queue_join(thd)))
    return true;
  if (!within && rq_owned_row(mine->session))
    queue_note_nontransactional(thd);
  rq_error error;
  const int code= (within ? rq_tx_end : rq_end)(mine->session, &error);
  if (code)
    queue_raise(error);
  return code != RQ_OK;
}

/* NULL, as Q4M returns; the owned rows are consumed nevertheless. */
static longlong refuse_wait(THD *thd, Call *call, queue_connection *mine, uint number, const std::string &why)
{
  call->refuse(thd, number, why);
  end_owned(thd, mine, queue_in_transaction(thd));
  return call->null();
}

/* Whether a wait is a part of the transaction: it takes from a queue that takes part in transactions, or ends
   rows of one. Outside of a transaction the rows stay owned after the statement. */
static bool waits_within(THD *thd, queue_connection *mine, const queue_tables &tables)
{
  bool some= rq_owns_transactional(mine->session);
  for (const rq_target &target : tables.targets)
    some= some || rq_is_transactional(target.queue);
  return some && queue_in_transaction(thd);
}

/*
  Prepares a wait that is a part of the transaction. A table that the statement reads is locked now: ALTER could
  neither wait for the statement nor the statement for ALTER once that copies rows. Any other table is locked
  when it has a row, so that nobody waits for a wait. False with an error.
*/
static bool begin_within(THD *thd, queue_connection *mine, const queue_tables &tables)
{
  for (const queue_opened &table : tables.opened)
    if (rq_is_transactional(table.queue) && table.is_read_here(thd) && !queue_lock_definition(thd, table.folder))
      return false;
  return lock_owned(thd, mine) && queue_join(thd);
}

/* Notes what a wait has taken. False with an error. */
static bool note_taken(THD *thd, const Call *call, queue_connection *mine, const queue_opened &table, bool within)
{
  mine->taking_call= call;
  mine->taken_by= thd->in_sub_stmt ? queue_taken_inside : thd->query_id;
  mine->waited_in= thd->query_id;
  mine->rows_taken= rq_count(mine->session, table.queue);
  mine->taken_from= table.name;
  if (!within || !rq_is_transactional(table.queue))
    queue_note_nontransactional(thd);
  rq_error error;
  if (!within)
    return true;
  if (!lock_owned(thd, mine))
    return false;
  const int code= rq_tx_add_taken(mine->session, &error);
  if (code)
    queue_raise(error);
  return !code;
}

static longlong wait_for(THD *thd, Call *call, queue_connection *mine, const queue_tables &tables, size_t rows_max,
                         longlong timeout_ms)
{
  const bool snapshot= queue_has_snapshot(thd);
  int outcome= RQ_TIMED_OUT;
  size_t target= 0;
  rq_error error;
  const bool within= waits_within(thd, mine, tables);
  if (within && !begin_within(thd, mine, tables))
    return call->null();
  if (rq_owned_row(mine->session) && !rq_owns_transactional(mine->session))
    queue_note_nontransactional(thd);
  const char *before= thd_proc_info(thd, "Waiting in queue_wait");
  thd_wait_begin(thd, THD_WAIT_SLEEP);
  const int code= rq_wait(mine->session, tables.targets.data(), tables.targets.size(), rows_max, within, timeout_ms, queue_client_is_alive,
                          thd, &outcome, &target, &error);
  thd_wait_end(thd);
  thd_proc_info(thd, before);
  if (code == RQ_CONDITION)
    return refuse_wait(thd, call, mine, QUEUE_ER_CONDITION, error.text);
  if (code) {
    queue_raise(error);
    return call->null();
  }
  if (outcome == RQ_INTERRUPTED) {
    /* Null when the client went away: there is nobody to tell. */
    if (const int why= thd->killed_errno())
      my_error(why, MYF(0));
    return call->null();
  }
  queue_mark_owner(thd);
  if (outcome == RQ_TAKEN && !note_taken(thd, call, mine, tables.opened[target], within))
    return call->null();
  if (outcome == RQ_TAKEN && snapshot)
    queue_warn_of_snapshot(thd);
  if (outcome == RQ_GONE)
    queue_warn(thd, "a table was dropped during the wait", QUEUE_WARN_DROPPED);
  return outcome == RQ_TAKEN ? static_cast<longlong>(target) + 1 : 0;
}

/*
  Whether a wait would end rows that this statement has taken and whose content nobody may have read: by a call
  beside this one, by the statement that called the function or fired the trigger which waits now, or inside a
  function that it called before. Within a function each statement sees what it takes.
*/
static bool has_unseen_rows(THD *thd, queue_connection *mine)
{
  if (mine->waited_in == thd->query_id)
    return true;
  if (thd->in_sub_stmt)
    return mine->taking_call;
  return !thd->spcont && mine->taken_by == queue_taken_inside && rq_owned_row(mine->session);
}

/* Waits on the tables from argument `first` on; with several arguments the last one is the time. */
static longlong wait(THD *thd, Call *call, const UDF_ARGS *args, uint first, size_t rows_max)
{
  queue_connection *mine= queue_connection_of(thd);
  if (!mine || queue_is_read_only(thd))
    return call->null();
  if (mine->open_scans)
    return call->refuse(thd, QUEUE_ER_AFTER_READING,
                        "queue_wait() after the statement has read rows of a queue; use it in WHERE, or in a statement of its own");
  if (has_unseen_rows(thd, mine)) {
    my_printf_error(QUEUE_ER_TWICE, "Queue: this statement has taken rows already, and a second wait would acknowledge them unread; name "
                    "all tables in one %s(), or use two statements", MYF(0), call->name);
    return call->null();
  }
  const uint last= args->arg_count - 1;
  const bool timed= last > first;
  if (timed && !args->args[last])
    return refuse_wait(thd, call, mine, ER_WRONG_ARGUMENTS, "the timeout is NULL");
  longlong timeout_ms;
  if (!queue_timeout_of(thd, call, args, timed, last, &timeout_ms))
    return call->null();
  queue_tables tables;
  if (!tables.open(thd, args, first, timed ? last - first : 1))
    return refuse_wait(thd, call, mine, tables.opened.back().refused, tables.opened.back().why);
  return wait_for(thd, call, mine, tables, rows_max, timeout_ms);
}

static longlong evaluate_queue_wait(THD *thd, Call *call, const UDF_ARGS *args)
{
  queue_called.wait++;
  return wait(thd, call, args, 0, 1);
}

static longlong evaluate_queue_wait_n(THD *thd, Call *call, const UDF_ARGS *args)
{
  queue_called.wait++;
  longlong rows;
  if (!queue_whole_of(thd, call, args, 0, &rows))
    return call->null();
  if (rows < 1) {
    my_printf_error(ER_WRONG_ARGUMENTS, "Incorrect arguments to queue_wait_n: the number of rows must be at least 1", MYF(0));
    return call->null();
  }
  return wait(thd, call, args, 1, static_cast<size_t>(rows));
}

static longlong evaluate_queue_end(THD *thd, Call *call, const UDF_ARGS *)
{
  queue_called.end++;
  queue_connection *mine= queue_connection_of(thd);
  if (!mine || queue_is_read_only(thd) || end_owned(thd, mine, true))
    return call->null();
  return 1;
}

/* The connection, or null with an error when it is not in owner mode. */
static queue_connection *owner(THD *thd, const Call *call)
{
  queue_connection *mine= queue_connection_of(thd);
  if (mine && rq_is_owner(mine->session))
    return mine;
  my_printf_error(ER_CANT_INITIALIZE_UDF, "Can't initialize function '%s'; not in owner mode", MYF(0), call->name);
  return nullptr;
}

static longlong evaluate_queue_abort(THD *thd, Call *call, const UDF_ARGS *)
{
  queue_called.abort++;
  queue_connection *mine= owner(thd, call);
  rq_error error;
  if (!mine)
    return call->null();
  if (rq_abort(mine->session, &error)) {
    queue_raise(error);
    return call->null();
  }
  return 1;
}

static longlong evaluate_queue_rowid(THD *thd, Call *call, const UDF_ARGS *)
{
  queue_called.rowid++;
  queue_connection *mine= owner(thd, call);
  const uint64_t row= mine ? rq_owned_row(mine->session) : 0;
  return row ? static_cast<longlong>(row) : call->null();
}

static longlong evaluate_queue_set_srcid(THD *thd, Call *call, const UDF_ARGS *args)
{
  queue_called.set_srcid++;
  queue_connection *mine= queue_connection_of(thd);
  const std::string mode= queue_text_of(thd, args, 1);
  if (!mine)
    return call->null();
  longlong slot, row;
  const bool whole= queue_whole_of(thd, nullptr, args, 0, &slot) && queue_whole_of(thd, nullptr, args, 2, &row);
  if (!whole || slot < 0 || slot > 63 || (mode != "a" && mode != "w") || row < 0)
    return call->refuse(thd, ER_WRONG_ARGUMENTS, "the slot must be 0 to 63, the mode 'a' or 'w', and the row number not negative");
  rq_set_origin(mine->session, static_cast<uint32_t>(slot), mode == "w", static_cast<uint64_t>(row));
  return 1;
}

/* What a relay passes to queue_set_origin() at the other end, for the row that this connection owns. */
static longlong evaluate_queue_origin(THD *thd, Call *call, const UDF_ARGS *)
{
  queue_connection *mine= owner(thd, call);
  rq_error text, error;
  if (!mine)
    return call->null();
  const int code= rq_origin(mine->session, &text, &error);
  if (code == RQ_OK) {
    call->text= text.text;
    return 1;
  }
  if (code != RQ_END)
    queue_raise(error);
  return call->null();
}

static longlong evaluate_queue_set_origin(THD *thd, Call *call, const UDF_ARGS *args)
{
  queue_connection *mine= queue_connection_of(thd);
  const std::string text= queue_text_of(thd, args, 0);
  if (!mine)
    return call->null();
  if (rq_set_origin_text(mine->session, {reinterpret_cast<const uchar *>(text.data()), text.size()}) == RQ_OK)
    return 1;
  return call->refuse(thd, QUEUE_ER_ORIGIN, "not a value that queue_origin() returned");
}

/*
  In WHERE the statement sees the rows of the table from this number on, including rows that others own.
  Returns the number of the row before which the walk ends, also after rows were read: the same in the list of
  the SELECT as in its WHERE.
*/
static longlong evaluate_queue_peek(THD *thd, Call *call, const UDF_ARGS *args)
{
  queue_connection *mine= queue_connection_of(thd);
  if (!mine)
    return call->null();
  if (mine->open_scans)
    return mine->peek_end;
  queue_opened table;
  longlong from;
  if (!table.open(thd, queue_text_of(thd, args, 0), SELECT_ACL))
    return call->refuse(thd, table);
  if (!queue_whole_of(thd, call, args, 1, &from))
    return call->null();
  mine->peek_end= static_cast<longlong>(rq_peek(mine->session, table.queue, from < 0 ? 0 : static_cast<uint64_t>(from)));
  return mine->peek_end;
}

static longlong evaluate_queue_compact(THD *thd, Call *call, const UDF_ARGS *args)
{
  queue_opened table;
  rq_error error;
  if (queue_is_read_only(thd))
    return call->null();
  if (!table.open(thd, queue_text_of(thd, args, 0), DELETE_ACL))
    return call->refuse(thd, table);
  if (rq_compact(table.queue, &error)) {
    queue_raise(error);
    return call->null();
  }
  return 1;
}

/* Whether that changed anything. */
static longlong set_paused(THD *thd, Call *call, const UDF_ARGS *args, bool paused)
{
  queue_opened table;
  rq_error error;
  int changed= 0;
  if (queue_is_read_only(thd))
    return call->null();
  if (!table.open(thd, queue_text_of(thd, args, 0), ALTER_ACL))
    return call->refuse(thd, table);
  int code;
  if (args->arg_count == 1)
    code= rq_set_paused(table.queue, paused, &changed, &error);
  else if (!args->args[1] && paused) {
    my_printf_error(ER_WRONG_ARGUMENTS, "Incorrect arguments to %s: a row with NULL has no key", MYF(0), call->name);
    return call->null();
  } else if (!args->args[1])
    code= rq_set_key_paused(table.queue, nullptr, paused, &changed, &error);
  else {
    std::string bytes;
    if (!queue_key_bytes(thd, table, call->name, args->args[1], args->lengths[1], &bytes))
      return call->null();
    const rq_slice key= {reinterpret_cast<const uchar *>(bytes.data()), bytes.size()};
    code= rq_set_key_paused(table.queue, &key, paused, &changed, &error);
  }
  if (code) {
    queue_raise(error);
    return call->null();
  }
  return changed;
}

static longlong evaluate_queue_pause(THD *thd, Call *call, const UDF_ARGS *args)
{
  return set_paused(thd, call, args, true);
}

static longlong evaluate_queue_resume(THD *thd, Call *call, const UDF_ARGS *args)
{
  return set_paused(thd, call, args, false);
}

/* A bound of queue_replay(): a row's number, or a time in the time zone of the connection. */
struct Bound {
  bool is_none= false, is_time= false;
  uint64_t value= 0; /* a time: milliseconds since 1970 */
};

/* `YYYY-MM-DD[ HH:MM:SS[.FRACTION]]`, as the server writes it. */
static bool time_of(THD *thd, const std::string &text, uint64_t *ms)
{
  MYSQL_TIME when{};
  int read= 0;
  char separator= ' ';
  const int parts= sscanf(text.c_str(), "%4u-%2u-%2u%c%2u:%2u:%2u%n", &when.year, &when.month, &when.day, &separator, &when.hour,
                          &when.minute, &when.second, &read);
  if ((parts != 3 || text.size() != 10) && (parts != 7 || (separator != ' ' && separator != 'T')))
    return false;
  double fraction= 0;
  if (parts == 7 && static_cast<size_t>(read) < text.size()) {
    char *end= nullptr;
    fraction= text[read] == '.' ? strtod(text.c_str() + read, &end) : -1;
    if (fraction < 0 || *end)
      return false;
  }
  if (!when.month || when.month > 12 || !when.day || when.day > 31 || when.hour > 23 || when.minute > 59 || when.second > 59)
    return false;
  when.time_type= MYSQL_TIMESTAMP_DATETIME;
  uint error= 0;
  const my_time_t seconds= thd->variables.time_zone->TIME_to_gmt_sec(&when, &error);
  thd->used|= THD::TIME_ZONE_USED;
  *ms= static_cast<uint64_t>(seconds) * 1000 + static_cast<uint64_t>(fraction * 1000);
  return seconds > 0 && !error;
}

/* False with an error. */
static bool bound_of(THD *thd, const UDF_ARGS *args, uint at, Bound *bound)
{
  bound->is_none= !args->args[at];
  if (bound->is_none)
    return true;
  if (args->arg_type[at] == INT_RESULT) {
    const longlong number= queue_integer_of(args, at);
    bound->value= number < 0 ? 0 : static_cast<uint64_t>(number);
    return true;
  }
  bound->is_time= true;
  const std::string text= queue_text_of(thd, args, at);
  if (time_of(thd, text, &bound->value))
    return true;
  my_printf_error(ER_WRONG_ARGUMENTS, "Incorrect arguments to queue_replay: '%s' is neither a row number nor a time such as "
                  "'2026-01-31 12:00:00'", MYF(0), text.c_str());
  return false;
}

/* Rows that were ended and are kept are given again. */
static longlong evaluate_queue_replay(THD *thd, Call *call, const UDF_ARGS *args)
{
  queue_opened table;
  rq_error error;
  Bound from, to;
  if (queue_is_read_only(thd))
    return call->null();
  if (!table.open_for_reader(thd, queue_name(queue_text_of(thd, args, 0)), SELECT_ACL | INSERT_ACL))
    return call->refuse(thd, table);
  if (!bound_of(thd, args, 1, &from) || !bound_of(thd, args, 2, &to))
    return call->null();
  if (!from.is_none && !to.is_none && from.is_time != to.is_time) {
    my_printf_error(ER_WRONG_ARGUMENTS, "Incorrect arguments to queue_replay: use two row numbers or two times", MYF(0));
    return call->null();
  }
  uint64_t first= 0, last= UINT64_MAX - 1, from_ms= 0, to_ms= UINT64_MAX, given= 0;
  if (!from.is_none)
    (from.is_time ? from_ms : first)= from.value;
  if (!to.is_none)
    (to.is_time ? to_ms : last)= to.value;
  if (first > last || from_ms > to_ms) {
    my_printf_error(ER_WRONG_ARGUMENTS, "Incorrect arguments to queue_replay: the start is after the end", MYF(0));
    return call->null();
  }
  const rq_slice reader= {reinterpret_cast<const uchar *>(table.reader.data()), table.reader.size()};
  if (rq_replay(table.queue, reader, first, last, from_ms, to_ms, &given, &error)) {
    queue_raise(error);
    return call->null();
  }
  return static_cast<longlong>(given);
}

/* A transaction that is in doubt: an administrator decides what the server has forgotten. */
static longlong evaluate_queue_resolve(THD *thd, Call *call, const UDF_ARGS *args)
{
  const std::string name= queue_text_of(thd, args, 0), decision= queue_text_of(thd, args, 1);
  if (check_global_access(thd, SUPER_ACL))
    return call->null();
  if (decision != "commit" && decision != "rollback")
    return call->refuse(thd, ER_WRONG_ARGUMENTS, "the decision must be 'commit' or 'rollback'");
  const int code= queue_resolve_in_doubt(name, decision == "commit");
  if (!code)
    return 1;
  return call->refuse(thd, QUEUE_ER_NOT_IN_DOUBT, code < 0 ? "no transaction of this name is in doubt; the error log names those that are, at each start"
                                                           : "it could not be written, and is still in doubt; the error log says why");
}

static longlong evaluate_queue_stats(THD *thd, Call *call, const UDF_ARGS *args)
{
  queue_opened table;
  if (!table.open(thd, queue_text_of(thd, args, 0), SELECT_ACL))
    return call->refuse(thd, table);
  rq_status status;
  rq_get_status(table.queue, &status);
  const std::pair<const char *, ulonglong> lines[]= {
      {"rows_written", status.rows_written},           {"rows_removed", status.rows_removed},
      {"wait_immediate", status.wait_immediate},       {"wait_delayed", status.wait_delayed},
      {"wait_timeout", status.wait_timeout},           {"restored_by_abort", status.restored_by_abort},
      {"restored_by_close", status.restored_by_close}, {"bytes_total", status.bytes},
      {"bytes_removed", status.bytes - MY_MIN(status.bytes, status.live_bytes)}};
  for (const auto &line : lines)
    call->text+= std::string(line.first) + ": " + std::to_string(line.second) + "\n";
  return 1;
}

/* A number stays one; all else is read as text. */
static void queue_bound_type(UDF_ARGS *args, uint at)
{
  if (args->arg_type[at] != INT_RESULT)
    args->arg_type[at]= STRING_RESULT;
}

QUEUE_INTEGER(queue_wait, 1, queue_arguments_max, queue_text_types(args))
QUEUE_INTEGER(queue_wait_n, 2, queue_arguments_max, queue_text_types(args))
QUEUE_INTEGER(queue_end, 0, queue_arguments_max, )
QUEUE_INTEGER(queue_abort, 0, 0, )
QUEUE_INTEGER(queue_rowid, 0, 0, )
QUEUE_INTEGER(queue_set_srcid, 3, 3, queue_text_types(args))
QUEUE_INTEGER(queue_peek, 2, 2, queue_text_types(args))
QUEUE_INTEGER(queue_compact, 1, 1, queue_text_types(args))
QUEUE_INTEGER(queue_pause, 1, 2, queue_text_types(args))
QUEUE_INTEGER(queue_resume, 1, 2, queue_text_types(args))
QUEUE_INTEGER(queue_replay, 3, 3, (args->arg_type[0]= STRING_RESULT, queue_bound_type(args, 1), queue_bound_type(args, 2)))
QUEUE_INTEGER(queue_resolve, 2, 2, queue_text_types(args))
QUEUE_INTEGER(queue_set_origin, 1, 1, queue_text_types(args))
QUEUE_STRING(queue_stats, 1, 1, queue_text_types(args))
QUEUE_STRING(queue_origin, 0, 0, )
