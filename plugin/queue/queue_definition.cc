/* What CREATE TABLE says about a queue. See queue_definition.h. */
#include "queue_server.h"

#include <algorithm>
#include <deque>
#include <iterator>
#include <string>
#include <vector>

#include "create_options.h"
#include "sql_acl.h"
#include "mysqld.h"
#include "sql_table.h"
#ifdef WITH_WSREP
#include "wsrep_on.h"
#endif

#include "queue_definition.h"
#include "queue_error.h"
#include "queue_info_columns.h"
#include "queue_opened.h"
#include "queue_options.h"
#include "queue_order.h"
#include "queue_row.h"
#include "queue_transaction.h"

rq_slice queue_slice_of(const std::string &text)
{
  return {reinterpret_cast<const unsigned char *>(text.data()), text.size()};
}

std::string queue_folder_of(const char *name)
{
  return std::string(name) + ".queue";
}

/*
  The folder of the queue that takes rows without tries left. One that is not there yet may come later. False
  with an error when the user may not insert into it.
*/
static bool dead_letter_folder(THD *thd, const TABLE *form, const ha_table_option_struct *options, std::string *folder)
{
  const std::string dead= options->dead ? options->dead : "";
  if (dead.empty())
    return true;
  if (!options->tries) {
    my_printf_error(ER_ILLEGAL_HA_CREATE_OPTION, "Queue: DEAD needs TRIES: without it a row never runs out of tries", MYF(0));
    return false;
  }
  queue_opened target;
  const std::string db(form->s->db.str, form->s->db.length), table(form->s->table_name.str, form->s->table_name.length);
  queue_name named(dead);
  if (named.db.empty())
    named.db= db;
  if (!target.open(thd, named, INSERT_ACL)) {
    if (!target.is_missing) {
      my_printf_error(ER_ILLEGAL_HA_CREATE_OPTION, "Queue: DEAD='%s' can't be used: %s", MYF(0), dead.c_str(), target.why.c_str());
      return false;
    }
    queue_warn(thd, target.why.c_str(), target.refused);
  }
  if (target.db == db && target.table == table) {
    my_printf_error(ER_ILLEGAL_HA_CREATE_OPTION, "Queue: DEAD='%s' is this table; name another queue", MYF(0), dead.c_str());
    return false;
  }
  char path[FN_REFLEN + 1];
  build_table_filename(path, sizeof(path) - 8, db.c_str(), table.c_str(), ".queue", 0);
  if (target.queue && rq_leads_to(target.queue, queue_slice_of(path))) {
    my_printf_error(ER_ILLEGAL_HA_CREATE_OPTION, "Queue: DEAD='%s' leads back to this table, so that its rows would be retried forever; "
                    "name another queue", MYF(0), dead.c_str());
    return false;
  }
  *folder= target.folder;
  return true;
}

/* What readers can't go together with. False with an error. */
/* The server reads a number as far as there are digits: KEEP='1d' would be a second. */
static bool numbers_are_whole(const HA_CREATE_INFO *info)
{
  static const char *const numbers[]= {"tries", "age", "concurrency", "dedupe_for", "keep"};
  for (const engine_option_value *option= info->option_list; option; option= option->next) {
    const bool is_number= std::any_of(std::begin(numbers), std::end(numbers), [option](const char *name) {
      return !strcasecmp(option->name.str, name);
    });
    const LEX_CSTRING &value= option->value;
    if (!is_number || !value.str)
      continue;
    if (!value.length || !std::all_of(value.str, value.str + value.length, [](char c) { return c >= '0' && c <= '9'; })) {
      my_error(ER_BAD_OPTION_VALUE, MYF(0), value.str, option->name.str);
      return false;
    }
  }
  return true;
}

static bool readers_fit(const ha_table_option_struct *options, bool transactional)
{
  if (!options->readers || !*options->readers)
    return true;
  auto is_set= [](const char *option) { return option && *option; };
  const char *why= nullptr;
  if (!options->keep)
    why= "READERS needs KEEP: a new reader starts at the oldest kept row";
  else if (transactional)
    why= "READERS can't be combined with TRANSACTIONAL=1: a transaction removes a row for all readers";
  else if (is_set(options->priority) || is_set(options->fifo))
    why= "READERS can't be combined with PRIORITY or FIFO: each reader gets the rows in the order of insertion";
  else if (options->tries || is_set(options->backoff) || is_set(options->dead))
    why= "READERS can't be combined with TRIES, BACKOFF or DEAD: tries are counted per row, not per reader";
  else if (is_set(options->rate))
    why= "READERS can't be combined with RATE: each reader gets every row";
  else if (is_set(options->failed) || is_set(options->why) || is_set(options->token))
    why= "READERS can't be combined with FAILED, WHY or TOKEN: they show tries and leases, which readers don't have";
  if (why)
    my_printf_error(ER_ILLEGAL_HA_CREATE_OPTION, "Queue: %s", MYF(0), why);
  return !why;
}

/*
  Whether CREATE TABLE ... SELECT is refused, with an error: the server logs no statement that fills a
  queue, so a replica would not have the table, and would stop when it is altered or dropped.
*/
static bool refuses_select(THD *thd)
{
  if (thd_sql_command(thd) != SQLCOM_CREATE_TABLE || !opt_bin_log || !(thd->variables.option_bits & OPTION_BIN_LOG) ||
      !(thd->lex->first_select_lex()->item_list.elements || thd->lex->first_select_lex()->tvc))
    return false;
  my_printf_error(ER_ILLEGAL_HA_CREATE_OPTION, "Queue: CREATE TABLE ... SELECT is not written to the binary log for a queue; use CREATE TABLE "
                  "and then INSERT ... SELECT", MYF(0));
  return true;
}

int queue_create(THD *thd, const char *name, TABLE *form, HA_CREATE_INFO *info)
{
  if (refuses_select(thd))
    return HA_ERR_UNSUPPORTED;
  if (form->versioned()) {
    my_printf_error(ER_ILLEGAL_HA_CREATE_OPTION, "Queue: a queue keeps no history of its rows; remove WITH SYSTEM VERSIONING",
                    MYF(0));
    return HA_ERR_UNSUPPORTED;
  }
#ifdef WITH_WSREP
  /* The other members would have the table, but none of its rows. */
  if (thd && thd->variables.wsrep_on) {
    my_printf_error(ER_ILLEGAL_HA_CREATE_OPTION,
                    "Queue: Galera does not replicate queues; after SET SESSION wsrep_on=OFF the queue is created on this node only", MYF(0));
    return HA_ERR_UNSUPPORTED;
  }
#endif
  const bool transactional= info->transactional == HA_CHOICE_YES;
#ifdef WITH_WSREP
  if (transactional && WSREP_ON) {
    my_printf_error(ER_ILLEGAL_HA_CREATE_OPTION,
                    "Queue: a Galera node does not support TRANSACTIONAL=1", MYF(0));
    return HA_ERR_UNSUPPORTED;
  }
#endif
  if (transactional && !queue_can_join(thd))
    return HA_ERR_UNSUPPORTED;
  if (!numbers_are_whole(info))
    return HA_ERR_UNSUPPORTED;
  const ha_table_option_struct *options= info->option_struct;
  queue_info_columns info_columns;
  std::string dead;
  queue_order order;
  if (!queue_find_info_columns(form, options, &info_columns) || !queue_order_of(thd, form, options, info_columns, &order) ||
      !dead_letter_folder(thd, form, options, &dead) || !readers_fit(options, transactional))
    return HA_ERR_UNSUPPORTED;
  uint fixed= 0;
  std::deque<std::vector<rq_slice>> members;
  std::vector<rq_column> columns= queue_columns(form, info_columns, &fixed, &members);
  const std::string backoff= options->backoff ? options->backoff : "", rate= options->rate ? options->rate : "",
                    readers= options->readers ? options->readers : "";
  rq_definition definition{options->sync, transactional, queue_null_bytes(form, info_columns), fixed, columns.data(), columns.size(),
                           options->tries, queue_slice_of(backoff), queue_slice_of(dead), info_columns.any(), order.due, order.priority, order.fifo, order.concurrency, order.age_s, order.rate_key, order.dedupe,
                           options->dedupe_for * 1000, options->keep * 1000,
                           queue_slice_of(rate), queue_slice_of(readers)};
  rq_error error;
  return queue_handler_error(rq_create(queue_slice_of(queue_folder_of(name)), &definition, &error), error);
}
