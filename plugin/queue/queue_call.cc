/*
  The functions of the queue are loadable (UDFs): this interface is public and does not change with the
  server. They access a connection through functions that the server exports, never through a member of THD.

  The server evaluates a constant function in WHERE once, after the tables are opened and before a row is
  read; this makes SELECT ... WHERE queue_wait('t') work. Anywhere else the server may evaluate the function
  for each row, and a second queue_wait() would consume the rows of the first; so each function keeps its
  result until the statement is over.
*/
#define MYSQL_SERVER 1

#include <my_global.h>

#include "sql_class.h"
#include "sql_acl.h"
#include "sql_parse.h"

#include "queue_call.h"
#include "queue_connection.h"

extern "C" {
/* Exported by the server, but not declared in its headers. */
CHARSET_INFO *thd_charset(THD *thd);
int thd_is_connected(THD *thd);
}

void queue_raise(const rq_error &error)
{
  my_printf_error(ER_GET_ERRMSG, "Queue: %s", MYF(0), error.text);
}

Call::Call(const char *name, const UDF_ARGS *args) : name(name)
{
  for (uint at= 0; at < args->arg_count; at++)
    known.push_back(args->args[at] != nullptr);
}

bool Call::is_constant(const UDF_ARGS *args) const
{
  for (uint at= 0; at < args->arg_count; at++)
    if (args->args[at] && !known[at]) {
      my_printf_error(ER_WRONG_ARGUMENTS, "Incorrect arguments to %s: they must be constants", MYF(0), name);
      return false;
    }
  return true;
}

std::string queue_text_of(THD *thd, const UDF_ARGS *args, uint at)
{
  if (!args->args[at])
    return std::string();
  const char *bytes= args->args[at];
  const uint32 length= static_cast<uint32>(args->lengths[at]);
  CHARSET_INFO *from= thd_charset(thd);
  std::string text(static_cast<size_t>(length) * 4, 0);
  uint errors;
  text.resize(my_convert(&text[0], static_cast<uint32>(text.size()), &my_charset_utf8mb4_bin, bytes, length, from,
                         &errors));
  return text;
}

longlong queue_integer_of(const UDF_ARGS *args, uint at)
{
  return args->args[at] ? *reinterpret_cast<const longlong *>(args->args[at]) : 0;
}

bool queue_is_read_only(THD *thd)
{
  if (!thd->is_read_only_ctx())
    return false;
  my_error(ER_OPTION_PREVENTS_STATEMENT, MYF(0), "--read-only");
  return true;
}

int queue_still_there(void *context)
{
  THD *thd= static_cast<THD *>(context);
  return !thd_killed(thd) && thd_is_connected(thd);
}

bool queue_tables::open(THD *thd, const UDF_ARGS *args, uint first, uint count)
{
  for (uint at= first; at < first + count; at++) {
    arguments.push_back(queue_text_of(thd, args, at));
    const std::string &argument= arguments.back();
    const size_t colon= argument.find(':');
    opened.emplace_back();
    if (!opened.back().open_for_reader(thd, argument.substr(0, colon), SELECT_ACL | DELETE_ACL))
      return false;
    const std::string &reader= opened.back().reader;
    rq_slice condition= {nullptr, 0};
    if (colon != std::string::npos)
      condition= {reinterpret_cast<const uchar *>(argument.data()) + colon + 1, argument.size() - colon - 1};
    targets.push_back({opened.back().queue, condition, {reinterpret_cast<const uchar *>(reader.data()), reader.size()}});
  }
  return true;
}

my_bool queue_begin_call(UDF_INIT *init, const UDF_ARGS *args, char *message, const char *name, uint at_least,
                         uint at_most)
{
  if (args->arg_count < at_least || args->arg_count > at_most) {
    snprintf(message, MYSQL_ERRMSG_SIZE, "%u arguments; it takes %u%s", args->arg_count, at_least,
             at_most > at_least ? " or more" : "");
    return 1;
  }
  init->maybe_null= 1;
  init->max_length= 1024;
  init->ptr= reinterpret_cast<char *>(new (std::nothrow) Call(name, args));
  return !init->ptr;
}

void queue_end_call(UDF_INIT *init)
{
  delete reinterpret_cast<Call *>(init->ptr);
  init->ptr= nullptr;
}

/* Whether the statement shows how another one would run, or ran: nobody sees the rows that it takes. True
   with a warning. */
static bool only_explains(THD *thd, const Call *call)
{
  if (!thd->lex->describe && !thd->lex->analyze_stmt)
    return false;
  queue_warn(thd, (std::string("EXPLAIN and ANALYZE do not call ") + call->name + "(): its result is NULL").c_str());
  return true;
}

Call *queue_result(UDF_INIT *init, const UDF_ARGS *args, longlong (*evaluate)(THD *, Call *, const UDF_ARGS *))
{
  Call *call= reinterpret_cast<Call *>(init->ptr);
  if (!call->done) {
    call->done= true;
    THD *thd= _current_thd();
    const bool may= !only_explains(thd, call) && call->is_constant(args) &&
                    !queue_is_logged_as_text(thd, (std::string(call->name) + "()").c_str());
    call->value= may ? evaluate(thd, call, args) : call->null();
  }
  return call;
}

void queue_wait_types(UDF_ARGS *args, uint first)
{
  for (uint at= first; at < args->arg_count; at++)
    args->arg_type[at]= at > first && at + 1 == args->arg_count ? INT_RESULT : STRING_RESULT;
}
