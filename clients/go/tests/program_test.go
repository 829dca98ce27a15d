package tests

import (
	"errors"
	"fmt"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"remoraqueue"
)

// built is the folder of what is built for the tests.
var built string

// build builds the program in the folder work.
var build = sync.OnceValues(func() (string, error) {
	var err error
	if built, err = os.MkdirTemp("", "remoraqueue"); err != nil {
		return "", err
	}
	worker := filepath.Join(built, "work")
	if output, err := exec.Command("go", "build", "-o", worker, "./work").CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, output)
	}
	return worker, nil
})

// program is a worker in a process of its own.
type program struct {
	process *exec.Cmd
	ended   chan struct{}
	err     error
}

func (s *scene) program(arguments ...string) *program {
	s.Helper()
	worker, err := build()
	s.must(err)
	arguments = append([]string{s.database}, arguments...)
	p := &program{process: exec.Command(worker, arguments...), ended: make(chan struct{})}
	s.must(p.process.Start())
	s.Cleanup(func() {
		_ = p.process.Process.Kill()
		<-p.ended
	})
	go func() {
		p.err = p.process.Wait()
		close(p.ended)
	}()
	return p
}

// signal sends one.
func (p *program) signal(s *scene, signal syscall.Signal) { s.must(p.process.Process.Signal(signal)) }

// end is by which signal it ended: 0 if it exited without an error.
func (p *program) end(s *scene) syscall.Signal {
	s.Helper()
	within(s, "the program ends", p.ended)
	if p.err == nil {
		return 0
	}
	var exit *exec.ExitError
	s.equal(errors.As(p.err, &exit), true)
	return exit.Sys().(syscall.WaitStatus).Signal()
}

// killable is a queue for workers that are killed.
func killable(t *testing.T, name string) (*scene, *remoraqueue.Queue[int]) {
	s := begin(t, "program_"+name)
	queue := made[int](s, "jobs", remoraqueue.Options{Tries: 50, Backoff: remoraqueue.Backoff{Factor: 1}})
	s.run("CREATE TABLE done (n INT) ENGINE=InnoDB")
	return s, queue
}

func TestSignalsStopAWorkerThatWaits(t *testing.T) {
	s, _ := killable(t, "idle")
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		s.untilWaiting(0)
		started := s.program("jobs", "plain")
		s.untilWaiting(1)
		started.signal(s, signal)
		// It would wait for ten minutes.
		s.equal(started.end(s), syscall.Signal(0))
	}
}

func TestASignalLetsJobsEndAndASecondOneDoesNot(t *testing.T) {
	for _, second := range []bool{false, true} {
		s, queue := killable(t, fmt.Sprintf("busy_%v", second))
		started := s.program("jobs", "transaction")
		s.untilWaiting(1)
		// Its job waits for this table.
		holder := s.conn(s.db)
		_, err := holder.ExecContext(s.ctx(), "LOCK TABLES done WRITE")
		s.must(err)
		put(s, queue, 1)
		s.until("the job waits", func() bool {
			return s.value("SELECT COUNT(*) FROM information_schema.processlist WHERE info LIKE 'INSERT INTO done%'") == "1"
		})
		started.signal(s, syscall.SIGTERM)
		// The signal was handled when the wait has ended, and the job runs on.
		s.untilWaiting(0)
		s.equal(len(started.ended), 0)
		if second {
			started.signal(s, syscall.SIGTERM)
			s.equal(started.end(s), syscall.SIGTERM)
		}
		_, err = holder.ExecContext(s.ctx(), "UNLOCK TABLES")
		s.must(err)
		if !second {
			s.equal(started.end(s), syscall.Signal(0))
			s.equal([]int{s.count("done"), s.count("jobs")}, []int{1, 0})
		}
	}
}

// killAtRandom does 200 jobs with workers that are killed again and again: how often one was done.
func killAtRandom(t *testing.T, kind string) int {
	s, queue := killable(t, "killed_"+kind)
	payloads := []int{}
	for payload := range 200 {
		payloads = append(payloads, payload)
	}
	put(s, queue, payloads...)
	chance := rand.New(rand.NewSource(7))
	for s.count("jobs") > 0 {
		started := s.program("jobs", kind, "0.5")
		enough := s.count("done") + 10 + chance.Intn(50)
		s.until("the worker does something", func() bool { return s.count("done") >= enough || s.count("jobs") == 0 })
		started.signal(s, syscall.SIGKILL)
		s.equal(started.end(s), syscall.SIGKILL)
	}
	s.equal(s.count(queue.Dead()), 0)
	s.equal(s.value("SELECT COUNT(DISTINCT n) FROM done"), "200")
	return s.count("done")
}

func TestNoJobIsLostWhenWorkersAreKilled(t *testing.T) { killAtRandom(t, "plain") }

func TestJobsInTransactionsAreDoneOnceWhenWorkersAreKilled(t *testing.T) {
	if count := killAtRandom(t, "transaction"); count != 200 {
		t.Fatal(count)
	}
}
