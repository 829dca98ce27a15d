/* Transactions of the server in which queues with TRANSACTIONAL=1 take part. */
#ifndef QUEUE_TRANSACTION_H
#define QUEUE_TRANSACTION_H

#include "queue_abi.h"

/* Whether what the statement does is decided by a later COMMIT or ROLLBACK. */
bool queue_in_transaction(THD *thd);

/*
  Makes the engine a part of the transaction, or of the statement outside of one, before it changes a queue:
  the server then asks it to prepare and to commit. False with an error when that is not possible.
*/
bool queue_join(THD *thd);

/* Notes a change that a ROLLBACK of the transaction leaves as it is: the server then warns of it (1196). */
void queue_note_nontransactional(THD *thd);

/* Whether queues can have transactions, so that TRANSACTIONAL=1 is allowed; false with an error. */
bool queue_can_join(THD *thd);

/* Sets what the server calls in a transaction. */
void queue_set_transactions(handlerton *hton);

#endif
