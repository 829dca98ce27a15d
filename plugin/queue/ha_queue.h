/*
  ENGINE=QUEUE: the handler. It owns only what belongs to the server; rows, waiting and durability belong to
  the core (queue_abi.h).
*/
#ifndef HA_QUEUE_H
#define HA_QUEUE_H

#include <vector>

#include "queue_abi.h"
#include "queue_info_columns.h"
#include "queue_options.h"
#include "queue_scan.h"

/*
  ALTER TABLE copies under a lock that keeps publishers out. From 11.2 on a server can let them go on and
  apply their changes afterwards, but those changes leave out which rows are owned or taken.
*/
#ifndef HA_NO_ONLINE_ALTER
#define HA_NO_ONLINE_ALTER 0
#endif

/* Reads, writes and deletes rows of one table, for one statement at a time. */
class ha_queue final : public handler {
public:
  ha_queue(handlerton *hton, TABLE_SHARE *share) : handler(hton, share) { ref_length= 8; }

  const char *table_type() const override { return "QUEUE"; }
  ulonglong table_flags() const override
  {
    /*
      Not HA_STATS_RECORDS_IS_EXACT: with it the optimiser reads tables of one row before it evaluates
      queue_wait() in WHERE. COUNT(*) is exact through records() alone. No HA_BINLOG_*: rows of a queue are
      not replicated.

      Not HA_NO_TRANSACTIONS either, also without TRANSACTIONAL=1: a failed statement leaves no row. With it
      the server is not strict from the second row of a statement on, and cuts values to fit, also in a table
      of another engine whose trigger fills a queue. That ROLLBACK does not undo a whole transaction is told
      by queue_note_lasting().
    */
    return HA_HAS_RECORDS | HA_NO_AUTO_INCREMENT | HA_REC_NOT_IN_SEQ | HA_NULL_IN_KEY |
           HA_CAN_GEOMETRY | HA_CAN_FORCE_BULK_DELETE | HA_NO_ONLINE_ALTER |
           HA_CAN_REPAIR;
  }
  ulong index_flags(uint, uint, bool) const override { return 0; }
  uint8 table_cache_type() override { return HA_CACHE_TBL_NOCACHE; }
  uint lock_count() const override { return 0; }
  THR_LOCK_DATA **store_lock(THD *thd, THR_LOCK_DATA **to, enum thr_lock_type type) override;
  int external_lock(THD *thd, int type) override;

  int create(const char *name, TABLE *form, HA_CREATE_INFO *info) override;
  int open(const char *name, int mode, uint test) override;
  int close() override;
  int delete_table(const char *name) override;
  int rename_table(const char *from, const char *to) override;
  int truncate() override;

  int info(uint flag) override;
  int optimize(THD *thd, HA_CHECK_OPT *options) override;
  /* A queue has nothing to repair. Without HA_CAN_REPAIR newer servers would copy the table, which ends all
     waits. */
  int repair(THD *, HA_CHECK_OPT *) override { return HA_ADMIN_NOT_IMPLEMENTED; }
  ha_rows records() override;

  int rnd_init(bool all) override { return all ? scan.begin(ha_thd(), open_table()) : 0; }
  int rnd_next(uchar *buf) override { return scan.next(ha_thd(), open_table(), buf); }
  int rnd_pos(uchar *buf, uchar *pos) override { return scan.read(ha_thd(), open_table(), buf, uint8korr(pos)); }
  void position(const uchar *) override { int8store(ref, scan.current()); }
  int rnd_end() override
  {
    scan.end();
    return 0;
  }
  int reset() override;
  void start_bulk_insert(ha_rows rows, uint flags) override { buffering= rows != 1; }
  int end_bulk_insert() override;
  int write_row(const uchar *buf) override;
  bool start_bulk_delete() override
  {
    deleting= true;
    return false;
  }
  int end_bulk_delete() override;
  int delete_row(const uchar *buf) override;
  /* Rows are deleted one by one: an owner deletes its own rows, others delete rows without an owner. */
  int delete_all_rows() override { return HA_ERR_WRONG_COMMAND; }

private:
  bool is_transactional() const { return table_share->transactional == HA_CHOICE_YES; }
  queue_table open_table() const { return {table, queue, &info_columns}; }
  bool is_transactional_change() const;
  int publish(bool may_fail_yet);
  int write_in_transaction(const uchar *buf);
  int end_statement();
  void discard_statement();
  bool may_still_fail() const;
  bool sees_statement_end() const;
  bool is_relayed() const;
  int remove();

  const rq_queue *queue= nullptr;
  queue_scan scan;
  queue_info_columns info_columns; /* columns that are filled when a row is read */
  bool buffering= false, deleting= false;
  bool nontransactional= false; /* the statement has changed what ROLLBACK leaves as it is */
  /* Rows to publish. */
  std::vector<std::vector<uchar>> rows;
  size_t bytes= 0;
  std::vector<uint64_t> to_delete;
};

#endif
