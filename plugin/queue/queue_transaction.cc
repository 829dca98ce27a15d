/*
  Transactions of the server in which queues with TRANSACTIONAL=1 take part. See queue_transaction.h.

  The engine takes part from the first change on. The server then calls commit or rollback at the end of each
  statement and of the transaction. When another engine has changed something too, it calls prepare before.
*/
#include "queue_server.h"

#include <signal.h>
#include <string>
#include <unistd.h>

#include "mysqld.h"

#include "queue_connection.h"
#include "queue_opened.h"
#include "queue_schedule.h"
#include "queue_transaction.h"

/* What a savepoint of the server has room for. */
struct Savepoint {
  uint64_t number;
};

/* For tests: the server dies here when --queue-fault names this point. */
static void crash_at(const char *point)
{
  if (!strcmp(queue_fault(), point))
    kill(getpid(), SIGKILL);
}

static queue_connection *connection_of(THD *thd)
{
  return static_cast<queue_connection *>(thd_get_ha_data(thd, queue_hton));
}

static int report(int code, const rq_error &error)
{
  if (code)
    my_printf_error(ER_GET_ERRMSG, "Queue: %s", MYF(0), error.text);
  return code != RQ_OK;
}

/* What was undone may have left the connection without rows; then it owns those again that it had before. */
static int after_undo(THD *thd, queue_connection *connection, int code, const rq_error &error)
{
  if (rq_is_owner(connection->session))
    queue_mark_owner(thd);
  return report(code, error);
}

bool queue_in_transaction(THD *thd)
{
  return thd->variables.option_bits & (OPTION_NOT_AUTOCOMMIT | OPTION_BEGIN);
}

void queue_note_nontransactional(THD *thd)
{
  if (queue_in_transaction(thd))
    thd->transaction->all.modified_non_trans_table= true;
}

/* Whether the server's call is about the whole transaction and not about one of its statements. */
static bool is_end(THD *thd, bool all)
{
  return all || !queue_in_transaction(thd);
}

bool queue_can_join(THD *thd)
{
  if (queue_hton->prepare)
    return true;
  my_printf_error(ER_GET_ERRMSG,
                  "Queue: the engine was installed at run time, and without a binary log transactions need a "
                  "coordinator that starts only with the server: restart the server",
                  MYF(0));
  return false;
}

bool queue_join(THD *thd)
{
  if (!queue_can_join(thd))
    return false;
  if (thd->tx_read_only) {
    my_error(ER_CANT_EXECUTE_IN_READ_ONLY_TRANSACTION, MYF(0));
    return false;
  }
  trans_register_ha(thd, false, queue_hton, 0);
  if (queue_in_transaction(thd))
    trans_register_ha(thd, true, queue_hton, 0);
  /* The server does this for a handler that writes, but not for a function. Without it the transaction has
     only one phase. */
  thd->ha_data[queue_hton->slot].ha_info[0].set_trx_read_write();
  return true;
}

/* The name of the transaction; `xid` has its bytes. */
static rq_xid named(THD *thd, MYSQL_XID *xid)
{
  thd_get_xid(thd, xid);
  const auto *data= reinterpret_cast<const uchar *>(xid->data);
  return {xid->formatID,
          {data, static_cast<size_t>(xid->gtrid_length)},
          {data + xid->gtrid_length, static_cast<size_t>(xid->bqual_length)}};
}

static int queue_prepare(QUEUE_HTON THD *thd, bool all)
{
  queue_connection *connection= connection_of(thd);
  if (!connection || !is_end(thd, all))
    return 0;
  crash_at("before_prepare");
  MYSQL_XID xid;
  const rq_xid name= named(thd, &xid);
  rq_error error;
  const int result= report(rq_tx_prepare(connection->session, &name, &error), error);
  crash_at("after_prepare");
  return result;
}

/* The coordinator has the transaction now, so its commit needs no sync. */
static void queue_commit_ordered(QUEUE_HTON THD *thd, bool all)
{
  queue_connection *connection= connection_of(thd);
  if (connection && is_end(thd, all))
    rq_tx_commit_ordered(connection->session);
}

static void queue_checkpoint_request(void *cookie)
{
  rq_request_checkpoint(commit_checkpoint_notify_ha, cookie);
}

/* FLUSH ENGINE LOGS, as before a copy of the files: they then have what the coordinator remembers. */
static bool queue_flush_logs(handlerton *)
{
  rq_error error;
  return report(rq_sync_commits(&error), error);
}

/*
  The server is about to close its coordinator, which then forgets everything. What could not be written to a
  queue, on a full disk for example, would be lost with that. So the server ends here as in a crash, after which
  the coordinator decides.
*/
static void queue_before_shutdown()
{
  queue_stop_scheduler();
  rq_error error;
  if (!rq_sync_commits(&error))
    return;
  sql_print_error("Queue: %s. Committed transactions are not yet written to their queues. The server exits now as in "
                  "a crash, and writes them at its next start",
                  error.text);
  _exit(1);
}

static int queue_commit(QUEUE_HTON THD *thd, bool all)
{
  queue_connection *connection= connection_of(thd);
  if (!connection)
    return 0;
  rq_error error;
  if (!is_end(thd, all))
    return report(rq_tx_statement(connection->session, 1, 0, &error), error);
  crash_at("before_commit");
  const int result= report(rq_tx_commit(connection->session, &error), error);
  crash_at("after_commit");
  return result;
}

static int queue_rollback(QUEUE_HTON THD *thd, bool all)
{
  queue_connection *connection= connection_of(thd);
  if (!connection)
    return 0;
  rq_error error;
  if (!is_end(thd, all))
    return after_undo(thd, connection, rq_tx_statement(connection->session, 0, queue_is_undelivered(thd), &error), error);
  /* The server rolls back at the end of a connection, before it tells the engine that it has ended. */
  return report(rq_tx_rollback(connection->session, queue_is_undelivered(thd), &error), error);
}

static int queue_savepoint_set(QUEUE_HTON THD *thd, void *savepoint)
{
  queue_connection *connection= connection_of(thd);
  static_cast<Savepoint *>(savepoint)->number= connection ? rq_tx_savepoint(connection->session) : 0;
  return 0;
}

static int queue_savepoint_rollback(QUEUE_HTON THD *thd, void *savepoint)
{
  queue_connection *connection= connection_of(thd);
  if (!connection)
    return 0;
  rq_error error;
  const uint64_t number= static_cast<Savepoint *>(savepoint)->number;
  return after_undo(thd, connection, rq_tx_roll_back_to(connection->session, number, &error), error);
}

static int queue_savepoint_release(QUEUE_HTON THD *thd, void *savepoint)
{
  if (queue_connection *connection= connection_of(thd))
    rq_tx_release(connection->session, static_cast<Savepoint *>(savepoint)->number);
  return 0;
}

/*
  Reading a table of an engine without prepare makes the server commit in one phase, as if that engine had
  something to commit; Aria is one, and with it the system's tables. The server calls this before it decides.

  When there will be two phases, the first one begins here: others may write it while InnoDB syncs its own.
*/
static ulonglong queue_before_commit(THD *thd, ulonglong *)
{
  THD_TRANS *both[]= {&thd->transaction->stmt, &thd->transaction->all};
  uint changed= 0;
  for (const THD_TRANS *part : both)
    for (Ha_trx_info *info= part->ha_list; info; info= info->next()) {
      changed+= info->is_trx_read_write();
      if (!info->ht()->prepare && info->is_trx_read_write()) {
        queue_warn(thd, "the transaction changed a table of an engine without XA, such as Aria, and a queue: a crash could "
                        "keep one of the two changes. Change them in separate transactions");
        return ULONGLONG_MAX;
      }
    }
  for (THD_TRANS *part : both)
    part->no_2pc= false;
  queue_connection *connection= connection_of(thd);
  if (!connection || changed < 2)
    return 0;
  MYSQL_XID xid;
  const rq_xid name= named(thd, &xid);
  rq_error error;
  return report(rq_tx_begin_prepare(connection->session, &name, &error), error) ? ULONGLONG_MAX : 0;
}

void queue_set_transactions(handlerton *hton)
{
  hton->prepare= queue_prepare;
  hton->commit_ordered= queue_commit_ordered;
  hton->commit_checkpoint_request= queue_checkpoint_request;
  hton->flush_logs= queue_flush_logs;
  hton->pre_shutdown= queue_before_shutdown;
  hton->commit= queue_commit;
  hton->rollback= queue_rollback;
  hton->savepoint_offset= sizeof(Savepoint);
  hton->savepoint_set= queue_savepoint_set;
  hton->savepoint_rollback= queue_savepoint_rollback;
  hton->savepoint_release= queue_savepoint_release;
  hton->prepare_commit_versioned= queue_before_commit;
}
