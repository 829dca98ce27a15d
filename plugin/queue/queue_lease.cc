/*
  Leases: functions for workers that keep no connection. queue_lease() shows rows of a table, queue_lease_json()
  opens none; what they return goes by token.
*/
#include "queue_server.h"

#include <algorithm>
#include <cmath>

#include "sql_acl.h"

#include "queue_call.h"
#include "queue_connection.h"
#include "queue_function.h"
#include "queue_transaction.h"

/* The longest lease or delay: a year. */
static const double span_max_s= 366.0 * 24 * 60 * 60;

/* A time in seconds as milliseconds. False with an error when it is not within its bounds. */
static bool span_of(THD *thd, const Call *call, const UDF_ARGS *args, uint at, double least_s, uint64_t *ms)
{
  double seconds;
  if (!queue_seconds_of(thd, call, args, at, &seconds))
    return false;
  if (!(seconds >= least_s && seconds <= span_max_s)) {
    my_printf_error(ER_WRONG_ARGUMENTS, "Incorrect arguments to %s: a time must be %s and at most a year, in seconds",
                    MYF(0), call->name, least_s > 0 ? "at least a millisecond" : "0 or more");
    return false;
  }
  *ms= static_cast<uint64_t>(std::llround(seconds * 1000));
  return true;
}

/* How queue_lease_json() shows what was leased. */
struct Shown {
  std::string table;
  bool why; /* whether the user may read why tries failed */
};

/* The tables of a lease, opened. False with NULL and an error when rows of one can't be shown. */
static bool open_to_lease(THD *thd, Call *call, const UDF_ARGS *args, uint count, bool json, queue_tables *tables)
{
  if (!tables->open(thd, args, 2, count)) {
    call->refuse(thd, tables->opened.back());
    return false;
  }
  rq_error error;
  for (queue_opened &table : tables->opened) {
    if (json && !table.may_show(thd, nullptr)) {
      call->refuse(thd, table);
      return false;
    }
    if (json && !rq_has_json(table.queue, &error)) {
      call->refuse(thd, QUEUE_ER_NO_JSON, table.name + ": column " + error.text +
                                              " has a type that queue_lease_json() can't show; use queue_lease()");
      return false;
    }
  }
  return true;
}

/*
  Leases rows: queue_lease(SECONDS, ROWS, TABLE, ..., WAIT). 0 when it got none; else the number of the table's
  argument among the tables, which is then in `shown`.
*/
static longlong lease(THD *thd, Call *call, const UDF_ARGS *args, bool json, Shown *shown)
{
  queue_called.lease++;
  queue_connection *mine= queue_connection_of(thd);
  if (!mine || queue_is_read_only(thd))
    return call->null();
  if (mine->open_scans)
    return call->refuse(thd, QUEUE_ER_AFTER_READING,
                        "rows can't be leased after the statement has read rows of a queue; use queue_lease() in WHERE, or in a "
                        "statement of its own");
  const bool again= mine->leased_in == thd->query_id || (thd->in_sub_stmt && mine->leasing_call);
  if (again && (!json || mine->rows_taken)) {
    my_printf_error(QUEUE_ER_TWICE, "Queue: this statement has taken rows already, and would not show those of a second %s(); name all "
                    "tables in one, or use two statements", MYF(0), call->name);
    return call->null();
  }
  const int command= thd_sql_command(thd);
  if (command == SQLCOM_DELETE || command == SQLCOM_DELETE_MULTI)
    return call->refuse(thd, QUEUE_ER_IN_DELETE, "DELETE does not remove leased rows; use queue_ack()");
  uint64_t lease_ms;
  longlong rows, timeout_ms;
  const uint last= args->arg_count - 1;
  const bool timed= last > 2;
  if (!span_of(thd, call, args, 0, 0.001, &lease_ms) || !queue_whole_of(thd, call, args, 1, &rows) ||
      !queue_timeout_of(thd, call, args, timed, last, &timeout_ms))
    return call->null();
  if (rows < 1) {
    my_printf_error(ER_WRONG_ARGUMENTS, "Incorrect arguments to %s: the number of rows must be at least 1", MYF(0), call->name);
    return call->null();
  }
  queue_tables tables;
  if (!open_to_lease(thd, call, args, timed ? last - 2 : 1, json, &tables))
    return call->null();
  rq_error error;
  const bool snapshot= queue_has_snapshot(thd);
  int outcome= RQ_TIMED_OUT;
  size_t target= 0;
  const char *before= thd_proc_info(thd, "Waiting in queue_lease");
  thd_wait_begin(thd, THD_WAIT_SLEEP);
  const int code= rq_lease(mine->session, tables.targets.data(), tables.targets.size(), static_cast<size_t>(rows), lease_ms,
                           timeout_ms, queue_client_is_alive, thd, &outcome, &target, &error);
  thd_wait_end(thd);
  thd_proc_info(thd, before);
  if (code == RQ_CONDITION)
    return call->refuse(thd, QUEUE_ER_CONDITION, error.text);
  if (code)
    queue_raise(error);
  else if (outcome == RQ_INTERRUPTED) {
    if (const int why= thd->killed_errno())
      my_error(why, MYF(0));
  } else {
    if (outcome == RQ_GONE)
      queue_warn(thd, "a table was dropped during the wait", QUEUE_WARN_DROPPED);
    if (outcome != RQ_TAKEN)
      return 0;
    if (snapshot)
      queue_warn_of_snapshot(thd);
    mine->leased_in= thd->query_id;
    mine->leasing_call= call;
    mine->leased_from= tables.opened[target].name;
    mine->rows_taken= json ? 0 : rq_leased_rows(mine->session);
    mine->taken_from= mine->leased_from;
    *shown= {mine->leased_from, tables.opened[target].may_read(thd, std::string())};
    return static_cast<longlong>(target) + 1;
  }
  return call->null();
}

static longlong evaluate_queue_lease(THD *thd, Call *call, const UDF_ARGS *args)
{
  Shown shown;
  return lease(thd, call, args, false, &shown);
}

static rq_slice slice_of(const std::string &text)
{
  return {reinterpret_cast<const uchar *>(text.data()), text.size()};
}

/* Returns what the core says about the rows that the statement has leased. */
static longlong tell_leased(Call *call, int code, const rq_slice &text, const rq_error &error)
{
  if (code == RQ_OK) {
    call->text.assign(reinterpret_cast<const char *>(text.bytes), text.len);
    return 1;
  }
  if (code != RQ_END)
    queue_raise(error);
  return call->null();
}

static longlong evaluate_queue_lease_json(THD *thd, Call *call, const UDF_ARGS *args)
{
  Shown shown;
  rq_slice text;
  rq_error error;
  if (lease(thd, call, args, true, &shown)) {
    const int code= rq_leased_json(queue_connection_of(thd)->session, slice_of(shown.table), shown.why, queue_json_strings(thd),
                                   &text, &error);
    return tell_leased(call, code, text, error);
  }
  call->text= "[]";
  return 0;
}

static longlong evaluate_queue_token(THD *thd, Call *call, const UDF_ARGS *)
{
  queue_connection *mine= queue_connection_of(thd);
  if (!mine)
    return call->null();
  rq_slice text;
  rq_error error;
  const int code= rq_leased_tokens(mine->session, slice_of(mine->leased_from), &text, &error);
  return tell_leased(call, code, text, error);
}

/* The tokens that were not good when this connection last used some. */
static longlong evaluate_queue_stale(THD *thd, Call *call, const UDF_ARGS *)
{
  const queue_connection *mine= queue_connection_of(thd);
  if (!mine || mine->stale_tokens.empty())
    return call->null();
  call->text= mine->stale_tokens;
  return 1;
}

/* Tokens of one table. */
struct Tokens {
  std::string table, tokens;
};

/* The place of the next comma that is not in a name in backticks, or the end. */
static size_t comma_after(const std::string &text, size_t from)
{
  bool quoted= false;
  for (; from < text.size() && (quoted || text[from] != ','); from++)
    quoted= quoted != (text[from] == '`');
  return from;
}

/* Splits tokens, which may have commas between them, by their tables. */
static void split(const std::string &text, std::vector<Tokens> *all)
{
  for (size_t from= 0; from <= text.size();) {
    const size_t comma= comma_after(text, from);
    std::string token= text.substr(from, comma - from);
    token.erase(0, token.find_first_not_of(' '));
    from= comma + 1;
    if (token.empty())
      continue;
    const size_t colon= token.rfind(':');
    const std::string table= colon == std::string::npos ? std::string() : token.substr(0, colon);
    if (all->empty() || all->back().table != table)
      all->push_back({table, std::string()});
    all->back().tokens+= token.substr(colon == std::string::npos ? 0 : colon + 1) + ",";
  }
}

/* Notes tokens of a table that were not good. Returns how many there are. */
static uint note_stale(queue_connection *mine, const std::string &table, const std::string &tokens)
{
  uint count= 0;
  for (size_t from= 0; from < tokens.size();) {
    const size_t comma= MY_MIN(tokens.find(',', from), tokens.size());
    if (comma > from) {
      count++;
      mine->stale_tokens+= (mine->stale_tokens.empty() ? "" : ",") + (table.empty() ? table : table + ":") + tokens.substr(from, comma - from);
    }
    from= comma + 1;
  }
  return count;
}

/* What a user who gave rows back would not expect. */
static void warn_after_nack(THD *thd, const queue_opened &table, bool reason)
{
  rq_error why;
  if (reason && !rq_keeps_reasons(table.queue))
    queue_warn(thd, (table.name + " keeps no reasons: it has none of the options TRIES, BACKOFF, FAILED, WHY and TOKEN").c_str(),
               QUEUE_WARN_NO_REASONS);
  if (rq_dead_letter_error(table.queue, &why))
    queue_warn(thd, ("dead letters of " + table.name + " stay in it and are not delivered: " + why.text).c_str(),
               QUEUE_WARN_STUCK);
}

/* Does something with the tokens in the arguments before `end`. Returns how many were good. */
static longlong use_tokens(THD *thd, Call *call, const UDF_ARGS *args, uint end, int what, uint64_t ms,
                           const std::string &why= std::string())
{
  queue_called.token++;
  queue_connection *mine= queue_connection_of(thd);
  if (!mine || queue_is_read_only(thd))
    return call->null();
  std::vector<Tokens> all;
  if (call->of_rows.empty())
    mine->stale_tokens.clear();
  uint count= 0, refused= 0;
  for (uint at= 0; at < end; at++)
    split(queue_text_of(thd, args, at), &all);
  for (const Tokens &of : all) {
    queue_opened table;
    rq_error error;
    rq_slice stale;
    const uint some= static_cast<uint>(std::count(of.tokens.begin(), of.tokens.end(), ','));
    count+= some;
    if (of.table.empty() || !table.open(thd, of.table, DELETE_ACL)) {
      if (table.refused)
        queue_warn(thd, table.why.c_str(), table.refused);
      refused+= note_stale(mine, of.table, of.tokens);
      continue;
    }
    const bool within= what == RQ_ACK && rq_is_transactional(table.queue);
    if (within && !table.lock(thd)) {
      if (!table.is_missing)
        return call->null();
      queue_warn(thd, table.why.c_str(), table.refused);
      refused+= note_stale(mine, of.table, of.tokens);
      continue;
    }
    if (within && !queue_join(thd))
      return call->null();
    if (rq_use_tokens(mine->session, table.queue, what,
                      slice_of(of.tokens), ms, slice_of(why), within, &stale, &error)) {
      queue_raise(error);
      return call->null();
    }
    const uint bad= note_stale(mine, of.table, std::string(reinterpret_cast<const char *>(stale.bytes), stale.len));
    refused+= bad;
    if (what == RQ_ACK && bad < some && !within)
      queue_note_nontransactional(thd);
    if (what == RQ_NACK && bad < some)
      warn_after_nack(thd, table, !why.empty());
  }
  if (refused)
    queue_warn(thd, (std::to_string(refused) + " of " + std::to_string(count) +
                     " tokens are stale: the lease expired and another consumer has the row, or the row was acknowledged; "
                     "queue_stale() lists them").c_str(), QUEUE_WARN_STALE);
  return count - refused;
}

static longlong evaluate_queue_ack(THD *thd, Call *call, const UDF_ARGS *args)
{
  return use_tokens(thd, call, args, args->arg_count, RQ_ACK, 0);
}

static longlong evaluate_queue_release(THD *thd, Call *call, const UDF_ARGS *args)
{
  return use_tokens(thd, call, args, args->arg_count, RQ_RELEASE, 0);
}

static longlong evaluate_queue_extend(THD *thd, Call *call, const UDF_ARGS *args)
{
  uint64_t ms;
  const uint last= args->arg_count - 1;
  return span_of(thd, call, args, last, 0.001, &ms) ? use_tokens(thd, call, args, last, RQ_EXTEND, ms) : call->null();
}

static longlong evaluate_queue_nack(THD *thd, Call *call, const UDF_ARGS *args)
{
  uint64_t ms= RQ_BACKOFF;
  /* A token has a colon in it, and a time has none. */
  uint at= 1;
  while (at < args->arg_count && queue_text_of(thd, args, at).find(':') != std::string::npos)
    at++;
  if (args->arg_count > at + 2) {
    my_printf_error(ER_WRONG_ARGUMENTS, "Incorrect arguments to %s: after the tokens it takes a time and a reason", MYF(0), call->name);
    return call->null();
  }
  if (args->arg_count > at && args->args[at] && !span_of(thd, call, args, at, 0, &ms))
    return call->null();
  const std::string why= args->arg_count > at + 1 ? queue_text_of(thd, args, at + 1) : std::string();
  return use_tokens(thd, call, args, at, RQ_NACK, ms, why);
}

QUEUE_INTEGER(queue_lease, 3, queue_arguments_max, queue_text_types(args))
QUEUE_STRING(queue_lease_json, 3, queue_arguments_max, (queue_text_types(args), init->max_length= 1U << 30))
QUEUE_STRING(queue_token, 0, 0, init->max_length= 1U << 30)
QUEUE_STRING(queue_stale, 0, 0, init->max_length= 1U << 30)
QUEUE_INTEGER_OF_ROW(queue_ack, 1, queue_arguments_max, queue_text_types(args))
QUEUE_INTEGER_OF_ROW(queue_release, 1, queue_arguments_max, queue_text_types(args))
QUEUE_INTEGER_OF_ROW(queue_extend, 2, queue_arguments_max, queue_text_types(args))
QUEUE_INTEGER_OF_ROW(queue_nack, 1, queue_arguments_max, queue_text_types(args))
