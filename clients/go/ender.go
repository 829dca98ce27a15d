package remoraqueue

import (
	"context"
	"database/sql"
	"log/slog"
	"sync"
	"time"
)

const (
	// Between two tries to reach the server: at first, and at most.
	pauseFirst = 100 * time.Millisecond
	pauseMax   = 5 * time.Second
)

// pauses are those between tries that fail: longer and longer.
type pauses struct{ before time.Duration }

func (p *pauses) next() time.Duration {
	p.before = min(max(2*p.before, pauseFirst), pauseMax)
	return p.before
}

// reset is for a try that has succeeded.
func (p *pauses) reset() { p.before = 0 }

// ending is a job that is to end, and how: it has failed, it was not tried, or it is done.
type ending struct {
	job     *leased
	failed  *failure
	untried bool
}

// isLike is whether one statement can end both.
func (e ending) isLike(other ending) bool {
	if e.failed == nil || other.failed == nil {
		return e.failed == other.failed && e.untried == other.untried
	}
	return *e.failed == *other.failed
}

// ender ends messages that workers are done with: many with one statement, on a connection of its own. While
// the server is away, ends are kept.
type ender struct {
	line  line
	lease time.Duration
	log   *slog.Logger
	// Is told of each job, when its token was used, whether it was stale.
	after func(of ending, isStale bool)
	ended chan struct{}

	mutex   sync.Mutex
	changed *sync.Cond
	left    []ending
	// When somebody waits for the end: until when what is left is tried.
	until time.Time
}

func newEnder(db *sql.DB, lease time.Duration, log *slog.Logger, after func(ending, bool)) *ender {
	made := &ender{line: line{db: db}, lease: lease, log: log, after: after, ended: make(chan struct{})}
	made.changed = sync.NewCond(&made.mutex)
	go made.run()
	return made
}

func (e *ender) end(some ...ending) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	e.left = append(e.left, some...)
	e.changed.Broadcast()
}

// close ends what is left. A lease that the server does not hear of in its time ends by itself.
func (e *ender) close() {
	e.mutex.Lock()
	e.until = time.Now().Add(e.lease)
	e.changed.Broadcast()
	e.mutex.Unlock()
	<-e.ended
}

func (e *ender) run() {
	defer close(e.ended)
	defer e.line.close()
	var pause pauses
	for {
		some := e.next()
		if len(some) == 0 {
			return
		}
		err := e.endSome(some)
		if err == nil {
			pause.reset()
			continue
		}
		e.log.Warn("ends of jobs could not be told, which is tried again", "error", err)
		if isLasting(err) || e.isTooLate() {
			e.giveUp(some)
		} else {
			e.end(some...)
		}
		time.Sleep(pause.next())
	}
}

// next are those that one statement can end, and are no longer left. There are none when all have ended, and
// no more come.
func (e *ender) next() []ending {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	for len(e.left) == 0 && e.until.IsZero() {
		e.changed.Wait()
	}
	var some, others []ending
	for _, one := range e.left {
		if len(some) < tokensAtOnce && one.isLike(e.left[0]) {
			some = append(some, one)
		} else {
			others = append(others, one)
		}
	}
	e.left = others
	return some
}

func (e *ender) isTooLate() bool {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	return !e.until.IsZero() && time.Now().After(e.until)
}

func (e *ender) endSome(some []ending) error {
	jobs := make([]*leased, 0, len(some))
	for _, one := range some {
		jobs = append(jobs, one.job)
	}
	ctx, cancel := context.WithTimeout(context.Background(), max(e.lease, answerPatience))
	defer cancel()
	answer, err := e.line.run(ctx, some[0].statement(tokensOf(jobs)))
	if err != nil {
		return err
	}
	stale := staleAmong(answer)
	for _, one := range some {
		token := one.job.currentToken()
		if stale[token] && !one.untried {
			e.log.Warn("the end of a job came too late: its message may be worked on twice", "token", token)
		}
		e.after(one, stale[token])
	}
	return nil
}

func (e ending) statement(tokens []string) string {
	switch {
	case e.untried:
		return releaseStatement(tokens...)
	case e.failed != nil:
		return nackStatement(e.failed, tokens...)
	}
	return ackStatement(tokens...)
}

func (e *ender) giveUp(some []ending) {
	for _, one := range some {
		e.log.Warn("a job could not be ended; it comes again when its lease has ended",
			"token", one.job.currentToken())
		e.after(one, false)
	}
}
