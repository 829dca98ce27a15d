package remoraqueue

import (
	"context"
	"database/sql"
	"log/slog"
	"sync"
	"time"
)

// A lease is extended so often while it lasts. Two tries may fail before it ends.
const extensionsOfLease = 3

// keeper extends leases while the work continues, on a connection of its own. Jobs that end before their
// first extension cost no connection.
type keeper struct {
	line   line
	lease  time.Duration
	log    *slog.Logger
	cancel context.CancelFunc
	ended  sync.WaitGroup

	mutex sync.Mutex
	jobs  map[*leased]bool
}

func newKeeper(db *sql.DB, lease time.Duration, log *slog.Logger) *keeper {
	ctx, cancel := context.WithCancel(context.Background())
	made := &keeper{line: line{db: db}, lease: lease, log: log, cancel: cancel, jobs: make(map[*leased]bool)}
	made.ended.Add(1)
	go made.run(ctx)
	return made
}

func (k *keeper) add(job *leased) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	k.jobs[job] = true
}

func (k *keeper) remove(job *leased) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	delete(k.jobs, job)
}

// close ends also an extension that is under way: a broken connection may never answer.
func (k *keeper) close() {
	k.cancel()
	k.ended.Wait()
}

func (k *keeper) run(ctx context.Context) {
	defer k.ended.Done()
	defer k.line.close()
	every := max(k.lease/extensionsOfLease, time.Millisecond)
	timer := time.NewTicker(every)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		if err := k.extend(ctx); err != nil && ctx.Err() == nil {
			k.log.Warn("leases could not be extended, which is tried again", "error", err)
		}
	}
}

func (k *keeper) extend(ctx context.Context) error {
	// A connection that does not answer must not use up the lease.
	ctx, cancel := context.WithTimeout(ctx, k.lease)
	defer cancel()
	jobs := k.byToken()
	tokens := make([]string, 0, len(jobs))
	for token := range jobs {
		tokens = append(tokens, token)
	}
	for len(tokens) > 0 {
		some := tokens[:min(len(tokens), tokensAtOnce)]
		tokens = tokens[len(some):]
		answer, err := k.line.run(ctx, extendStatement(some, k.lease))
		if err != nil {
			return err
		}
		for token := range staleAmong(answer) {
			k.lose(jobs[token], token)
		}
	}
	return nil
}

func (k *keeper) byToken() map[string]*leased {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	jobs := make(map[string]*leased)
	for job := range k.jobs {
		jobs[job.currentToken()] = job
	}
	return jobs
}

// lose tells a job that its lease has ended. One that is leased again meanwhile has another token, and one
// that has ended is gone.
func (k *keeper) lose(job *leased, token string) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	if job == nil || !k.jobs[job] || job.currentToken() != token {
		return
	}
	delete(k.jobs, job)
	k.log.Warn("the lease has ended while its job runs", "token", token)
	job.lose()
}
