/*
  ENGINE=QUEUE: the handler. It owns what is the server's and nothing else; rows, waiting and durability are the core's
  (queue_abi.h).
*/
#ifndef HA_QUEUE_H
#define HA_QUEUE_H

#include <vector>

#include "queue_abi.h"
#include "queue_connection.h"

/* What CREATE TABLE may say of a queue. */
struct ha_table_option_struct {
  uint sync; /* RQ_SYNC_ALWAYS and so on */
};

/*
  ALTER TABLE copies under a lock that keeps publishers out. From 11.2 on a server lets them go on and applies
  afterwards what they did, which knows nothing of rows that are owned or taken.
*/
#ifndef HA_NO_ONLINE_ALTER
#define HA_NO_ONLINE_ALTER 0
#endif

/* Reads rows, writes rows, deletes rows: of one table, for one statement at a time. */
class ha_queue final : public handler {
public:
  ha_queue(handlerton *hton, TABLE_SHARE *share) : handler(hton, share) { ref_length= 8; }
  ~ha_queue() override { end_scan(); }

  const char *table_type() const override { return "QUEUE"; }
  ulonglong table_flags() const override
  {
    /*
      Not HA_STATS_RECORDS_IS_EXACT: with it the optimiser reads tables of one row before it evaluates queue_wait() in
      WHERE. COUNT(*) is exact by records() alone. No HA_BINLOG_*: rows of a queue are not replicated.
    */
    return HA_NO_TRANSACTIONS | HA_HAS_RECORDS | HA_NO_AUTO_INCREMENT | HA_REC_NOT_IN_SEQ | HA_NULL_IN_KEY |
           HA_CAN_GEOMETRY | HA_CAN_TABLE_CONDITION_PUSHDOWN | HA_CAN_FORCE_BULK_DELETE | HA_NO_ONLINE_ALTER |
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
  /* It has nothing to do. Without HA_CAN_REPAIR newer servers would copy the table, which ends all waits. */
  int repair(THD *, HA_CHECK_OPT *) override { return HA_ADMIN_NOT_IMPLEMENTED; }
  ha_rows records() override;

  int rnd_init(bool scan) override;
  int rnd_next(uchar *buf) override;
  int rnd_pos(uchar *buf, uchar *pos) override;
  void position(const uchar *record) override;
  int rnd_end() override;
  int reset() override;
  /* Conditions stay with the server; that there are some is known. */
  const COND *cond_push(const COND *cond) override
  {
    hiding= true;
    return cond;
  }

  void start_bulk_insert(ha_rows rows, uint flags) override { gathering= rows != 1; }
  int end_bulk_insert() override;
  int write_row(const uchar *buf) override;
  bool start_bulk_delete() override
  {
    deleting= true;
    return false;
  }
  int end_bulk_delete() override;
  int delete_row(const uchar *buf) override;
  /* Only row by row: an owner deletes its own rows, others those that nobody owns. */
  int delete_all_rows() override { return HA_ERR_WRONG_COMMAND; }

private:
  int publish(bool may_fail_yet);
  int end_statement();
  void give_up();
  bool may_fail_yet() const;
  bool is_told_of_end() const;
  bool is_relayed() const;
  bool is_copied_online() const;
  void warn_of_hidden();
  int remove();
  int cursor_ready();
  int hold_back();
  void end_scan();
  void resume();
  int unpack(uchar *record, rq_slice row);
  int fail(int code, const rq_error &error) const;

  const rq_queue *queue= nullptr;
  rq_cursor *cursor= nullptr;
  queue_connection *reader= nullptr; /* whose walk it is */
  ulonglong current= 0;
  bool gathering= false, deleting= false;
  bool paused= false; /* for DELETE: what it reads is given to nobody before it is gone */
  bool hiding= false; /* WHERE has conditions that may leave rows out */
  bool copying= false; /* for ALTER: shows rows that others own too */
  std::vector<std::vector<uchar>> rows;
  size_t bytes= 0;
  std::vector<uint64_t> doomed;
  /* The row that BLOBs of the record point into; the cursor replaces its own when it goes on. */
  std::vector<uchar> kept;
};

#endif
