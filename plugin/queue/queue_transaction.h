/* Transactions of the server in which queues with TRANSACTIONAL=1 take part. */
#ifndef QUEUE_TRANSACTION_H
#define QUEUE_TRANSACTION_H

#include <string>
#include <vector>

#include "queue_abi.h"

/* Whether what the statement does is decided by a later COMMIT or ROLLBACK. */
bool queue_in_transaction(THD *thd);

/*
  Makes the engine a part of the transaction, or of the statement outside of one, before it changes a queue:
  the server then asks it to prepare and to commit. False with an error when that is not possible.
*/
bool queue_join(THD *thd);

/* Notes a change that a ROLLBACK of the transaction leaves as it is: the server then warns of it (1196). */
void queue_note_lasting(THD *thd);

/* Whether queues can have transactions, so that TRANSACTIONAL=1 is allowed; false with an error. */
bool queue_can_join(THD *thd);

/* Sets what the server calls in a transaction. */
void queue_set_transactions(handlerton *hton);

/*
  At the start, once the queues are open: commits what was decided before a crash and not done. False when a
  queue can't be written: then the server must not go on, because it would forget what was decided.
*/
bool queue_start_transactions();

/* The same, for these transactions and for those of other engines. */
bool queue_commit_decided(const std::vector<XID> &prepared);

/* Commits a prepared transaction in all queues. */
int queue_commit_prepared(const XID *xid);

/*
  Decides a transaction that is in doubt, which the error log names at the start. 0, or an error that was
  logged; -4 when there is none of this name.
*/
int queue_resolve_in_doubt(const std::string &name, bool commit);

/* Whether the server's coordinator has not ended properly, so that it now decides what is prepared. */
bool queue_is_after_crash();

#endif
