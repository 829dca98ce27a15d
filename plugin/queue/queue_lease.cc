/*
  Leases: functions for workers that keep no connection. queue_lease() shows rows of a table, queue_lease_json()
  opens none; what they return goes by token.
*/
#define MYSQL_SERVER 1

#include <my_global.h>

#include <cmath>

#include "sql_class.h"
#include "sql_acl.h"

#include "queue_call.h"
#include "queue_connection.h"
#include "queue_function.h"
#include "queue_transaction.h"

/* The longest lease or delay: a year. */
static const double span_max_s= 366.0 * 24 * 60 * 60;

static double real_of(const UDF_ARGS *args, uint at)
{
  return args->args[at] ? *reinterpret_cast<const double *>(args->args[at]) : 0;
}

/* A time in seconds as milliseconds. False with an error when it is not within its bounds. */
static bool span_of(const Call *call, const UDF_ARGS *args, uint at, double least_s, uint64_t *ms)
{
  const double seconds= real_of(args, at);
  if (!args->args[at] || !(seconds >= least_s && seconds <= span_max_s)) {
    my_printf_error(ER_WRONG_ARGUMENTS, "Incorrect arguments to %s: a time must be %s and at most a year, in seconds",
                    MYF(0), call->name, least_s > 0 ? "at least a millisecond" : "0 or more");
    return false;
  }
  *ms= static_cast<uint64_t>(std::llround(seconds * 1000));
  return true;
}

/*
  Leases rows: queue_lease(SECONDS, ROWS, TABLE, ..., WAIT). 0 when it got none; else the number of the table's
  argument among the tables, whose name is then in `name`.
*/
static longlong lease(THD *thd, Call *call, const UDF_ARGS *args, bool json, std::string *name)
{
  queue_called.lease++;
  queue_connection *mine= queue_connection_of(thd);
  if (!mine || queue_is_read_only(thd))
    return call->null();
  if (mine->reading) {
    queue_warn(thd, "rows can't be leased after rows of a queue were read; queue_lease() belongs in WHERE, or in a statement "
                    "of its own");
    return call->null();
  }
  if (mine->leased == thd->query_id && (!json || mine->got)) {
    my_printf_error(ER_GET_ERRMSG, "Queue: this statement has taken rows already, and would not show those of a second %s(); name all "
                    "tables in one, or use two statements", MYF(0), call->name);
    return call->null();
  }
  const int command= thd_sql_command(thd);
  if (command == SQLCOM_DELETE || command == SQLCOM_DELETE_MULTI) {
    queue_warn(thd, "DELETE leaves leased rows alone; queue_ack() ends them");
    return call->null();
  }
  uint64_t lease_ms;
  const longlong rows= queue_integer_of(args, 1);
  if (!span_of(call, args, 0, 0.001, &lease_ms))
    return call->null();
  if (rows < 1) {
    my_printf_error(ER_WRONG_ARGUMENTS, "Incorrect arguments to %s: at least one row", MYF(0), call->name);
    return call->null();
  }
  const uint last= args->arg_count - 1;
  const bool timed= last > 2;
  if (timed && !args->args[last]) {
    queue_warn(thd, "the time to wait is NULL");
    return call->null();
  }
  queue_tables tables;
  if (!tables.open(thd, args, 2, timed ? last - 2 : 1))
    return call->null();
  rq_error error;
  for (const queue_opened &table : tables.opened)
    if (json && !rq_has_json(table.queue, &error)) {
      queue_warn(thd, (table.name + ": column " + error.text + " has a type that queue_lease_json() can't show; use "
                       "queue_lease()").c_str());
      return call->null();
    }
  const longlong seconds= timed ? queue_integer_of(args, last) : queue_timeout_default_s;
  const longlong timeout_ms= seconds <= 0 ? 0 : MY_MIN(seconds, queue_timeout_max_s) * 1000;
  int outcome= RQ_TIMED_OUT;
  size_t target= 0;
  const char *before= thd_proc_info(thd, "Waiting in queue_lease");
  thd_wait_begin(thd, THD_WAIT_SLEEP);
  const int code= rq_lease(mine->session, tables.targets.data(), tables.targets.size(), static_cast<size_t>(rows), lease_ms,
                           timeout_ms, queue_still_there, thd, &outcome, &target, &error);
  thd_wait_end(thd);
  thd_proc_info(thd, before);
  if (code == RQ_CONDITION)
    queue_warn(thd, error.text);
  else if (code)
    queue_raise(error);
  else if (outcome == RQ_INTERRUPTED) {
    if (const int why= thd->killed_errno())
      my_error(why, MYF(0));
  } else {
    if (outcome == RQ_GONE)
      queue_warn(thd, "a table was dropped while it was waited for");
    if (outcome != RQ_TAKEN)
      return 0;
    mine->leased= thd->query_id;
    mine->leased_from= tables.opened[target].name;
    mine->got= json ? 0 : rq_leased_rows(mine->session);
    mine->got_from= mine->leased_from;
    *name= mine->leased_from;
    return static_cast<longlong>(target) + 1;
  }
  return call->null();
}

static longlong evaluate_queue_lease(THD *thd, Call *call, const UDF_ARGS *args)
{
  std::string name;
  return lease(thd, call, args, false, &name);
}

/* What the core says about the rows that the statement has leased. */
static longlong tell_leased(Call *call, queue_connection *mine, const std::string &name,
                            int (*tell)(rq_session *, rq_slice, rq_slice *, rq_error *))
{
  rq_slice text;
  rq_error error;
  const int code= tell(mine->session, {reinterpret_cast<const uchar *>(name.data()), name.size()}, &text, &error);
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
  std::string name;
  const longlong taken= lease(thd, call, args, true, &name);
  if (taken)
    return tell_leased(call, queue_connection_of(thd), name, rq_leased_json);
  call->text= "[]";
  return 0;
}

static longlong evaluate_queue_token(THD *thd, Call *call, const UDF_ARGS *)
{
  queue_connection *mine= queue_connection_of(thd);
  return mine ? tell_leased(call, mine, mine->leased_from, rq_leased_tokens) : call->null();
}

/* Tokens of one table. */
struct Tokens {
  std::string table, tokens;
  uint count;
};

/* Splits tokens, which may have commas between them, by their tables. */
static void split(const std::string &text, std::vector<Tokens> *all, uint *count)
{
  for (size_t from= 0; from <= text.size();) {
    const size_t comma= MY_MIN(text.find(',', from), text.size());
    std::string token= text.substr(from, comma - from);
    token.erase(0, token.find_first_not_of(' '));
    from= comma + 1;
    if (token.empty())
      continue;
    ++*count;
    const size_t colon= token.rfind(':');
    const std::string table= colon == std::string::npos ? std::string() : token.substr(0, colon);
    if (all->empty() || all->back().table != table)
      all->push_back({table, std::string(), 0});
    all->back().tokens+= token.substr(colon == std::string::npos ? 0 : colon + 1) + ",";
  }
}

static rq_slice slice_of(const std::string &text)
{
  return {reinterpret_cast<const uchar *>(text.data()), text.size()};
}

/* What a user who gave rows back would not expect. */
static void warn_after_nack(THD *thd, const queue_opened &table, bool reason)
{
  rq_error why;
  if (reason && !rq_keeps_reasons(table.queue))
    queue_warn(thd, (table.name + " keeps no reasons: it has none of the options TRIES, BACKOFF, FAILED, WHY and TOKEN").c_str());
  if (rq_unburied(table.queue, &why))
    queue_warn(thd, ("rows of " + table.name + " that have no tries left stay in it and are given to nobody: " + why.text).c_str());
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
  uint count= 0;
  ulonglong done= 0;
  for (uint at= 0; at < end; at++)
    split(queue_text_of(thd, args, at), &all, &count);
  for (const Tokens &of : all) {
    queue_opened table;
    rq_error error;
    uint64_t good= 0;
    if (of.table.empty() || !table.open(thd, of.table, DELETE_ACL))
      continue;
    const bool within= what == RQ_ACK && rq_is_transactional(table.queue);
    if (within && !table.lock(thd)) {
      if (table.is_missing)
        continue;
      return call->null();
    }
    if (within && !queue_join(thd))
      return call->null();
    if (rq_use_tokens(mine->session, table.queue, what,
                      slice_of(of.tokens), ms, slice_of(why), within, &good, &error)) {
      queue_raise(error);
      return call->null();
    }
    done+= good;
    if (what == RQ_ACK && good && !within)
      queue_note_lasting(thd);
    if (what == RQ_NACK && good)
      warn_after_nack(thd, table, !why.empty());
  }
  if (done < count)
    queue_warn(thd, (std::to_string(count - done) + " of " + std::to_string(count) +
                     " tokens are stale: the lease was over and somebody else has the row, or it was ended").c_str());
  return static_cast<longlong>(done);
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
  return span_of(call, args, 1, 0.001, &ms) ? use_tokens(thd, call, args, 1, RQ_EXTEND, ms) : call->null();
}

static longlong evaluate_queue_nack(THD *thd, Call *call, const UDF_ARGS *args)
{
  uint64_t ms= RQ_BACKOFF;
  if (args->arg_count > 1 && args->args[1] && !span_of(call, args, 1, 0, &ms))
    return call->null();
  const std::string why= args->arg_count > 2 ? queue_text_of(thd, args, 2) : std::string();
  return use_tokens(thd, call, args, 1, RQ_NACK, ms, why);
}

/* The types of a lease's arguments. */
static void lease_types(UDF_ARGS *args)
{
  args->arg_type[0]= REAL_RESULT;
  args->arg_type[1]= INT_RESULT;
  queue_wait_types(args, 2);
}

/* The types of tokens, and of a time behind the first one if it is `timed`. */
static void token_types(UDF_ARGS *args, bool timed)
{
  for (uint at= 0; at < args->arg_count; at++)
    args->arg_type[at]= timed && at == 1 ? REAL_RESULT : STRING_RESULT;
}

QUEUE_INTEGER(queue_lease, 3, queue_arguments_max, lease_types(args))
QUEUE_STRING(queue_lease_json, 3, queue_arguments_max, (lease_types(args), init->max_length= 1U << 30))
QUEUE_STRING(queue_token, 0, 0, init->max_length= 1U << 30)
QUEUE_INTEGER(queue_ack, 1, queue_arguments_max, token_types(args, false))
QUEUE_INTEGER(queue_release, 1, queue_arguments_max, token_types(args, false))
QUEUE_INTEGER(queue_extend, 2, 2, token_types(args, true))
QUEUE_INTEGER(queue_nack, 1, 3, token_types(args, true))
