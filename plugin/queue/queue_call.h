/* What all SQL functions of the queue share: arguments, results, and the tables that they name. */
#ifndef QUEUE_CALL_H
#define QUEUE_CALL_H

#include <deque>
#include <map>
#include <string>
#include <vector>

#include "queue_abi.h"
#include "queue_opened.h"

/* The server's priority queues define a macro of this name. */
#undef queue_end

/* How long a function waits when no time is given, and at most. */
static const longlong queue_timeout_default_ms= 60000;
static const double queue_timeout_max_s= 1e12;

/* The most arguments: the tables to wait on, and the time. */
static const uint queue_arguments_max= 64;

/* Raises an error of the core. */
void queue_raise(const rq_error &error);

/* One use of a function in a statement: its arguments, and its result once there is one. */
struct Call {
  const char *name;
  std::vector<bool> known; /* which arguments had a value before execution */
  bool done= false, is_null= false;
  longlong value= 0;
  std::string text; /* the value of a function that returns a string */
  /* The values by the arguments, where these depend on a row: the server may evaluate one more than once. */
  std::map<std::string, longlong> of_rows;

  Call(const char *name, const UDF_ARGS *args);

  longlong null()
  {
    is_null= true;
    return 0;
  }

  /* NULL, with an error of this number; Q4M's functions give a warning instead, as there. */
  longlong refuse(THD *thd, uint number, const std::string &why);
  longlong refuse(THD *thd, const queue_opened &table) { return refuse(thd, table.refused, table.why); }

  /* Whether an argument depends on a row. */
  bool depends_on_row(const UDF_ARGS *args) const;

  /* False with an error when an argument depends on a row. */
  bool is_constant(const UDF_ARGS *args) const;
};

/* An argument as text in UTF-8; the server passes strings in the character set of the connection. */
std::string queue_text_of(THD *thd, const UDF_ARGS *args, uint at);

/* An argument that the server passes as an integer. */
longlong queue_integer_of(const UDF_ARGS *args, uint at);

/* An argument that is a whole number; false when it is none, with an error if `call` is given. */
bool queue_whole_of(THD *thd, const Call *call, const UDF_ARGS *args, uint at, longlong *number);

/* An argument that is a time in seconds, with or without a fraction; false with an error. */
bool queue_seconds_of(THD *thd, const Call *call, const UDF_ARGS *args, uint at, double *seconds);

/* The milliseconds to wait: argument `at`, or the default if it is not `timed`. False with an error. */
bool queue_timeout_of(THD *thd, const Call *call, const UDF_ARGS *args, bool timed, uint at, longlong *ms);

/* Whether READ_ONLY forbids the call; true with an error. */
bool queue_is_read_only(THD *thd);

/* For a wait: whether it goes on; `context` is the THD. */
int queue_client_is_alive(void *context);

/* The tables that arguments name, each with a condition after a colon. */
struct queue_tables {
  std::deque<queue_opened> opened;
  std::deque<std::string> arguments;
  std::vector<rq_target> targets;

  /* Opens the tables of `count` arguments from `first` on; false when one can't be, then the last. */
  bool open(THD *thd, const UDF_ARGS *args, uint first, uint count);
};

/* Whether InnoDB may show what was there before the transaction's next wait, and no later changes. */
bool queue_has_snapshot(THD *thd);
void queue_warn_of_snapshot(THD *thd);

/* Says that the result is text and not bytes. */
void queue_returns_text(UDF_INIT *init);

/* Begins a use of a function; true with a message when its arguments are wrong. */
my_bool queue_begin_call(UDF_INIT *init, const UDF_ARGS *args, char *message, const char *name, uint at_least,
                         uint at_most);
void queue_end_call(UDF_INIT *init);

/* The result, evaluated at the first call. */
Call *queue_result(UDF_INIT *init, const UDF_ARGS *args, longlong (*evaluate)(THD *, Call *, const UDF_ARGS *));

/* The same; where an argument depends on a row, evaluated once for all rows with the same arguments. */
Call *queue_result_of_row(UDF_INIT *init, const UDF_ARGS *args, longlong (*evaluate)(THD *, Call *, const UDF_ARGS *));

/* The server passes all arguments as text: it would take 'abc' for 0, and 0.4 for a whole number. */
void queue_text_types(UDF_ARGS *args);

#define QUEUE_FUNCTION(NAME, AT_LEAST, AT_MOST, TYPES)                                                                 \
  extern "C" my_bool NAME##_init(UDF_INIT *init, UDF_ARGS *args, char *message)                                        \
  {                                                                                                                    \
    if (queue_begin_call(init, args, message, #NAME, AT_LEAST, AT_MOST))                                                          \
      return 1;                                                                                                        \
    TYPES;                                                                                                             \
    return 0;                                                                                                          \
  }                                                                                                                    \
  extern "C" void NAME##_deinit(UDF_INIT *init) { queue_end_call(init); }

#define QUEUE_INTEGER(NAME, AT_LEAST, AT_MOST, TYPES) QUEUE_NUMBER(NAME, AT_LEAST, AT_MOST, TYPES, queue_result)
#define QUEUE_INTEGER_OF_ROW(NAME, AT_LEAST, AT_MOST, TYPES) QUEUE_NUMBER(NAME, AT_LEAST, AT_MOST, TYPES, queue_result_of_row)

#define QUEUE_NUMBER(NAME, AT_LEAST, AT_MOST, TYPES, RESULT)                                                           \
  QUEUE_FUNCTION(NAME, AT_LEAST, AT_MOST, TYPES)                                                                       \
  extern "C" longlong NAME(UDF_INIT *init, UDF_ARGS *args, char *is_null, char *)                                      \
  {                                                                                                                    \
    const Call *call= RESULT(init, args, evaluate_##NAME);                                                             \
    *is_null= call->is_null;                                                                                           \
    return call->value;                                                                                                \
  }

#define QUEUE_STRING(NAME, AT_LEAST, AT_MOST, TYPES)                                                                   \
  QUEUE_FUNCTION(NAME, AT_LEAST, AT_MOST, queue_returns_text(init); TYPES)                                             \
  extern "C" char *NAME(UDF_INIT *init, UDF_ARGS *args, char *, unsigned long *length, char *is_null, char *)          \
  {                                                                                                                    \
    Call *call= queue_result(init, args, evaluate_##NAME);                                                                   \
    *is_null= call->is_null;                                                                                           \
    *length= static_cast<unsigned long>(call->text.size());                                                            \
    return &call->text[0];                                                                                             \
  }

#endif
