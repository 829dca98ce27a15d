package remoraqueue

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// errNoTransaction is why a try has failed whose work is not, or not only, in the transaction: a deadlock has
// rolled it back, and the work has ignored that error, or the work has ended it.
var errNoTransaction = errors.New("the transaction of the job had ended before its message, as a deadlock does")

type workInTransaction func(*leased, *sql.Tx) error

// commitWith does work and the end of its message in one transaction of a connection, which may have
// autocommit. `over` is called when the token is about to be used. After an error the transaction is rolled
// back, also when work panics.
func commitWith(
	ctx context.Context, on Beginner, autocommit bool, job *leased, over func(), work workInTransaction,
) error {
	// The end of a context would roll back at some time. Here ROLLBACK is done when this returns.
	whole := context.WithoutCancel(ctx)
	isOpen := false
	if autocommit {
		defer func() {
			// This would commit a transaction that is open.
			if isOpen || execute(whole, on, "SET autocommit = 1") != nil {
				discard(on)
			}
		}()
		if err := execute(whole, on, noAutocommit); err != nil {
			return err
		}
	}
	tx, err := on.BeginTx(whole, nil)
	if err != nil {
		return err
	}
	isOpen = true
	defer func() {
		if isOpen {
			isOpen = rollBack(whole, on, tx) != nil
		}
	}()
	if err := execute(whole, tx, mark); err != nil {
		return err
	}
	err = work(job, tx)
	if lost := job.lostBy(); lost != nil && err != nil {
		return fmt.Errorf("%w: %w", lost, err)
	} else if lost != nil {
		return lost
	}
	if err == nil {
		err = job.failure()
	}
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return err
	}
	over()
	if err := endWithin(whole, tx, job.currentToken()); err != nil {
		return err
	}
	err = tx.Commit()
	isOpen = err != nil
	return err
}

// endWithin ends the message, if the work has not gone with its transaction.
func endWithin(ctx context.Context, tx *sql.Tx, token string) error {
	if err := execute(ctx, tx, checkMark); numberOf(err) == noSavepoint {
		return errNoTransaction
	} else if err != nil {
		return err
	}
	// Last, so that the row is locked for a short time only.
	ended, err := first(ctx, tx, ackStatement(token))
	if err != nil {
		return err
	}
	if ended[0].String != "1" {
		return problemf(ErrLeaseLost, "the lease of %s has ended: somebody else has this message", token)
	}
	return nil
}

func rollBack(ctx context.Context, on Connection, tx *sql.Tx) error {
	err := tx.Rollback()
	if errors.Is(err, sql.ErrTxDone) {
		// To database/sql a COMMIT is the end, also one that fails.
		return execute(ctx, on, "ROLLBACK")
	}
	return err
}

func execute(ctx context.Context, on Connection, statement string) error {
	_, err := on.ExecContext(ctx, statement)
	return err
}
