/*
  What the start of a server needs so that transactions with queues and InnoDB are decided rightly after a
  crash.

  Without a binary log the server's coordinator is the file tc.log: it has the number of every transaction that
  all engines have prepared and some have not committed. But at its start the server rolls back all
  prepared transactions, also those that the file has. So the engine commits these before the server looks.
*/
#define MYSQL_SERVER 1

#include <my_global.h>

#include <algorithm>
#include <fcntl.h>
#include <set>
#include <string>
#include <unistd.h>
#include <vector>

#include "sql_class.h"
#include "sql_plugin.h"
#include "log.h"
#include "handler.h"

#include "queue_connection.h"
#include "queue_transaction.h"

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

bool queue_is_after_crash()
{
  return is_after_crash || tc_heuristic_recover;
}

bool queue_commit_decided(const std::vector<XID> &prepared)
{
  const std::vector<uchar> file= bytes_of(opt_tc_log_file, file_bytes_max);
  is_after_crash= opt_bin_log ? binlog_is_in_use() : !file.empty();
  std::set<my_xid> decided= decided_transactions(file);
  if (decided.empty())
    return true;
  for (XID xid : prepared)
    if (decided.count(xid.get_my_xid()) && queue_commit_prepared(&xid))
      return false;
  plugin_foreach(nullptr, commit_decided, MYSQL_STORAGE_ENGINE_PLUGIN, &decided);
  return true;
}
