/*
  What the start of a server needs so that transactions with queues and InnoDB are decided rightly after a
  crash.

  Without a binary log the server's coordinator is the file tc.log: it has the number of every transaction that
  all engines have prepared and some have not committed. But at its start the server rolls back all
  prepared transactions, also those that the file has. So the engine commits these before the server looks.
*/
#include "queue_server.h"

#include <algorithm>
#include <fcntl.h>
#include <mutex>
#include <set>
#include <string>
#include <unistd.h>
#include <vector>

#include "sql_plugin.h"
#include "log.h"

#include "queue_connection.h"
#include "queue_recovery.h"

/* Older servers pass the handlerton to these functions too. */
#if MYSQL_VERSION_ID < 110800
#define ENGINE(HTON) HTON,
#else
#define ENGINE(HTON)
#endif

/* How a file of the coordinator begins, and where its numbers begin. */
static const uchar magic[]= {0xfe, 0x23, 0x05, 0x74};
static const size_t numbers_from= 8;

/* The first event of a binary log begins after four bytes. Where its flags are, and the flag of a log that is
   not closed. */
static const size_t flags_at= 4 + 17;
static const uchar in_use= 1;

/* A file is read up to this size; the server makes tc.log of 24 KiB, or as large as --log-tc-size says. */
static const size_t file_bytes_max= 64 << 20;

/* How many prepared transactions an engine is asked for at once. */
static const uint recover_count= 4096;

/* The bytes of a file from its start; empty when it can't be read. */
static std::vector<uchar> bytes_of(const char *path, size_t limit)
{
  std::vector<uchar> bytes;
  const int file= ::open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0)
    return bytes;
  uchar part[8192];
  ssize_t got;
  while (bytes.size() < limit && (got= ::read(file, part, sizeof(part))) > 0)
    bytes.insert(bytes.end(), part, part + got);
  ::close(file);
  bytes.resize(MY_MIN(bytes.size(), limit));
  return bytes;
}

/* The transactions that the coordinator's file has. */
static std::set<my_xid> decided_transactions(const std::vector<uchar> &bytes)
{
  std::set<my_xid> numbers;
  if (bytes.size() < numbers_from || memcmp(bytes.data(), magic, sizeof(magic)))
    return numbers;
  for (size_t at= numbers_from; at + 8 <= bytes.size(); at+= 8)
    if (const my_xid number= uint8korr(bytes.data() + at))
      numbers.insert(number);
  return numbers;
}

/* Commits in one engine what is decided. */
static my_bool commit_decided(THD *, plugin_ref plugin, void *context)
{
  const auto &decided= *static_cast<const std::set<my_xid> *>(context);
  handlerton *engine= plugin_hton(plugin);
  if (!engine || engine == queue_hton || !engine->recover || !engine->commit_by_xid)
    return false;
  std::vector<XID> prepared(recover_count);
  const int count= engine->recover(ENGINE(engine) prepared.data(), recover_count);
  for (int at= 0; at < count; at++)
    if (decided.count(prepared[at].get_my_xid()))
      engine->commit_by_xid(ENGINE(engine) &prepared[at]);
  return false;
}

/* Whether the last file of the binary log was not closed: its server did not stop properly. */
static bool binlog_is_in_use()
{
  const std::vector<uchar> index= log_bin_index ? bytes_of(log_bin_index, file_bytes_max) : std::vector<uchar>();
  std::string names(index.begin(), index.end()), last;
  for (size_t from= 0, end; (end= names.find('\n', from)) != std::string::npos; from= end + 1)
    last= names.substr(from, end - from);
  const std::vector<uchar> head= bytes_of(last.c_str(), 4 + 19);
  return head.size() > flags_at && (head[flags_at] & in_use);
}

/* Whether the server will decide what is prepared. */
static bool is_after_crash;

static bool is_after_unclean_shutdown()
{
  return is_after_crash || tc_heuristic_recover;
}

/* What commit_by_xid returns for a transaction that is not here; every engine is asked for every one. */
static const int xa_not_here= -4;

static int collect(void *context, const rq_xid *xid)
{
  XID one;
  one.set(static_cast<long>(xid->format), reinterpret_cast<const char *>(xid->gtrid.bytes),
          static_cast<long>(xid->gtrid.len), reinterpret_cast<const char *>(xid->bqual.bytes),
          static_cast<long>(xid->bqual.len));
  static_cast<std::vector<XID> *>(context)->push_back(one);
  return 0;
}

/* The same where the server will decide nothing: it has forgotten its own transactions. */
static int collect_forgotten(void *context, const rq_xid *xid)
{
  collect(context, xid);
  return static_cast<std::vector<XID> *>(context)->back().get_my_xid() != 0;
}

static int decide(const XID *xid, int commit)
{
  const auto *data= reinterpret_cast<const uchar *>(xid->data);
  const rq_xid name= {xid->formatID,
                      {data, static_cast<size_t>(xid->gtrid_length)},
                      {data + xid->gtrid_length, static_cast<size_t>(xid->bqual_length)}};
  rq_error error;
  const int code= rq_decide(&name, commit, &error);
  if (code == RQ_MISSING)
    return xa_not_here;
  if (code)
    sql_print_error("Queue: %s", error.text);
  return code != RQ_OK;
}

/* Transactions that the server has prepared and does not know any more. */
static std::vector<XID> in_doubt;
static std::mutex in_doubt_lock;

/* What names a transaction in messages: the bytes of its XID. */
static std::string text_of(const XID &xid)
{
  static const char digits[]= "0123456789abcdef";
  std::string text;
  for (long at= 0; at < xid.gtrid_length + xid.bqual_length; at++) {
    const uchar byte= static_cast<uchar>(xid.data[at]);
    text+= {digits[byte >> 4], digits[byte & 15]};
  }
  return text;
}

/* Moves the server's transactions out of the list: they are left in doubt. */
static void leave_in_doubt(std::vector<XID> *prepared)
{
  std::lock_guard<std::mutex> locked(in_doubt_lock);
  std::vector<XID> users;
  in_doubt.clear();
  for (XID &xid : *prepared)
    (xid.get_my_xid() ? in_doubt : users).push_back(xid);
  for (const XID &xid : in_doubt)
    sql_print_error("Queue: transaction %s is in doubt: it was prepared before a crash, and the server was then started "
                    "without this engine and has forgotten whether it was committed. Its rows stay hidden until "
                    "SELECT queue_resolve('%s', 'commit') or 'rollback'",
                    text_of(xid).c_str(), text_of(xid).c_str());
  prepared->swap(users);
}

int queue_resolve_in_doubt(const std::string &name, bool commit)
{
  std::lock_guard<std::mutex> locked(in_doubt_lock);
  for (auto xid= in_doubt.begin(); xid != in_doubt.end(); ++xid) {
    if (text_of(*xid) != name)
      continue;
    const int code= decide(&*xid, commit);
    if (!code || code == xa_not_here)
      in_doubt.erase(xid);
    return code;
  }
  return xa_not_here;
}

/*
  The server calls this at its start, again and again until it gets less than it has room for. In between it
  decides what it got, so the list is made once.

  A start after a proper stop refuses to go on when an engine lists a transaction of the server. There can be
  one: a server that crashed was then started without this engine, and has forgotten it. Such a transaction
  stays in doubt, and is not listed.
*/
#if MYSQL_VERSION_ID < 110800
static int queue_recover(handlerton *, XID *list, uint room)
#else
static int queue_recover(XID *list, uint room)
#endif
{
  static std::vector<XID> prepared;
  static size_t given;
  if (!given) {
    prepared.clear();
    const bool decides= is_after_unclean_shutdown();
    rq_each_prepared(decides ? collect : collect_forgotten, &prepared);
    if (!decides)
      leave_in_doubt(&prepared);
  }
  uint count= 0;
  for (; count < room && given < prepared.size(); given++)
    list[count++]= prepared[given];
  if (count < room)
    given= 0;
  return static_cast<int>(count);
}

/* Commits what the coordinator decided before a crash, in queues and in other engines. False when a queue
   can't be written. */
static bool commit_decided_everywhere(const std::vector<XID> &prepared)
{
  const std::vector<uchar> file= bytes_of(opt_tc_log_file, file_bytes_max);
  is_after_crash= opt_bin_log ? binlog_is_in_use() : !file.empty();
  std::set<my_xid> decided= decided_transactions(file);
  if (decided.empty())
    return true;
  for (XID xid : prepared)
    if (decided.count(xid.get_my_xid()) && decide(&xid, 1))
      return false;
  plugin_foreach(nullptr, commit_decided, MYSQL_STORAGE_ENGINE_PLUGIN, &decided);
  return true;
}

bool queue_recover_decided()
{
  std::vector<XID> prepared;
  rq_each_prepared(collect, &prepared);
  return commit_decided_everywhere(prepared);
}

static int queue_commit_by_xid(QUEUE_HTON XID *xid)
{
  return decide(xid, 1);
}

static int queue_rollback_by_xid(QUEUE_HTON XID *xid)
{
  return decide(xid, 0);
}

void queue_set_recovery(handlerton *hton)
{
  hton->recover= queue_recover;
  hton->commit_by_xid= queue_commit_by_xid;
  hton->rollback_by_xid= queue_rollback_by_xid;
}
